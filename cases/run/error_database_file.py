import sqlite3

sqlite3.connect("data.db")
