s = """
```js
let a = 1
```
"""
s.strip()