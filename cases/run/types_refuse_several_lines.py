ot.version()
wanted = {'path': 'app'}
file.list(
    depth=1,
    path=wanted,
)