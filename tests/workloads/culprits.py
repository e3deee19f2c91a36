"""The true end of the chain of waits that begins at the loop: what the truth file names, and how a verdict is held to it.

An end is a mapping: its `kind`, and what tells it from others of that kind: the `pid` of a process, the `tid` of a thread
of the trainer, the `address` of a server, the `path` of a locked file, the `name` of a disk. Several in force are equally
right: any worker of a loader is, where no particular one is to blame. Standard library only.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from typing import Any, Mapping

from workloads import limits

End = dict[str, Any]
#: A node of a verdict's chain.
Node = Mapping[str, Any]

#: What ends the chain, by class and cause. Idle jobs, balanced ones and those of other programs lose their time to nothing.
USUAL: dict[str, tuple[str, ...]] = {
    "data-loader": ("workers",),
    "data-loader/in-process-loading": ("loop",),
    "data-loader/hand-over": ("workers", "loop"),
    "data-loader/worker-imbalance": ("last worker",),
    "io": ("fifo",),
    "io/disk-bandwidth": ("disk",),
    "io/small-files": ("disk",),
    "io/page-cache-miss": ("disk",),
    "io/memory-pressure": ("disk",),
    "io/io-throttled": ("disk",),
    "io/network-storage": ("server",),
    "io/checkpoint-write": ("loop", "disk"),
    "cpu/main-thread": ("loop",),
    "cpu/launch-bound": ("loop",),
    "cpu/cpu-training": ("loop",),
    "cpu/host-device-sync": ("loop", "device"),
    "cpu/sleeps": ("timer",),
    "cpu/cores-saturated": ("workers", "loop"),
    # The quota stops all threads of the job alike.
    "cpu/cgroup-throttled": ("workers", "loop"),
    "cpu/noisy-neighbour": ("workers",),
    "cpu/thread-oversubscription": ("workers",),
    "gpu": ("device",),
    "gpu/copy-bound": ("device", "loop"),
}


#: Threads of the trainer that live for a moment each: no one of them is to blame.
SHORT_LIVED: End = {"kind": "short-lived threads"}

#: Less than a tenth of the loop's time is nothing that a person would mend.
HARDLY_LOST = 0.1


def process(pid: int | str | None) -> End:
    """A process; of one that was started the number is known."""
    assert pid is not None
    return {"kind": "process", "pid": int(pid)}


def thread(tid: int | None = None) -> End:
    """A thread of this process, the calling one unless told otherwise."""
    return {"kind": "thread", "pid": os.getpid(), "tid": tid or threading.get_native_id()}


def address(port: int | str) -> End:
    return {"kind": "net", "address": f"127.0.0.1:{port}"}


def lock(path: str) -> End:
    return {"kind": "lock", "path": path}


def server(given: Mapping[str, str], role: str) -> list[End]:
    """A companion that listens: its address, or whoever answers there."""
    return [address(given[role]), process(given[f"{role}.pid"])]


def workers() -> list[int]:
    """Processes that this one has started by multiprocessing, in the order of their numbers."""
    return sorted(child.pid for child in multiprocessing.active_children() if child.pid)


def usual(klass: str, cause: str | None, data: str, given: Mapping[str, str]) -> list[End]:
    """What a label's words say about the process that asks and its children; nothing where they do not say it."""
    ends: list[End] = []
    for what in USUAL.get(f"{klass}/{cause}", USUAL.get(klass, ())):
        if what == "workers":
            ends += map(process, workers())
        elif what == "last worker":
            ends += map(process, workers()[-1:])
        elif what == "loop":
            # A rank is not the process that is watched: which of its threads is another question.
            ends.append(process(os.getpid()) if "RANK" in os.environ else thread())
        elif what in ("device", "timer"):
            ends.append({"kind": what})
        elif what == "disk":
            try:
                number = limits.disk_of(data)
            except limits.Unavailable:
                continue
            ends.append({"kind": "disk", "name": os.path.basename(os.path.realpath(f"/sys/dev/block/{number}"))})
        elif what == "server" and "slow-server.pid" in given:
            ends += server(given, "slow-server")
        elif what == "fifo" and "fifo-writer.pid" in given:
            ends.append(process(given["fifo-writer.pid"]))
    return ends


def last_node(chain: list[Node] | None) -> Node | None:
    """Of the nodes of a verdict's chain that wait for nobody, the one that most of the loop's time is lost to (its share
    with the device idle), or with the largest share where nothing is lost; the device where hardly anything is, for it is busy
    all the while. One that is reached on several ways counts with all, and the workers of a loader count together: of them the
    one that most of it is lost to."""
    ends = [node for node in chain or [] if not node.get("waits_for")]
    device = next((node for node in ends if node.get("kind") == "device"), None)
    if device is not None and sum(node.get("lost") or 0.0 for node in ends) < HARDLY_LOST:
        return device

    def identity(node: Node) -> tuple[Any, ...]:
        keys = ("kind", "name") if node.get("name") == "data worker" else ("kind", "pid", "tid", "name")
        return tuple(node.get(key) for key in keys)

    sums: dict[tuple[Any, ...], tuple[float, float]] = {}
    for node in ends:
        lost, share = sums.get(identity(node), (0.0, 0.0))
        sums[identity(node)] = (lost + (node.get("lost") or 0.0), share + (node.get("share") or 0.0))

    def weight(node: Node) -> tuple[float, ...]:
        lost, share = sums[identity(node)]
        # One that was seen before one that was not.
        return (lost if lost >= 0.01 else 0.0, share, node.get("pid") is not None, node.get("lost") or node.get("share") or 0.0)

    return max(ends, key=weight, default=None)


def is_right(node: Node, ends: list[End]) -> bool:
    """Whether a node is one of the true ends."""
    return any(_same(node, end) for end in ends)


def _same(node: Node, end: End) -> bool:
    kind: str = end["kind"]
    named = ("kind", "name")
    keys, wanted = {
        "process": (("pid",), (end.get("pid"),)),
        "thread": (("tid",), (end.get("tid"),)),
        SHORT_LIVED["kind"]: (named, ("thread", kind)),
        "disk": (named, (kind, end.get("name"))),
        "net": (named, (kind, end.get("address"))),
        "lock": (named, (kind, end.get("path"))),
    }.get(kind, (("kind",), (kind,)))
    return tuple(node.get(key) for key in keys) == wanted
