%timeit 1 + 1
