print('one')
brave.search(query='a')
1 / 0