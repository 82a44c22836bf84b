Here is the code:
```python
x = 20
x + 1
```
It adds one.