for number in range(3):
    print(ot.version())
    file.info(path=number)