brave.search(query='effect')
brave.web_search(nope=1)