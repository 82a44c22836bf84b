```python
brave.search(query="fenced")
```