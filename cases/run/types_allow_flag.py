n = 5
is_text = isinstance(n, str)
if is_text:
    file.info(path=n)
ot.version() != ''
