This makes a page:

```python
page = """
```js
let a = 1
```
"""
len(page)
```

That is all.
