__sanitize__ = []
"x"