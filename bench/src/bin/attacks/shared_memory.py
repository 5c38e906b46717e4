# 20 processes, each with 200 MB of shared memory that is touched and released again, 4 MB at a time.
import mmap
import os
import time

PIECE = 4 << 20
children = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        kept = []
        try:
            for _ in range(50):
                piece = mmap.mmap(-1, PIECE)
                piece.write(b"x" * PIECE)
                piece.madvise(mmap.MADV_DONTNEED)
                kept.append(piece)
        except (OSError, MemoryError):
            pass
        time.sleep(2)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print("done")
