r = brave.search(query='x')
try:
    brave.web_search(nope=1)
except TypeError:
    r = 'caught'
r