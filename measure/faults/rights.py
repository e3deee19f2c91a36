"""Files that other users could have put there, and what trainmon does with them when it has more rights than they have."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import subprocess
import time
from typing import Any

from measure.paths import py_spy
from measure.unpack import unpacked

from .bench import (
    COMPUTES,
    NOBODY,
    SYSTEM_PYTHON,
    Bench,
    Outcome,
    Skipped,
    expect,
    fault,
    needs_python_of_others,
    needs_root,
    not_seen,
)

# Says that it is py-spy, and leaves a mark wherever it runs.
MARKER = """
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    FILE *mark = fopen("%s", "a");
    if (mark) { fputs("ran\\n", mark); fclose(mark); }
    if (count > 1 && !strcmp(words[1], "--version")) puts("py-spy 0.4.3");
    return 0;
}
"""


def compile_c(bench: Bench, code: str, to: pathlib.Path) -> pathlib.Path:
    source = bench.path(f"{to.name}-{abs(hash(str(to)))}.c")
    source.write_text(code)
    to.parent.mkdir(parents=True, exist_ok=True)
    done = bench.end(bench.process(["cc", "-o", to, source], stderr=subprocess.PIPE), 60)
    if done.status:
        raise Skipped("no C compiler")
    return to


def planted(bench: Bench) -> tuple[pathlib.Path, int, pathlib.Path]:
    """A virtual environment of another user, a job of theirs that runs in it, and where its py-spy leaves its mark."""
    needs_root()
    needs_python_of_others()
    place, mark = bench.path("venv/bin"), bench.path("mark")
    compile_c(bench, MARKER % mark, place / "planted")
    (place / "python").symlink_to(SYSTEM_PYTHON)
    pid, _line = bench.ready([place / "python", "-c", COMPUTES], user=NOBODY, group=NOBODY, extra_groups=[])
    return place, pid, mark


def give_away(folder: pathlib.Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@fault("py-spy planted, link swapped later", "root runs only files that root or trainmon's owner installed")
def swapped_link(bench: Bench) -> Outcome:
    place, pid, mark = planted(bench)
    # A check that follows the link finds root's own file, and may run it.
    harmless = bench.path("harmless")
    (place / "py-spy").symlink_to(compile_c(bench, MARKER % harmless, bench.path("own/py-spy")))
    give_away(place.parent)
    watching = bench.start("diagnose", "--json", "--pid", pid, "-i", "200ms", "--duration", "8s")
    waited = time.monotonic() + 3
    while not harmless.exists() and time.monotonic() < waited:
        time.sleep(0.02)
    (place / "py-spy").unlink()
    (place / "py-spy").symlink_to(place / "planted")
    os.chown(place / "py-spy", NOBODY, NOBODY, follow_symlinks=False)
    verdict = bench.end(watching).json()
    expect(not mark.exists(), "the planted program ran as root")
    expect(not harmless.exists(), "the link of another user was followed")
    why = not_seen(verdict, "stacks")
    expect(f"belongs to user {NOBODY}" in why["why"], f"no word of the owner: {why}")
    expect(why["fix"] and "pip install py-spy" in why["fix"], f"no command that installs it: {why}")
    return Outcome(why["why"])


@fault("py-spy that a group may write to", "others must not be able to write to the file or to a folder above it")
def group_writable(bench: Bench) -> Outcome:
    _, pid, mark = planted(bench)
    own = compile_c(bench, MARKER % mark, bench.path("own/py-spy"))
    for path, mode in ((own, 0o775), (own.parent, 0o775)):
        path.chmod(mode)
        verdict = bench.diagnose(pid, 3, "--py-spy", own)
        expect(not mark.exists(), f"it ran although the mode of {path} is {mode:o}")
        why = not_seen(verdict, "stacks")
        expect("can be written by its group" in why["why"], f"{why}")
        path.chmod(0o755)
    bench.diagnose(pid, 3, "--py-spy", own)
    expect(mark.exists(), "root's own one, which nobody else may write to, does not run")
    return Outcome(why["why"])


@fault("a script in place of py-spy", "root runs no scripts")
def script(bench: Bench) -> Outcome:
    _, pid, mark = planted(bench)
    own = bench.path("own/py-spy")
    own.parent.mkdir()
    own.write_text(f"#!/bin/sh\necho ran >> {mark}\necho py-spy 0.4.3\n")
    own.chmod(0o755)
    why = not_seen(bench.diagnose(pid, 3, "--py-spy", own), "stacks")
    expect(not mark.exists(), "it ran")
    return Outcome(why["why"])


@fault("NVML library of another user", "root loads only files that root or trainmon's owner installed")
def foreign_library(bench: Bench) -> Outcome:
    needs_root()
    library = bench.path("theirs/libnvidia-ml.so.1")
    library.parent.mkdir()
    shutil.copy(bench.nvml, library)
    give_away(library.parent)
    named = not_seen(bench.diagnose(bench.target(), 1, "--nvml-lib", library), "nvml")
    found = not_seen(bench.diagnose(bench.target(), 1, env={"LD_LIBRARY_PATH": str(library.parent)}), "nvml")
    for why in (named, found):
        expect(f"belongs to user {NOBODY}" in why["why"], f"{why}")
    return Outcome(named["why"])


@fault("configuration of a HOME that sudo kept", "root reads no settings of other users")
def foreign_home(bench: Bench) -> Outcome:
    needs_root()
    home = bench.path("home")
    config = home / ".config/trainmon/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('nvml-lib = "/planted.so"\n')
    give_away(home)
    done = bench.finish("--print-config", env={"HOME": str(home)})
    expect(b"/planted.so" not in done.out, "its settings are in effect")
    refused = bench.finish("-c", config, "--print-config", status=2)
    expect(f"belongs to user {NOBODY}" in refused.line, refused.line)
    return Outcome(refused.line)


@fault("trainmon set-user-ID root", "files that the caller names are opened with the caller's rights")
def setuid(bench: Bench) -> Outcome:
    needs_root()
    copy = bench.path("trainmon")
    shutil.copy(bench.trainmon, copy)
    copy.chmod(0o4755)
    if os.statvfs(copy).f_flag & os.ST_NOSUID:
        raise Skipped(f"{bench.folder} is mounted nosuid")
    private, open_to_all = bench.path("private"), bench.path("all")
    private.mkdir(mode=0o700)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (private / "secret").write_text("interval = '5s' # secret")
    caller: dict[str, Any] = {"program": copy, "user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
    target = bench.process(["sleep", "600"], user=NOBODY, group=NOBODY, extra_groups=[]).pid
    refused = bench.finish("--pid", target, "--log", private / "x.csv", "-n", "1", status=1, **caller)
    expect(not (private / "x.csv").exists(), "a log was written where the caller may not write")
    for arguments in (["-c", private / "secret", "--print-config"], ["diagnose", "--replay", private / "secret"]):
        done = bench.finish(*arguments, status=None, **caller)
        expect(done.status in (1, 2) and b"secret" not in done.out, f"{arguments[0]} reads what the caller may not")
    log = open_to_all / "x.csv"
    bench.finish("--pid", target, "--log", log, "-n", "1", "-i", "200ms", **caller)
    found = log.stat()
    expect(found.st_uid == NOBODY and stat.S_IMODE(found.st_mode) == 0o600, "the log is not the caller's")
    return Outcome(refused.line)


@fault("source file that only root may read", "root reads source lines with the rights of the job's user")
def source_of_others(bench: Bench) -> Outcome:
    needs_root()
    needs_python_of_others()
    spy = py_spy()
    if not spy:
        raise Skipped("py-spy is not installed")
    private = bench.path("private.py")
    private.write_text("PASSWORD_OF_ROOT = 'x'\n" * 50)
    private.chmod(0o600)
    code = f"""
import time
loop = compile('def loop():\\n' + '\\n' * 3 + ' while True: sum(range(1000))', {str(private)!r}, 'exec')
names = {{}}
exec(loop, names)
print(flush=True)
names['loop']()
"""
    pid = bench.python(code, user=NOBODY, group=NOBODY, extra_groups=[])
    recording = bench.path("x.tmz")
    done = bench.finish("record", "--pid", pid, "-o", recording, "-i", "200ms", "--duration", "5s", "--py-spy", spy)
    text = unpacked(recording.read_bytes())
    if b'"loop"' not in text:
        raise Skipped(f"py-spy took no stack: {done.err.strip()}")
    expect(b"PASSWORD_OF_ROOT" not in text, "lines of root's file are in the recording")
    return Outcome("the function without its line")
