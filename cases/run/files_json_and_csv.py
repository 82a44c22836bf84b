import json, csv, os
with open("t.csv", "w") as f:
    csv.writer(f).writerows([["a", "b"], [1, 2]])
with open("t.csv") as f:
    rows = list(csv.DictReader(f))
with open("t.json", "w") as f:
    json.dump(rows, f)
back = json.load(open("t.json"))
os.remove("t.csv"), os.remove("t.json")
back