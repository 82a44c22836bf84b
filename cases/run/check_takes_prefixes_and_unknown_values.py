d = brave.web_search(q='x')
brave.two(d['query'], c=d['count'])