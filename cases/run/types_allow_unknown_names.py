ot.version()
for path in ['app'] + [missing for missing in []]:
    kind = file.info(path=path)['type']
kind