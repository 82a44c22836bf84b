    x = 1
    if x:
        x = 2
    x