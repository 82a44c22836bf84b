```python
x = 1
if x:
    y = 1 / 0
return x
```