import zlib
n = len('abc')
zlib.crc32(b'x')
ot.version()
file.info(path=[n])
