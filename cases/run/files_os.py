import os
[os.path.exists("app"), os.listdir("app"), [f for _, _, f in os.walk("app")], os.path.getsize("app/src/main.py"), os.getcwd()]