try:
    flags = [v > 1 for v in [1, 2, 3]]
    print("count", sum(flags))
except Exception as error:
    print("failed", error)