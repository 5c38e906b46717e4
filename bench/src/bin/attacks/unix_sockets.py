# 20 processes fill socket pairs until no more data is accepted; at most 4 GB.
import os
import socket
import time

LIMIT = 200 << 20
children = []
for _ in range(20):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        kept, sent = [], 0
        try:
            while sent < LIMIT:
                one, other = socket.socketpair()
                kept += [one, other]
                for end in (one, other):
                    end.setblocking(False)
                    try:
                        while sent < LIMIT:
                            sent += end.send(b"x" * 65536)
                    except BlockingIOError:
                        pass
        except OSError:
            pass
        time.sleep(2)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print("done")
