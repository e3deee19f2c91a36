"""Too few descriptors, too many processes and threads, CPUs that are busy with what is more important."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

from .bench import NOBODY, Bench, Outcome, Skipped, control_group, expect, fault, needs_root, slowest

CHILDREN = """
import os, signal, sys
for _ in range(%d):
    if not os.fork():
        signal.pause()
print(flush=True)
signal.pause()
"""


def limited(soft: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))


@fault("64 descriptors, 60 children", "each tick has reserved descriptors, and trainmon says what it does not watch")
def descriptors(bench: Bench) -> Outcome:
    said = ""
    for soft, children in ((64, 60), (256, 60), (1024, 400)):
        pid = bench.python(CHILDREN % children)
        found = bench.logged(pid, 5, "200ms", preexec_fn=limited(soft))
        expect(all(row["cpu_util_pct"] for row in found), "host values are missing")
        verdict = bench.diagnose(pid, 1, preexec_fn=limited(soft))
        why = [one["why"] for one in verdict["not_seen"] if "descriptor" in one["why"]]
        expect(why or soft >= 1024, f"not a word of descriptors with {soft}: {verdict['not_seen']}")
        said = said or (why[0] if why else "")
    return Outcome(said)


@fault("5,000 threads in the job", "trainmon says how many threads it does not watch", alone=True)
def threads(bench: Bench) -> Outcome:
    code = """
import threading
threading.stack_size(65536)
end = threading.Event()
for _ in range(5000):
    threading.Thread(target=end.wait, daemon=True).start()
print(flush=True)
end.wait()
"""
    pid = bench.python(code)
    began = time.monotonic()
    verdict = bench.diagnose(pid, 3)
    why = [one["why"] for one in verdict["not_seen"] if "thread" in one["why"]]
    expect(why, f"not a word of threads: {verdict['not_seen']}")
    return Outcome(why[0], time.monotonic() - began - 3)


@fault("10,000 processes on the machine", "trainmon reads the job's own files, and other processes rarely", alone=True)
def processes(bench: Bench) -> Outcome:
    with open("/proc/sys/kernel/pid_max", encoding="utf-8") as file:
        if int(file.read()) < 15_000:
            raise Skipped("this machine allows fewer")
    crowd = bench.python(CHILDREN % 10_000)
    apart = slowest(bench.logged(bench.target(), 8, "500ms"))
    expect(apart < 2.0, f"{apart:.1f} s between two rows")
    expect(os.path.exists(f"/proc/{crowd}"), "the other processes are gone")
    bench.finish("doctor", within_s=60)
    return Outcome(f"rows at most {apart:.1f} s apart at an interval of 0.5 s")


@fault("processes that vanish between two reads", "a process that is gone leaves a gap, never an error")
def vanishing(bench: Bench) -> Outcome:
    code = """
import os, threading, time
def threads():
    while True:
        for one in [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(20)]: one.start()
        time.sleep(0.002)
threading.Thread(target=threads, daemon=True).start()
print(flush=True)
while True:
    for _ in range(20):
        if not os.fork(): os._exit(0)
    for _ in range(20): os.wait()
"""
    bench.logged(bench.python(code), 40, "100ms")
    return Outcome("40 of 40 rows")


@fault("every CPU busy at a higher priority", "all rows arrive, only later", alone=True)
def starved(bench: Bench) -> Outcome:
    needs_root()
    hogs = [bench.process(["nice", "-n", "-15", "sh", "-c", "while :; do :; done"]) for _ in os.sched_getaffinity(0)]
    found = bench.logged(bench.target(), 6, "500ms", within_s=60, preexec_fn=lambda: os.nice(10))
    for hog in hogs:
        hog.kill()
    return Outcome(f"6 of 6 rows, at most {slowest(found):.1f} s apart")


@fault("a job of 1,100 processes in 32 MiB", "trainmon keeps few files of /proc open when memory is scarce", alone=True)
def small_group(bench: Bench) -> Outcome:
    needs_root()
    limit = control_group(bench, "memory.max", "memory.limit_in_bytes")
    limit.write_text(str(32 << 20))
    procs = limit.parent / "cgroup.procs"
    pid = bench.python(CHILDREN % 1100)

    def enter() -> None:
        procs.write_text("0")

    found = bench.logged(pid, 10, "300ms", preexec_fn=enter)
    return Outcome(f"10 rows; self_rss_mib is {found[-1]['self_rss_mib']}")


@fault("another user's job under hidepid=2", "trainmon names the mount option and the fix")
def hidepid(bench: Bench) -> Outcome:
    needs_root()
    # A namespace of PIDs with its own /proc, in which an ordinary user looks at root's process.
    inside = (
        "mount -t proc -o hidepid=2 proc /proc; sleep 60 & "
        f"exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {bench.trainmon} diagnose --pid $!"
    )
    done = bench.output("unshare", "--pid", "--fork", "--mount", "sh", "-c", inside, cwd="/")
    if "mount: " in done.err or "unshare: " in done.err:
        raise Skipped("cannot make namespaces")
    expect(done.status == 3 and "hidepid" in done.line, f"status {done.status}: {done.err}")
    return Outcome(done.line)
