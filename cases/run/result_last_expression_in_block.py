x = 20
y = 22
x + y