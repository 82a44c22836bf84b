__sanitize__ = False
'x'