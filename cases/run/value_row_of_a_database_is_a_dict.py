import sqlite3

con = sqlite3.connect(":memory:")
con.row_factory = sqlite3.Row
cursor = con.execute("select 1 as a, 2 as b")
[cursor.fetchone(), con.execute("select 3 as c")]
