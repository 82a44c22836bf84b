import datetime
ot.version()
day = datetime.date(2024, 2, 29)
file.write(path='day.txt', content=day)['created']