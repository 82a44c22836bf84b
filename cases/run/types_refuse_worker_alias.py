n = [1, 2]
again(q=n)
ws(n)['query']