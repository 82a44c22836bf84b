found = brave.web_search
found(query="by value")["query"]