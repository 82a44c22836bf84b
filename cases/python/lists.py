numbers = [3, 1, 4, 1, 5, 9, 2, 6]
print(sorted(numbers), sorted(numbers, reverse=True), min(numbers), max(numbers), sum(numbers))
# %%
numbers = [3, 1, 2]
numbers.append(5)
numbers.extend([7, 8])
numbers.insert(0, 9)
numbers.remove(1)
print(numbers, numbers.pop(), numbers.pop(0), numbers)
# %%
print([n ** 2 for n in range(10) if n % 2 == 0])
# %%
matrix = [[1, 2, 3], [4, 5, 6]]
print([[row[i] for row in matrix] for i in range(3)])
# %%
matrix = [[1, 2], [3, 4]]
print([x for row in matrix for x in row])
# %%
print(list(zip([1, 2, 3], "abc")), list(enumerate("ab", start=1)))
# %%
a, *rest, z = [1, 2, 3, 4, 5]
print(a, rest, z)
# %%
a = [1, 2]
b = a
b.append(3)
c = a[:]
c.append(4)
print(a, b, c, a is b, a == c)
# %%
print([1, 2] + [3], [0] * 3, 2 in [1, 2], [1, 2].index(2), [1, 1, 2].count(1))
# %%
items = ["pear", "fig", "apple"]
items.sort(key=len)
print(items, sorted(items, key=lambda s: s[-1]))
# %%
print(any(n > 3 for n in [1, 2, 5]), all(n > 0 for n in [1, 2, 5]), any([]), all([]))
# %%
print(list(map(lambda n: n * 2, [1, 2])), list(filter(None, [0, 1, "", "a"])))
# %%
print(list(reversed([1, 2, 3])), [1, 2, 3][::-1], list(range(10, 0, -3)))
# %%
def chunks(items, size):
    return [items[i:i + size] for i in range(0, len(items), size)]


print(chunks(list(range(7)), 3))
# %%
seen = []
for item in [3, 1, 3, 2, 1]:
    if item not in seen:
        seen.append(item)
print(seen)
# %%
data = [("b", 2), ("a", 2), ("c", 1)]
print(sorted(data, key=lambda p: (-p[1], p[0])))
# %%
stack = []
for ch in "([]{})":
    if ch in "([{":
        stack.append(ch)
    else:
        stack.pop()
print("balanced", not stack)
# %%
values = [1, 2, 3, 4]
values[1:3] = [20, 30, 31]
print(values)
# %%
values = [1, 2, 3, 4, 5]
del values[::2]
print(values)
# %%
try:
    [][0]
except IndexError as error:
    print("IndexError:", error)
# %%
running, total = [], 0
for n in [1, 2, 3]:
    total += n
    running.append(total)
print(running)
# %%
print(max([[1, 2], [3]], key=len), min("banana"), max("banana", "apple"))
# %%
print([*range(3), *"ab"], [[]] * 2, [[] for _ in range(2)])
# %%
grid = [["." for _ in range(4)] for _ in range(2)]
grid[1][2] = "#"
print("\n".join("".join(row) for row in grid))
# %%
nested = [1, [2, [3, [4]]]]


def flatten(item):
    if isinstance(item, list):
        return [x for sub in item for x in flatten(sub)]
    return [item]


print(flatten(nested))
# %%
print(sum([[1], [2]], []), sum(x * y for x, y in zip([1, 2, 3], [4, 5, 6])))
# %%
print(tuple([1, 2]), (1,), (), (1, 2) + (3,), (1, 2) < (1, 3))
# %%
numbers = [5, 2, 8]
for i, n in enumerate(numbers):
    numbers[i] = n * 10
print(numbers)
# %%
left, right = [1, 4, 6], [2, 3, 7]
merged = []
while left and right:
    merged.append(left.pop(0) if left[0] < right[0] else right.pop(0))
print(merged + left + right)
# %%
first = next((n for n in [1, 3, 8, 9] if n % 2 == 0), None)
print(first, next((n for n in [1] if n > 5), "none"))
