match {'a': 1}:
    case {'a': x}:
        r = x
r