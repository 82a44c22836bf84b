```python
1 + 1
```