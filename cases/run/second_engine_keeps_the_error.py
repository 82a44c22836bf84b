r = brave.web_search(query="x")
r + 1