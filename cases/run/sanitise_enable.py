__sanitize__ = True
'x'