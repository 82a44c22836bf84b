found = ws(query='a')
flags = [True, found['count'] > 5]
[found['query'], sum(flags)]