__ot
```python
1 + 1
```