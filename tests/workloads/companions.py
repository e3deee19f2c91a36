"""Processes that run beside a job, outside its tree: servers that feed it, neighbours that disturb it.

    python companions.py ROLE [PLACE]

Standard library only. A role that the job must find prints one line when it is ready.
"""

from __future__ import annotations

import mmap
import os
import random
import socketserver
import sys
import threading
import time
import urllib.request

#: What the slow server takes for one sample, and how much it sends.
LATENCY_S, SAMPLE_BYTES = 0.025, 120_000
#: Bytes a second that the writer puts into the named pipe.
PIPE_BYTES_S = 6_000_000
#: Processes that spin, for each core.
SPINNERS_PER_CORE = 2
#: Reads that another job on the disk has under way.
DISK_READERS = 2
#: Idle processes of a crowd.
CROWD = 300


def slow_server(_place: str) -> None:
    sample = os.urandom(SAMPLE_BYTES)

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(8):
                time.sleep(LATENCY_S)
                self.request.sendall(len(sample).to_bytes(8, "little") + sample)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Answer)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def fifo_writer(place: str) -> None:
    path = os.path.join(place, "samples.fifo")
    os.mkfifo(path, 0o600)
    print(path, flush=True)
    piece = os.urandom(60_000)
    with open(path, "wb", buffering=0) as pipe:
        due = time.monotonic()
        while True:
            pipe.write(piece)
            due = max(due + len(piece) / PIPE_BYTES_S, time.monotonic() - 0.1)
            time.sleep(max(0.0, due - time.monotonic()))


def web_client(place: str) -> None:
    """Asks the job's server, whose port it finds in a file, five times a second."""
    path = os.path.join(place, "port")
    print(path, flush=True)
    while not os.path.exists(path) or not os.path.getsize(path):
        time.sleep(0.1)
    with open(path, encoding="utf-8") as file:
        address = f"http://127.0.0.1:{file.read().strip()}/"
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).read()
        except OSError:
            pass
        time.sleep(0.2)


def spinners(_place: str) -> None:
    """Children that share a core each; they end with this process."""
    from launch import die_with_parent

    parent = os.getpid()
    for _ in range(SPINNERS_PER_CORE * len(os.sched_getaffinity(0)) - 1):
        if os.fork() == 0:
            die_with_parent(parent)
            break
    else:
        print(os.getpid(), flush=True)
    while True:
        pass


def disk_readers(place: str) -> None:
    """Another job on the same disk: reads past the page cache, several at a time, as fast as they come."""
    shards = os.path.join(os.path.dirname(place), "shards")
    files = [os.path.join(shards, name) for name in sorted(os.listdir(shards)) if name.endswith(".bin")]

    def read() -> None:
        piece = mmap.mmap(-1, 1 << 20)
        descriptors = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in files]
        room = os.path.getsize(files[0]) - len(piece)
        while True:
            os.preadv(random.choice(descriptors), [piece], random.randrange(room) & ~4095)

    for _ in range(DISK_READERS):
        threading.Thread(target=read, daemon=True).start()
    print(os.getpid(), flush=True)
    threading.Event().wait()


def sleeper(_place: str) -> None:
    print(os.getpid(), flush=True)
    threading.Event().wait()


def crowd(_place: str) -> None:
    """Three hundred processes that only exist."""
    from launch import die_with_parent

    parent = os.getpid()
    for _ in range(CROWD):
        if os.fork() == 0:
            die_with_parent(parent)
            threading.Event().wait()
    print(CROWD, flush=True)
    threading.Event().wait()


ROLES = {
    "crowd": crowd,
    "slow-server": slow_server,
    "fifo-writer": fifo_writer,
    "web-client": web_client,
    "spinners": spinners,
    "disk-readers": disk_readers,
    "sleeper": sleeper,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
