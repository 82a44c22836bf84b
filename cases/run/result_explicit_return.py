x = 1
if x:
    return x + 1
return 5