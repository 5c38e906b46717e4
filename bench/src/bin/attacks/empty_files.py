# Creates a million empty files and folders in each in-memory folder, which use a kilobyte of kernel memory each.
import os

made = 0
for place in ("/tmp", "/dev/shm", "/run", "/dev"):
    try:
        for number in range(1_000_000):
            os.close(os.open(f"{place}/{number}", os.O_CREAT | os.O_WRONLY))
            made += 1
    except OSError as error:
        print(place, error)
print(made, "files")
