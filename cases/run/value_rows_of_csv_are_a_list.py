import csv
csv.DictReader(["a,b", "1,2"])
