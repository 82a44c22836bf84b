def choose() -> int:
    return 'app'
ot.version()
file.info(path=choose())['type']