def f(command):
    match command:
        case {"op": "add", "args": [a, b]}: return a + b
        case [x, *rest] if x: return rest
        case str() as text: return text.upper()
        case _: return "?"
print(f({"op": "add", "args": [1, 2]}), f([1, 2, 3]), f("a"), f(3.5), [y for x in range(5) if (y := x * 2) > 2])