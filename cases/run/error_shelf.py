import shelve
shelve.open("store")
