found = ws(query='a')
[found['query'], sum([True, found['count'] > 5])]