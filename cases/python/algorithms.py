def binary_search(items, target):
    low, high = 0, len(items) - 1
    while low <= high:
        mid = (low + high) // 2
        if items[mid] == target:
            return mid
        if items[mid] < target:
            low = mid + 1
        else:
            high = mid - 1
    return -1


print(binary_search([1, 3, 5, 7, 9], 7), binary_search([1, 3], 4))
# %%
def quicksort(items):
    if len(items) <= 1:
        return items
    pivot = items[len(items) // 2]
    return (
        quicksort([x for x in items if x < pivot])
        + [x for x in items if x == pivot]
        + quicksort([x for x in items if x > pivot])
    )


print(quicksort([3, 6, 1, 8, 2, 9, 2]))
# %%
def bubble(items):
    items = items[:]
    for i in range(len(items)):
        for j in range(len(items) - 1 - i):
            if items[j] > items[j + 1]:
                items[j], items[j + 1] = items[j + 1], items[j]
    return items


print(bubble([5, 1, 4, 2, 8]))
# %%
def merge_sort(items):
    if len(items) < 2:
        return items
    mid = len(items) // 2
    left, right = merge_sort(items[:mid]), merge_sort(items[mid:])
    out = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + left[i:] + right[j:]


print(merge_sort([5, 2, 4, 7, 1, 3, 2, 6]))
# %%
from collections import deque

graph = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}


def bfs(start):
    seen, queue = [start], deque([start])
    while queue:
        for neighbour in graph[queue.popleft()]:
            if neighbour not in seen:
                seen.append(neighbour)
                queue.append(neighbour)
    return seen


print(bfs("a"))
# %%
graph = {1: [2, 3], 2: [4], 3: [4], 4: []}


def dfs(node, seen=None):
    seen = seen or []
    if node not in seen:
        seen.append(node)
        for other in graph[node]:
            dfs(other, seen)
    return seen


print(dfs(1))
# %%
import heapq

graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2, "d": 6}, "c": {"d": 3}, "d": {}}
distances, heap = {}, [(0, "a")]
while heap:
    distance, node = heapq.heappop(heap)
    if node in distances:
        continue
    distances[node] = distance
    for other, weight in graph[node].items():
        heapq.heappush(heap, (distance + weight, other))
print(distances)
# %%
def permutations(items):
    if not items:
        return [[]]
    return [[x] + rest for i, x in enumerate(items) for rest in permutations(items[:i] + items[i + 1:])]


print(permutations([1, 2, 3]))
# %%
def subsets(items):
    result = [[]]
    for item in items:
        result += [subset + [item] for subset in result]
    return result


print(subsets([1, 2, 3]))
# %%
def knapsack(capacity, items):
    best = [0] * (capacity + 1)
    for weight, value in items:
        for c in range(capacity, weight - 1, -1):
            best[c] = max(best[c], best[c - weight] + value)
    return best[capacity]


print(knapsack(10, [(5, 10), (4, 40), (6, 30), (3, 50)]))
# %%
def lcs(a, b):
    table = [[""] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + x if x == y else max(table[i][j + 1], table[i + 1][j], key=len)
    return table[-1][-1]


print(lcs("AGGTAB", "GXTXAYB"))
# %%
def edit_distance(a, b):
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]


print(edit_distance("kitten", "sitting"))
# %%
def two_sum(numbers, target):
    seen = {}
    for i, n in enumerate(numbers):
        if target - n in seen:
            return [seen[target - n], i]
        seen[n] = i


print(two_sum([2, 7, 11, 15], 9), two_sum([3, 2, 4], 6))
# %%
def max_subarray(numbers):
    best = current = numbers[0]
    for n in numbers[1:]:
        current = max(n, current + n)
        best = max(best, current)
    return best


print(max_subarray([-2, 1, -3, 4, -1, 2, 1, -5, 4]))
# %%
def sieve(limit):
    flags = [True] * (limit + 1)
    flags[0:2] = [False, False]
    for n in range(2, int(limit ** 0.5) + 1):
        if flags[n]:
            flags[n * n::n] = [False] * len(range(n * n, limit + 1, n))
    return [n for n, flag in enumerate(flags) if flag]


print(sieve(60))
# %%
def queens(n, row=0, columns=()):
    if row == n:
        return 1
    return sum(
        queens(n, row + 1, columns + (c,))
        for c in range(n)
        if all(c != k and abs(c - k) != row - r for r, k in enumerate(columns))
    )


print([queens(n) for n in range(1, 7)])
# %%
def to_roman(n):
    out = ""
    for value, text in [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while n >= value:
            out, n = out + text, n - value
    return out


print(to_roman(1994), to_roman(58))
# %%
def pascal(rows):
    row = [1]
    for _ in range(rows):
        print(row)
        row = [1] + [a + b for a, b in zip(row, row[1:])] + [1]


pascal(5)
# %%
def spiral(matrix):
    out = []
    while matrix:
        out += matrix.pop(0)
        matrix = [list(row) for row in zip(*matrix)][::-1]
    return out


print(spiral([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))
# %%
def game_of_life(cells):
    from collections import Counter

    around = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)
    return {cell for cell, n in around.items() if n == 3 or (n == 2 and cell in cells)}


print(sorted(game_of_life({(0, 1), (1, 1), (2, 1)})))
# %%
def evaluate(tokens):
    stack = []
    for token in tokens.split():
        if token in "+-*/":
            b, a = stack.pop(), stack.pop()
            stack.append({"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0}[token])
        else:
            stack.append(float(token))
    return stack[0]


print(evaluate("3 4 + 2 *"))
# %%
def compress(text):
    import itertools

    return "".join(f"{c}{len(list(g))}" for c, g in itertools.groupby(text))


print(compress("aaabbc"))
# %%
def topological(graph):
    order, seen = [], set()

    def visit(node):
        if node not in seen:
            seen.add(node)
            for other in graph.get(node, []):
                visit(other)
            order.append(node)

    for node in graph:
        visit(node)
    return order[::-1]


print(topological({"shirt": ["tie"], "tie": ["jacket"], "trousers": ["shoes", "jacket"]}))
# %%
def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


print(matmul([[1, 2], [3, 4]], [[5, 6], [7, 8]]))
# %%
def determinant(m):
    if len(m) == 1:
        return m[0][0]
    return sum((-1) ** i * m[0][i] * determinant([row[:i] + row[i + 1:] for row in m[1:]]) for i in range(len(m)))


print(determinant([[2, 0, 1], [1, 3, 2], [1, 1, 1]]))
# %%
class Trie:
    def __init__(self):
        self.children, self.end = {}, False

    def insert(self, word):
        node = self
        for c in word:
            node = node.children.setdefault(c, Trie())
        node.end = True

    def find(self, prefix):
        node = self
        for c in prefix:
            if c not in node.children:
                return []
            node = node.children[c]
        return list(node.words(prefix))

    def words(self, prefix):
        if self.end:
            yield prefix
        for c, child in sorted(self.children.items()):
            yield from child.words(prefix + c)


t = Trie()
for w in ["car", "cart", "cat", "dog"]:
    t.insert(w)
print(t.find("ca"), t.find("x"))
# %%
parent = {}


def find(x):
    parent.setdefault(x, x)
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


for a, b in [(1, 2), (3, 4), (2, 3)]:
    parent[find(a)] = find(b)
print(find(1) == find(4), find(5) == find(1))
# %%
def coins(amount, values):
    ways = [1] + [0] * amount
    for value in values:
        for n in range(value, amount + 1):
            ways[n] += ways[n - value]
    return ways[amount]


print(coins(100, [1, 5, 10, 25, 50]))
# %%
def longest_unique(text):
    start = best = 0
    seen = {}
    for i, c in enumerate(text):
        if seen.get(c, -1) >= start:
            start = seen[c] + 1
        seen[c] = i
        best = max(best, i - start + 1)
    return best


print(longest_unique("abcabcbb"), longest_unique("pwwkew"))
# %%
def rotate(matrix):
    return [list(row) for row in zip(*matrix[::-1])]


print(rotate([[1, 2], [3, 4]]))
