import textwrap
r = ot.timed(brave.search, query='x')
r['result']