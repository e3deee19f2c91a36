"""Odd states of the job, and clocks that jump."""

from __future__ import annotations

import json
import os
import signal
import time

from measure.unpack import unpacked
from workloads.processes import state

from .bench import COMPUTES, PYTHON, Bench, Outcome, control_group, expect, fault, needs_root, read, until


@fault("the job becomes another program", "trainmon reads the command again after an exec")
def executes(bench: Bench) -> Outcome:
    code = "import os, time; print(flush=True); time.sleep(1.5); os.execv('/bin/sleep', ['sleep', '611'])"
    verdict = bench.diagnose(bench.python(code), 4)
    expect(verdict["command"] == "sleep 611", f"{verdict['command']}")
    return Outcome(verdict["command"])


@fault("the job is killed", "the log ends with the job, and says so in one line")
def killed(bench: Bench) -> Outcome:
    target = bench.process(["sleep", "600"])
    process = bench.start("--pid", target.pid, "--log", "x.csv", "-i", "200ms")
    bench.until_lines(3)
    target.kill()
    began = time.monotonic()
    target.wait()
    done = bench.end(process)
    expect(done.status == 0 and "ended" in done.line, f"{done.err}")
    return Outcome(done.line, time.monotonic() - began)


@fault("the job is stopped (SIGSTOP)", "a stopped job is idle, and trainmon does not resume it")
def stopped(bench: Bench) -> Outcome:
    pid = bench.python(COMPUTES)
    os.kill(pid, signal.SIGSTOP)
    verdict = bench.diagnose(pid, 3)
    expect((verdict["class"], verdict["phase"]) == ("idle", "stopped"), f"{verdict['class']}, {verdict['phase']}")
    expect(state(pid) == "T", "it was continued")
    return Outcome(verdict["summary"])


@fault("the job's control group is frozen", "trainmon recognizes docker pause, and names the command that resumes the job")
def frozen(bench: Bench) -> Outcome:
    needs_root()
    state = control_group(bench, "cgroup.freeze", "freezer.state")
    freeze, thaw = ("1", "0") if state.name == "cgroup.freeze" else ("FROZEN", "THAWED")
    target = bench.process([PYTHON, "-c", COMPUTES])
    (state.parent / "cgroup.procs").write_text(str(target.pid))
    state.write_text(freeze)
    try:
        verdict = bench.diagnose(target.pid, 3)
    finally:
        state.write_text(thaw)
        target.kill()
        target.wait()
    expect(verdict["class"] == "idle" and "frozen" in verdict["summary"], f"{verdict['summary']}")
    return Outcome(verdict["summary"])


@fault("the clocks jump, both ways", "a jump is a gap, and yields no rates")
def clocks(bench: Bench) -> Outcome:
    import zstandard

    bench.finish("record", "--pid", bench.target(), "-o", "x.tmz", "-i", "100ms", "-n", "40")
    header, *samples = unpacked(read(bench.path("x.tmz"))).splitlines()
    for field, jump in (("unix_ms", 86_400_000), ("unix_ms", -86_400_000), ("monotonic_ns", -(10**12)), ("boottime_ns", 10**13)):
        changed = [json.loads(sample) for sample in samples]
        for sample in changed[len(changed) // 2 :]:
            sample[field] = max(0, sample[field] + jump)
        lines = [header, *(json.dumps(sample).encode() for sample in changed)]
        bench.path("y.tmz").write_bytes(zstandard.ZstdCompressor().compress(b"\n".join(lines) + b"\n"))
        done = bench.finish("diagnose", "--json", "--replay", "y.tmz")
        verdict = json.loads(done.out)
        shares = [value for value in (verdict["shares"] or {}).values() if value is not None]
        expect(all(0 <= share <= 1 for share in shares), f"{field}: {shares}")
        expect(0 <= verdict["observed_s"] < 60, f"{field}: {verdict['observed_s']} s observed")
    return Outcome(verdict["summary"])


@fault("a zombie as the job", "the right reason, and status 3")
def zombie(bench: Bench) -> Outcome:
    code = "import os, time\npid = os.fork()\nif not pid: os._exit(0)\nprint(pid, flush=True); time.sleep(60)"
    pid = int(bench.ready([PYTHON, "-c", code])[1])
    until("the zombie", lambda: state(pid) == "Z")
    done = bench.finish("diagnose", "--pid", pid, "--duration", "1s", status=3)
    return Outcome(done.line)
