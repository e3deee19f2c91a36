"""A storage server on the loopback interface that is slow on purpose: the data source of `demo --bottleneck io`."""

import signal
import socket
import sys
import threading
import time

import job


def serve(connection, delay_s):
    """Answers each line, `OFFSET LENGTH`, with that part of the file, late."""
    with connection, connection.makefile("rb") as requests, open("images.bin", "rb", buffering=0) as images:
        for line in requests:
            offset, length = map(int, line.split())
            time.sleep(delay_s)
            images.seek(offset)
            connection.sendall(images.read(length))


if __name__ == "__main__":
    job.end_with_parent(signal.SIGKILL, job.trainmon())
    # Standard input is the listening socket: its port was known before this program ran.
    listener = socket.socket(fileno=0)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], float(sys.argv[1])), daemon=True).start()
