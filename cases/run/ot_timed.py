r = ot.timed(brave.search, query='x')
[sorted(r.keys()), r['result']]