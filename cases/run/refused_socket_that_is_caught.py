import socket

try:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)
except OSError as error:
    print("web.fetch" in str(error))
