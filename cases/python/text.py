s = "hello world"
print(s.title(), s.upper(), s.capitalize(), s.swapcase())
# %%
words = "the quick brown fox jumps over the lazy dog".split()
print(len(words), max(words, key=len), sorted(words)[:3])
# %%
text = "a,b,,c"
print(text.split(","), text.rsplit(",", 1), text.partition(","))
# %%
name, age = "Ann", 41
print(f"{name!r} is {age:>5} years, {age / 7:.3f} in dogs")
# %%
print("%s has %d items (%.1f%%)" % ("cart", 3, 12.345))
# %%
print("{:<10}|{:^10}|{:>10}".format("left", "mid", "right"))
# %%
print("{0} {1} {0}".format("a", "b"), "{x}-{y}".format(x=1, y=2))
# %%
print(f"{1234567:,} {0.000123:e} {255:#x} {255:b} {7:03d}")
# %%
print("abc"[::-1], "abcdef"[1:4], "abcdef"[-2:], "abcdef"[::2])
# %%
print("madam" == "madam"[::-1], "Madam".lower() == "Madam".lower()[::-1])
# %%
print("  strip me  ".strip() + "|", "xxhixx".strip("x"), "xxhixx".lstrip("x"))
# %%
print("one two three".replace("two", "2"), "aaa".replace("a", "b", 2))
# %%
print("abc".isalpha(), "123".isdigit(), "a1".isalnum(), " ".isspace(), "Abc".istitle())
# %%
print("-".join(str(n) for n in range(5)))
# %%
print("hello".find("l"), "hello".rfind("l"), "hello".count("l"), "hello".find("z"))
# %%
try:
    "hello".index("z")
except ValueError as error:
    print("not found:", error)
# %%
print("hello".startswith(("he", "x")), "file.txt".endswith(".txt"), "file.txt".removesuffix(".txt"))
# %%
print("a\tb".expandtabs(4), "abc".center(9, "*"), "7".zfill(3), "x".ljust(3, ".") + "|")
# %%
print("line1\nline2\r\nline3".splitlines(), "a\nb".splitlines(keepends=True))
# %%
print(ord("a"), chr(8364), "\u00e9".encode(), b"\xc3\xa9".decode("utf-8"))
# %%
vowels = sum(1 for c in "programming is fun" if c in "aeiou")
print("vowels:", vowels)
# %%
print("".join(sorted("listen")) == "".join(sorted("silent")))
# %%
print(repr("it's"), repr('say "hi"'), repr("both ' and \""), repr("tab\tnew\n"))
# %%
print("Hello, World".translate(str.maketrans("lo", "01")))
# %%
shift = 3
print("".join(chr((ord(c) - 97 + shift) % 26 + 97) if c.isalpha() else c for c in "attack at dawn"))
# %%
print("snake_case_name".split("_")[0] + "".join(w.title() for w in "snake_case_name".split("_")[1:]))
# %%
print("\N{SNOWMAN}", "ß".upper(), "İ".lower(), len("naïve"), "straße".casefold())
# %%
print("a" < "b", "apple" < "Apple", "10" < "9", "abc" == "ab" + "c")
# %%
print("ab" * 3, "=" * 20, "na " * 2 + "batman")
# %%
multi = """first
  second
third"""
print([line.strip() for line in multi.splitlines()])
# %%
sentence = "the cat sat on the mat the end"
longest = max(sentence.split(), key=lambda w: (len(w), w))
print(longest, sentence.index("cat"), sentence.split().count("the"))
# %%
print("\n".join(f"{i:2d}. {w}" for i, w in enumerate(["alpha", "beta"], 1)))
# %%
rows = [("name", "qty"), ("pen", 3), ("paper", 12)]
for left, right in rows:
    print(f"{left:<8}{right:>5}")
# %%
print(bytes([72, 105]), b"a" + b"b", bytearray(b"xy"), list(b"ab"), b"hi".hex(), bytes.fromhex("6869"))
