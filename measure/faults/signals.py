"""Signals, terminals and streams."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time

from .bench import Bench, Outcome, Screen, Skipped, expect, fault, read, rows, until

# Appends the name of each signal that it gets, and ends with 9 once there is a file "done".
LISTENS = (
    'for s in TERM HUP USR1 USR2 INT; do trap "echo $s >> heard" $s; done; echo ready > ready; '
    "while [ ! -e done ]; do sleep 0.05; done; exit 9"
)


@fault("SIGTERM to trainmon run", "an entry point forwards signals, and returns the program's status")
def term(bench: Bench) -> Outcome:
    running = bench.start("run", "--log", "x.csv", "-i", "200ms", "--", "sh", "-c", LISTENS)
    until("the program", bench.path("ready").exists)
    began = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        heard = read(bench.path("heard")) + number.name[3:].encode() + b"\n"
        running.send_signal(number)
        until(number.name, lambda: read(bench.path("heard")) == heard)  # noqa: B023 (called before the next turn)
    recovery = time.monotonic() - began
    bench.path("done").touch()
    done = bench.end(running)
    expect(done.status == 9, f"status {done.status} instead of the program's 9")
    expect(rows(bench.log()), "no rows")
    return Outcome("the program gets TERM, HUP, USR1 and USR2 once each; trainmon exits with its status 9", recovery)


@fault("SIGTERM ends the program of run", "the status is 128 + the signal's number, as in a shell")
def term_ends(bench: Bench) -> Outcome:
    running = bench.start("run", "--log", "x.csv", "--", "sh", "-c", "echo > ready; exec sleep 60")
    until("the program", bench.path("ready").exists)
    running.terminate()
    done = bench.end(running)
    expect(done.status == 143, f"status {done.status}")
    return Outcome("status 143", done.seconds)


@fault("kill -9 of trainmon run", "the program survives")
def killed(bench: Bench) -> Outcome:
    script = "trap 'echo heard > heard' TERM HUP INT; while [ ! -e done ]; do sleep 0.05; done; echo bye > bye"
    running = bench.start("run", "--log", "x.csv", "-i", "200ms", "--", "sh", "-c", script)
    bench.until_lines(3)
    running.kill()
    running.wait()
    time.sleep(0.3)
    bench.path("done").touch()
    until("the program's own end", bench.path("bye").exists)
    expect(not bench.path("heard").exists(), "it was signaled")
    return Outcome("the program runs until it ends")


@fault("Ctrl-C at a terminal, run --log", "the terminal's signal reaches the program once, and trainmon does not repeat it")
def ctrl_c(bench: Bench) -> Outcome:
    screen = Screen(bench, "run", "--log", "x.csv", "-i", "200ms", "--", "sh", "-c", LISTENS)
    until("the program", bench.path("ready").exists)
    time.sleep(0.3)
    screen.press("\x03")
    until("INT", lambda: read(bench.path("heard")))
    time.sleep(0.5)
    heard = read(bench.path("heard"))
    bench.path("done").touch()
    status = screen.end()
    expect((heard, status) == (b"INT\n", 9), f"it heard {heard!r}, status {status}")
    return Outcome("one INT; the log continues until the program ends")


@fault("Ctrl-C after the screen of run was left", "trainmon forwards Ctrl-C while it waits for the program")
def ctrl_c_after_q(bench: Bench) -> Outcome:
    screen = Screen(bench, "run", "-i", "200ms", "--", "sh", "-c", LISTENS)
    screen.up()
    until("the program", bench.path("ready").exists)
    screen.press("q")
    until("the end of the screen", screen.restored)
    time.sleep(0.3)
    screen.press("\x03")
    until("INT", lambda: read(bench.path("heard")) == b"INT\n")
    bench.path("done").touch()
    expect(screen.end() == 9, "another status than the program's")
    return Outcome("one INT, then the program's status")


@fault("trainmon run as PID 1", "trainmon reaps orphans, and no exit status is lost")
def pid_1(bench: Bench) -> Outcome:
    # Two orphans that end at once; their zombies would be counted.
    script = (
        "for i in 1 2; do sh -c '(sleep 0.1 &) ; exit 0'; done; sleep 1.5; "
        "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l > zombies; exit 7"
    )
    command = ["unshare", "--pid", "--fork", "--mount-proc", bench.trainmon, "run", "--log", "x.csv", "--no-stacks"]
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode:
        raise Skipped("cannot make namespaces")
    done = bench.output(*command, "--", "sh", "-c", script)
    zombies = read(bench.path("zombies")).strip()
    expect((done.status, zombies) == (7, b"0"), f"status {done.status}, {zombies!r} zombies: {done.err}")
    return Outcome("no zombies; the program's status 7")


@fault("standard error full, or closed", "a message that cannot be written does not change the status")
def stderr_full(bench: Bench) -> Outcome:
    for broken in ("2>/dev/full", "2>&-", ">/dev/full 2>/dev/full", ">&- 2>&- <&-"):
        command = f'exec {bench.trainmon} run --log x.csv --force -- sh -c "exit 5" {broken}'
        done = bench.output("sh", "-c", command)
        expect(done.status == 5, f"status {done.status} instead of the program's 5 with {broken}")
    return Outcome("the program's status 5")


@fault("nohup trainmon … &, then logout", "signals that were ignored at start stay ignored")
def nohup(bench: Bench) -> Outcome:
    command = [bench.trainmon, "--pid", bench.target(), "--log", "x.csv", "-i", "200ms"]
    process = bench.process(["nohup", *command], cwd=bench.folder, env=bench.environment())
    bench.until_lines(3)
    os.kill(process.pid, signal.SIGHUP)
    bench.until_lines(bench.log().count(b"\n") + 3)
    expect(process.poll() is None, "it has ended")
    return Outcome("it keeps logging")


@fault("QUIT, ABRT, SEGV, ALRM … while the screen is up", "the terminal is restored before the process ends")
def crash(bench: Bench) -> Outcome:
    pid = bench.target()
    slowest = 0.0
    for number in (signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGALRM, signal.SIGUSR1):
        screen = Screen(bench, "--pid", pid, "-i", "200ms")
        screen.up()
        began = time.monotonic()
        screen.process.send_signal(number)
        status = screen.end()
        until(f"the terminal after {number.name}", screen.restored)
        slowest = max(slowest, time.monotonic() - began)
        expect(status == -number, f"{number.name}: status {status}")
    return Outcome("the shell's screen, its modes and the cursor", slowest)


@fault("kill -TSTP, then fg", "the terminal is restored while trainmon is stopped, and taken back after")
def tstp(bench: Bench) -> Outcome:
    # A parent in its session, as a shell is: the kernel does not stop orphaned groups.
    code = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "def foreground():\n"
        "    os.setpgid(0, 0)\n"
        "    os.tcsetpgrp(0, os.getpid())\n"
        "    signal.signal(signal.SIGTTOU, signal.SIG_DFL)\n"
        "p = subprocess.Popen(sys.argv[1:], preexec_fn=foreground)\n"
        "open('pid', 'w').write(str(p.pid))\n"
        "os.waitpid(p.pid, os.WUNTRACED); open('stopped', 'w').write('x')\n"
        "os.waitpid(p.pid, 0)\n"
    )
    arguments = ["-c", code, bench.trainmon, "--pid", bench.target(), "-i", "200ms"]
    screen = Screen(bench, *arguments, program=sys.executable)
    screen.up()
    pid = int(until("its number", lambda: read(bench.path("pid"))))
    os.kill(pid, signal.SIGTSTP)
    until("the stop", bench.path("stopped").exists)
    until("the terminal", screen.restored)
    began, entered = time.monotonic(), screen.written.count(b"\x1b[?1049h")
    os.kill(pid, signal.SIGCONT)
    until("the screen again", lambda: screen.written.count(b"\x1b[?1049h") > entered)
    recovery = time.monotonic() - began
    screen.press("q")
    screen.end()
    until("the terminal given back at the end", screen.restored)
    return Outcome("the shell while trainmon is stopped, then the screen again", recovery)


@fault("ulimit -f", "a file that may not grow is a one-line error, with the last row complete")
def file_limit(bench: Bench) -> Outcome:
    said = []
    for arguments in ("--log x.csv", "record -o x.tmz"):
        words = arguments.split()
        command = " ".join([str(bench.trainmon), *words, "--pid", str(bench.target()), "-i", "100ms", "--duration", "20s"])
        done = bench.output("bash", "-c", f"ulimit -f 4; exec {command}")
        expect(done.status == 1 and "file-size limit" in done.line, f"status {done.status}: {done.err}")
        said.append(done.line)
    expect(rows(bench.log()), "no rows")
    return Outcome(said[0])


@fault("the reader of a pipe stalls", "a signal ends trainmon even if the pipe is full")
def stalled(bench: Bench) -> Outcome:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    process = bench.start("--pid", bench.target(), "--log", "-", "-i", "100ms", stdout=writing)
    os.close(writing)
    bench.closing.callback(os.close, reading)
    until("a full pipe", lambda: struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, b"\0" * 4))[0] > 0)
    # The header alone leaves no room for many rows.
    time.sleep(3)
    began = time.monotonic()
    process.terminate()
    process.wait(10)
    return Outcome("it ends", time.monotonic() - began)


@fault("a terminal of 65535×65535 cells", "a size that does not fit into memory is refused")
def huge(bench: Bench) -> Outcome:
    screen = Screen(bench, "--pid", bench.target(), size=(65535, 65535))
    status = screen.end()
    expect(status == 1, f"status {status}")
    # What it wrote last may reach the reader after its end.
    until("its last line", lambda: screen.written.endswith(b"\n"))
    line = screen.written.decode(errors="replace").strip()
    expect(len(line.splitlines()) == 1 and "65535" in line, f"{line[-300:]!r}")
    return Outcome(line.removeprefix("trainmon: "))
