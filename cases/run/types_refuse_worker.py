n = len('abc')
brave.search(query='x')
brave.two(n, c='many')