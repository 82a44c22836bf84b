r = brave.web_search(query="x")
found = [r["count"] > 5, r["query"] == "x"]
[sum(found), brave.search("again")]