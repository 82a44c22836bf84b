r = await brave.search(query='a')
r