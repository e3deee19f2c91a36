"""Logs, recordings and settings: moved, cut, damaged, endless, on full disks."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import time

from measure.unpack import unpacked

from .bench import PYTHON, Bench, Done, Outcome, Skipped, expect, fault, needs_root, read, rows, until


def logging(bench: Bench) -> subprocess.Popen[bytes]:
    process = bench.start("--pid", bench.target(), "--log", "x.csv", "-i", "100ms")
    bench.until_lines(4)
    return process


def ended(bench: Bench, process: subprocess.Popen[bytes]) -> Done:
    process.terminate()
    return bench.end(process)


@fault("the log is moved, as logrotate does", "trainmon looks for the log before each row, and starts a new one if it is gone")
def moved(bench: Bench) -> Outcome:
    process = logging(bench)
    bench.path("x.csv").rename(bench.path("x.csv.1"))
    began = time.monotonic()
    until("a new file", lambda: rows(bench.log()[: bench.log().rfind(b"\n") + 1]))
    recovery = time.monotonic() - began
    done = ended(bench, process)
    expect(done.status == 0, f"status {done.status}")
    expect(rows(read(bench.path("x.csv.1"))) and rows(bench.log()), "a file without rows")
    return Outcome(done.err.splitlines()[0], recovery)


@fault("the log is removed just before the end", "rows in a deleted file do not count")
def removed(bench: Bench) -> Outcome:
    process = bench.start("--pid", bench.target(), "--log", "x.csv", "-i", "3s")
    bench.until_lines(2)
    bench.path("x.csv").unlink()
    done = ended(bench, process)
    expect(("rows in x.csv" not in done.err and "row in x.csv" not in done.err) or bench.path("x.csv").exists(), done.err)
    return Outcome(done.err.splitlines()[-1])


@fault("the log is truncated in place", "rows are appended, so there is no hole of NUL bytes")
def copytruncate(bench: Bench) -> Outcome:
    process = logging(bench)
    os.truncate(bench.path("x.csv"), 0)
    bench.until_lines(4)
    done = ended(bench, process)
    text = bench.log()
    expect(text.startswith(b"timestamp,") and rows(text), "no header")
    return Outcome(done.err.splitlines()[0])


@fault("umask 000", "only the owner can read what trainmon writes")
def modes(bench: Bench) -> Outcome:
    pid = bench.target()
    before = os.umask(0)
    try:
        options = ["--pid", pid, "-i", "200ms", "-n", "1", "--log-file", "trainmon.log"]
        bench.finish("--log", "x.csv", *options)
        bench.finish("record", "-o", "x.tmz", *options)
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE(bench.path(name).stat().st_mode) for name in ("x.csv", "x.tmz", "trainmon.log")}
    expect(set(modes.values()) == {0o600}, f"{modes}")
    return Outcome("log, recording and messages have mode 0600")


@fault("a full disk", "a one-line error, with the last row complete")
def full(bench: Bench) -> Outcome:
    needs_root()
    disk = bench.path("disk")
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=False).returncode:
        raise Skipped("cannot mount")
    bench.closing.callback(lambda: subprocess.run(["umount", "--lazy", disk], check=False))
    done = bench.finish("--pid", bench.target(), "--log", disk / "x.csv", "-i", "100ms", status=1)
    expect("disk is full" in done.line, done.line)
    expect(rows(read(disk / "x.csv")), "no rows")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=False)
    refused = bench.finish("--pid", bench.target(), "--log", disk / "y.csv", status=1)
    expect("read-only" in refused.line, refused.line)
    return Outcome(done.line)


@fault("a full disk below a report", "a report is put in place once it is complete, so the old one stays")
def full_report(bench: Bench) -> Outcome:
    needs_root()
    recording(bench)
    disk = bench.path("disk")
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", disk], check=False).returncode:
        raise Skipped("cannot mount")
    bench.closing.callback(lambda: subprocess.run(["umount", "--lazy", disk], check=False))
    (disk / "x.html").write_text("the old one")
    said = ""
    for name in ("x.html", "x.pftrace"):
        command = "report" if name.endswith("html") else "trace"
        done = bench.finish(command, bench.path("x.tmz"), "--force", "-o", disk / name, status=1)
        expect("disk is full" in done.line and "earlier" not in done.line, done.line)
        said = said or done.line
    expect(said.endswith("x.html is as it was"), said)
    expect(os.listdir(disk) == ["x.html"] and read(disk / "x.html") == b"the old one", f"{os.listdir(disk)}")
    return Outcome(said)


@fault("/dev/full", "a one-line error")
def dev_full(bench: Bench) -> Outcome:
    done = bench.finish("--pid", bench.target(), "--log", "/dev/full", "-i", "200ms", status=1)
    return Outcome(done.line)


def recording(bench: Bench) -> bytes:
    bench.finish("record", "--pid", bench.target(), "-o", "x.tmz", "-i", "100ms", "-n", "30")
    return read(bench.path("x.tmz"))


@fault("a damaged recording", "the samples before the damage count, and one line says so")
def damaged(bench: Bench) -> Outcome:
    whole = recording(bench)
    said = ""
    for at in range(600, len(whole) - 40, max(1, len(whole) // 12)):
        for name, text in (("cut", whole[:at]), ("flipped", whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])):
            bench.path("y.tmz").write_bytes(text)
            done = bench.finish("diagnose", "--json", "--replay", "y.tmz", status=None)
            expect(done.status in (0, 1) and len(done.err.splitlines()) <= 1, f"{name} at {at}: {done.err!r}")
            said = done.err.strip().removeprefix("trainmon: ") or said
    return Outcome(said)


@fault("a recording of 3 KiB that unpacks to 8 MiB", "memory is limited by the size of the file")
def bomb(bench: Bench) -> Outcome:
    import zstandard

    whole = recording(bench)
    header, sample, *_ = unpacked(whole).splitlines(keepends=True)
    expect(whole and b'"seen":[' in sample, f"another form of sample: {sample[:300]!r}")
    largest = 0.0
    # Observations of the sampler need no field.
    for count in (2_700_000, 900_000):
        line = sample.replace(b'"seen":[', b'"seen":[' + b"{}," * count, 1).replace(b"{},]", b"{}]")
        packer = zstandard.ZstdCompressor(level=19)
        bench.path("y.tmz").write_bytes(packer.compress(header) + packer.compress(line))
        # A child's figure begins with its parent's memory (setmax_mm_hiwater_rss in fs/exec.c): a small one starts it.
        code = (
            "import resource, subprocess, sys\n"
            "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
            "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        )
        command = [PYTHON, "-c", code, bench.trainmon, "diagnose", "--json", "--replay", "y.tmz"]
        status, kib = map(int, bench.output(*command).out.split())
        expect(status in (0, 1), f"status {status}")
        largest = max(largest, kib / 1024)
    expect(largest < 100, f"{largest:.0f} MiB for a file of {bench.path('y.tmz').stat().st_size} bytes")
    return Outcome(f"refused with {largest:.0f} MiB")


@fault("a FIFO or a device as a recording", "trainmon opens only regular files")
def fifo(bench: Bench) -> Outcome:
    os.mkfifo(bench.path("fifo"))
    for path in (bench.path("fifo"), "/dev/zero"):
        done = bench.finish("diagnose", "--replay", path, status=1, within_s=10)
    return Outcome(done.line, done.seconds)


@fault("TZ=:/dev/zero", "a time zone is a small regular file")
def time_zone(bench: Bench) -> Outcome:
    os.mkfifo(bench.path("fifo"))
    pid = bench.target()
    for zone in ({"TZ": ":/dev/zero"}, {"TZ": "/dev/zero"}, {"TZ": str(bench.path("fifo"))}, {"TZ": "zero", "TZDIR": "/dev"}):
        verdict = bench.diagnose(pid, 1, env=zone)
        expect(verdict["started"].endswith("+00:00") or verdict["started"].endswith("Z"), verdict["started"])
        expect(verdict["self"]["rss_mib"] < 64, f"{verdict['self']['rss_mib']} MiB")
    return Outcome("times in UTC")


@fault("a key of 900 KiB in the configuration", "quotes of foreign text are cut short")
def long_key(bench: Bench) -> Outcome:
    bench.path("c.toml").write_text("x" * 900_000 + " = 1\n")
    done = bench.finish("-c", "c.toml", "--print-config", status=2)
    expect(len(done.line) < 2000, f"{len(done.line)} characters")
    return Outcome(done.line[:60] + " …")


@fault("kill -9 of trainmon × 200, logging and recording", "rows and frames are written in one piece", alone=True)
def killed(bench: Bench) -> Outcome:
    pid, torn = bench.target(), 0
    for turn in range(25):
        processes = []
        for place in range(8):
            name = f"{turn}-{place}"
            what = ["--log", f"{name}.csv"] if place % 2 else ["record", "-o", f"{name}.tmz"]
            options = ["--pid", pid, "-i", "100ms", "--no-stacks", "--nvml-lib", "/nonexistent/x.so"]
            processes.append((name, bench.start(*what, *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)))
        time.sleep(0.25 + 0.013 * turn)
        for _, process in processes:
            process.kill()
            process.wait()
            bench.started.remove(process)
        for name, _ in processes:
            log, record = bench.path(f"{name}.csv"), bench.path(f"{name}.tmz")
            if (text := read(log)) and not text.endswith(b"\n"):
                torn += 1
                bench.finish("--pid", pid, "--log", log, "--append", "-i", "100ms", "-n", "1", "--no-stacks")
            rows(read(log))
            if turn % 5 == 0 and read(record):
                done = bench.finish("diagnose", "--json", "--replay", record, status=None)
                expect(done.status == 0 or "no samples" in done.err, f"{done.err}")
    expect(os.path.exists(f"/proc/{pid}"), "the job is gone")
    return Outcome(f"every log complete ({torn} repaired by --append), every recording readable")


@fault("64 MiB of address space", "a clear error, or a run that continues")
def address_space(bench: Bench) -> Outcome:
    limit = 64 << 20

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = bench.finish(
        "diagnose", "--json", "--pid", bench.target(), "-i", "200ms", "--duration", "1s", preexec_fn=limited, status=None
    )
    if done.status == 0:
        return Outcome(done.json()["summary"])
    expect(done.status == 1 and ("memory" in done.line or "thread" in done.line), f"{done.status}: {done.err}")
    return Outcome(done.line)
