ot.version()
parts = 'a,b'.split(',')
x = '漢字ü'; file.grep('ü', pa=parts)