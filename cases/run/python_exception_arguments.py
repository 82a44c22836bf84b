print(ValueError(5), repr(ValueError("a", 1)))
try:
    raise ValueError("a", 2)
except ValueError as error:
    print(error.args)