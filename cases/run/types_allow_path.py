ot.version()
source = proj.onetool / 'src'
file.info(path=source)['type']