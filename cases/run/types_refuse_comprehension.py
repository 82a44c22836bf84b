ot.version()
[file.info(path=number) for number in range(3)]