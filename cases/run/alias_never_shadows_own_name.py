ws = 5
ws + 1