print("before")
exit()