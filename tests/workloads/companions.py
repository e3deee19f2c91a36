"""Processes that run beside a job, outside its tree: servers that feed it, neighbours that disturb it.

    python companions.py ROLE [PLACE]

Standard library only. A role that the job must find prints one line when it is ready.
"""

from __future__ import annotations

import fcntl
import http.server
import mmap
import os
import random
import socketserver
import sqlite3
import sys
import threading
import time
import urllib.request

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from workloads.processes import die_with_parent

#: What the slow server takes for one sample, and how much it sends.
LATENCY_S, SAMPLE_BYTES = 0.025, 120_000
#: Bytes a second that the writer puts into the named pipe.
PIPE_BYTES_S = 6_000_000
#: Processes that spin, for each core.
SPINNERS_PER_CORE = 2
#: How long a visitor takes all cores, and how long it stays away.
VISITS_S, AWAY_S = 8.0, 9.0
#: Reads that another job on the disk has under way.
DISK_READERS = 2
#: Idle processes of a crowd, and of a big one.
CROWD, BIG_CROWD = 300, 3000
#: What the server of metrics takes for each post, and the feature store for each question; what the store sends.
METRICS_S, FEATURES_S, FEATURES_BYTES = 0.04, 0.025, 4096
#: The collector of output takes so many bytes, and rests so long.
COLLECTED_BYTES, COLLECTOR_RESTS_S = 4096, 0.008
#: How long others hold their locks, and leave them.
HELD_S, LEFT_S = 0.04, 0.004
#: How long a transaction of the importer takes, and how long it rests: who tries again sleeps for up to 0.1 s.
TRANSACTION_S, RESTS_S = 0.3, 0.12


def answer_with(answer: bytes, latency_s: float) -> None:
    """Answers each question of eight bytes, after a while."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(8):
                time.sleep(latency_s)
                self.request.sendall(answer)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Answer)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def slow_server(_place: str) -> None:
    answer_with(SAMPLE_BYTES.to_bytes(8, "little") + os.urandom(SAMPLE_BYTES), LATENCY_S)


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


def fork_per_core() -> None:
    """Returns in children that share the cores, and in this process; they end with it. Its number is printed."""
    parent = os.getpid()
    for _ in range(SPINNERS_PER_CORE * len(os.sched_getaffinity(0)) - 1):
        if os.fork() == 0:
            die_with_parent(parent)
            return
    print(os.getpid(), flush=True)


def spinners(_place: str) -> None:
    """Take every core."""
    fork_per_core()
    while True:
        pass


def visitor(_place: str) -> None:
    """Takes every core for some seconds, as a build does, then none."""
    begun = time.monotonic()
    fork_per_core()
    while True:
        if (time.monotonic() - begun) % (VISITS_S + AWAY_S) >= VISITS_S:
            time.sleep(0.1)


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


def crowd(_place: str, count: int = CROWD) -> None:
    """Processes that only exist."""
    parent = os.getpid()
    for _ in range(count):
        if os.fork() == 0:
            die_with_parent(parent)
            threading.Event().wait()
    print(count, flush=True)
    threading.Event().wait()


def big_crowd(place: str) -> None:
    crowd(place, BIG_CROWD)


def metrics_server(_place: str) -> None:
    """Takes what experiments post, as a tracking server does, and answers when it has stored it."""

    class Store(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(METRICS_S)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def feature_store(_place: str) -> None:
    """Answers with the features of a batch."""
    answer_with(os.urandom(FEATURES_BYTES), FEATURES_S)


def log_collector(_place: str) -> None:
    """Reads what a job prints more slowly than it comes, and passes it on."""
    while piece := os.read(0, COLLECTED_BYTES):
        os.write(1, piece)
        time.sleep(COLLECTOR_RESTS_S)


def journal_holder(place: str) -> None:
    """Another job that appends to the same journal, and takes its time under the lock."""
    path = os.path.join(place, "journal.jsonl")
    with open(path, "a", encoding="utf-8") as journal:
        print(path, flush=True)
        while True:
            fcntl.flock(journal, fcntl.LOCK_EX)
            time.sleep(HELD_S)
            fcntl.flock(journal, fcntl.LOCK_UN)
            time.sleep(LEFT_S)


def importer(place: str) -> None:
    """Another job that writes into the same database, in transactions that take their time."""
    path = os.path.join(place, "runs.db")
    database = sqlite3.connect(path, timeout=60.0, isolation_level=None)
    database.execute("create table if not exists losses (step integer, loss real)")
    print(path, flush=True)
    while True:
        database.execute("begin immediate")
        database.executemany("insert into losses values (?, ?)", [(number, 0.0) for number in range(100)])
        time.sleep(TRANSACTION_S)
        database.execute("commit")
        time.sleep(RESTS_S)


def index_builder(place: str) -> None:
    """Another job that writes the index of a data set which both share: it computes under the lock."""
    path = os.path.join(place, "index.bin")
    with open(path, "wb+") as index:
        index.write(bytes(1 << 16))
        index.flush()
        print(path, flush=True)
        while True:
            fcntl.lockf(index, fcntl.LOCK_EX)
            until, entries = time.monotonic() + HELD_S, []
            while time.monotonic() < until:
                entries = [(number * 7919) % 65_521 for number in range(2000)]
            index.seek(0)
            index.write(bytes(entry & 255 for entry in entries))
            index.flush()
            fcntl.lockf(index, fcntl.LOCK_UN)
            time.sleep(LEFT_S)


ROLES = {
    "metrics-server": metrics_server,
    "feature-store": feature_store,
    "log-collector": log_collector,
    "journal-holder": journal_holder,
    "importer": importer,
    "index-builder": index_builder,
    "crowd": crowd,
    "big-crowd": big_crowd,
    "slow-server": slow_server,
    "fifo-writer": fifo_writer,
    "web-client": web_client,
    "spinners": spinners,
    "visitor": visitor,
    "disk-readers": disk_readers,
    "sleeper": sleeper,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
