ot.version()
[file.info(path=path)['type'] for number, path in enumerate(['app'])]