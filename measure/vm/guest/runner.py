"""Runs in a guest: sets up each environment of a plan, lets trainmon judge a job there, and prints the result.

    runner.py PLAN        the environments of a JSON file, one after the other
    runner.py --here ONE  one environment, in the namespaces and on the root of this process

Output goes to the virtual console: one line of JSON for each environment, after MARK.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from measure.vm.guest import switches
from workloads.simulated_gpu import create, name_owner
from workloads.truth import Truth

MARK = "trainmon-vm:"
PORT = "/dev/hvc0"
OPT = "/opt/vm"
USER = 1000
#: Steps before watching begins, and how long they may take, seconds.
FIRST_STEPS, STARTS_S = 4, 120.0
#: What trainmon may take beside the time that it watches, seconds: processes start slowly under emulation.
PATIENCE_S = 90.0
#: Cases of each property test.
CASES = "32"
#: What goes back of a verdict.
KEPT = (
    "class", "cause", "confidence", "phase", "summary", "shares", "seen", "not_seen", "advice", "evidence",
    "other_findings", "first_verdict_s",
)  # fmt: skip


def put(line: dict[str, Any]) -> None:
    with open(PORT, "w", encoding="ascii") as port:
        port.write(f"{MARK} {json.dumps(line)}\n")


def identity(user: bool, group: str | None) -> Callable[[], None]:
    """What a child does before it becomes its program: joins the control group, becomes the ordinary user."""

    def become() -> None:
        if group:
            with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")
        if user:
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)

    return become


def trainmon(environment: dict[str, Any], device: str, *arguments: str, patience: float) -> subprocess.CompletedProcess[str]:
    command = [f"{OPT}/bin/trainmon", *arguments, "--nvml-lib", f"{OPT}/bin/libfake_nvml.so"]
    command += ["--py-spy", f"{OPT}/bin/py-spy"] if arguments[0] != "doctor" else []
    return subprocess.run(
        command, capture_output=True, timeout=patience, check=False, text=True, errors="replace",
        env={
            **os.environ, "TRAINMON_SIMULATED_DEVICE": device, "HOME": "/tmp", "PATH": f"{OPT}/bin:{os.environ['PATH']}",
            # The driver names processes by PIDs that match nobody here.
            **({"FAKE_NVML_FAIL": "other_pids"} if environment["owner"] == "elsewhere" else {}),
        },
        preexec_fn=identity(environment["user"], None),
    )  # fmt: skip


def watched_pid(started: int, outer: bool) -> int:
    """The job's PID as seen from here: where it runs in a PID namespace of its own, the last of its ancestors' line."""
    if not outer:
        return started
    with open(f"/proc/{started}/task/{started}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


def here(environment: dict[str, Any]) -> dict[str, Any]:
    """Runs the job and trainmon in what is in force, and gives what was seen."""
    folder = f"/tmp/{environment['name']}"
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o777)
    device, truth = f"{folder}/gpu", f"{folder}/truth"
    create(device)
    os.chmod(device, 0o666)
    leave = [f"{OPT}/bin/trainmon", "become-program"] if environment.get("leave") else []
    command = [*environment.get("before_job", []), *leave, sys.executable, f"{OPT}/measure/vm/jobs/train.py"]
    command += [*environment["job"], "--truth", truth, "--device", device, "--seconds", "600"]
    job = subprocess.Popen(
        command, start_new_session=True, preexec_fn=identity(environment["user"], environment.get("group")),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + STARTS_S
        while len(Truth.read(truth).steps) < FIRST_STEPS:
            if job.poll() is not None or time.monotonic() > until:
                return {"error": f"the job made no {FIRST_STEPS} steps in {STARTS_S:g} s (exit status {job.poll()})"}
            time.sleep(0.5)
        pid = str(watched_pid(job.pid, bool(environment.get("before_job"))))
        if environment["owner"] == "here":
            name_owner(device, int(pid))
        doctor = trainmon(environment, device, "doctor", "--json", "--pid", pid, patience=PATIENCE_S)
        seconds = environment["seconds"]
        begin = time.monotonic()
        told = trainmon(
            environment, device, "diagnose", "--json", "--pid", pid, "--duration", f"{seconds}s", *environment["options"],
            patience=seconds + PATIENCE_S,
        )  # fmt: skip
        end = time.monotonic()
        true = Truth.read(truth)
        shares = {"wait": true.wait_share(begin, end), "lost": true.lost_share(begin, end)}
        log = logged(environment, device, pid, f"{folder}/log.csv") if environment["logged_s"] else None
        return {
            "rc": told.returncode,
            "message": told.stderr.strip()[-400:],
            "took_s": end - begin,
            "verdict": kept(told.stdout),
            "doctor": findings(doctor.stdout) or {"error": doctor.stderr.strip()[-300:]},
            "log": log,
            "truth": {**shares, "steps_per_s": true.steps_per_s(begin, end)},
        }
    except subprocess.TimeoutExpired as error:
        return {"error": f"trainmon took longer than {error.timeout:g} s"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def logged(environment: dict[str, Any], device: str, pid: str, path: str) -> dict[str, Any]:
    """Logs the job, and gives how many rows there are and which columns have a value in at least one of them."""
    seconds = environment["logged_s"]
    done = trainmon(
        environment, device, "--pid", pid, "--log", path, "--duration", f"{seconds}s", patience=seconds + PATIENCE_S
    )  # fmt: skip
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {"rows": len(rows), "filled": sorted({name for row in rows for name, value in row.items() if value})}


def kept(text: str) -> dict[str, Any] | None:
    """What goes back of a verdict, and none where there is none."""
    try:
        verdict = json.loads(text)
    except ValueError:
        return None
    chain = [{key: link.get(key) for key in ("name", "state", "share", "at")} for link in verdict["chain"]]
    return {**{key: verdict[key] for key in KEPT}, "steps_per_s": verdict["steps"]["per_s"], "chain": chain}


def findings(text: str) -> dict[str, list[str]] | None:
    """Of doctor's findings, state and words of each."""
    try:
        return {one["what"]: [one["state"], one["detail"][:160]] for one in json.loads(text)["findings"]}
    except ValueError:
        return None


def tested(plan: dict[str, Any]) -> dict[str, Any]:
    """Runs the unit tests of a crate, and gives what failed with its first words."""
    began = time.monotonic()
    done = subprocess.run(
        [plan["program"], "--test-threads", "2"], cwd=plan["crate"], stdin=subprocess.DEVNULL, capture_output=True, check=False,
        text=True, errors="replace", timeout=plan["seconds"], env={**os.environ, "PROPTEST_CASES": CASES, "RUST_BACKTRACE": "0"},
    )  # fmt: skip
    result = re.search(r"^test result: .* (\d+) passed; \d+ failed; (\d+) ignored", done.stdout, re.MULTILINE)
    if result is None:
        return {"error": f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"}
    said = dict(re.findall(r"^---- (\S+) stdout ----\n\n?.*panicked at (.*\n.*)", done.stdout, re.MULTILINE))
    failed = re.findall(r"^test (\S+) .*FAILED$", done.stdout, re.MULTILINE)
    return {
        "passed": int(result[1]), "ignored": int(result[2]), "failed": {name: said.get(name, "")[:300] for name in failed},
        "took_s": time.monotonic() - began,
    }  # fmt: skip


def run(environment: dict[str, Any]) -> dict[str, Any]:
    """Puts the environment in force, runs it here or in namespaces of its own, and takes it back."""
    if "crate" in environment:
        return tested(environment)
    with switches.in_force(environment) as missing:
        if missing:
            return {"skipped": missing}
        inside = environment.get("inside")
        if not inside:
            return here(environment)
        one = json.dumps({**environment, "inside": None})
        command = [*inside, sys.executable, os.path.abspath(__file__), "--here", one]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        try:
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return found
        except (ValueError, IndexError):
            return {"error": f"nothing came out of {inside[0]}: {done.stderr.strip()[-300:]}"}


def main() -> None:
    if sys.argv[1] == "--here":
        print(json.dumps(here(json.loads(sys.argv[2]))))
        return
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    put({"booted": os.uname().release, "uptime_s": time.monotonic()})
    for environment in plan:
        try:
            result = run(environment)
        except Exception:  # one environment fails, and the others still run
            result = {"error": traceback.format_exc(limit=-2)[-600:]}
        put({"environment": environment["name"], **result})
    put({"done": True})


if __name__ == "__main__":
    main()
