"""Text that others have written: secrets in it, and what would steer a terminal."""

from __future__ import annotations

import json

from measure.paths import py_spy
from measure.unpack import unpacked

from .bench import PYTHON, Bench, Outcome, Screen, expect, fault, read

SECRETS = ["hunter2-swordfish", "sk-proj-abcdefghijklmnop0123456789", "s3cr3t-of-the-db", "hf_abcdefghijklmnopqrstuvwxyz"]
SLEEPS = "import time; print(flush=True); time.sleep(600)"


@fault("secrets in the arguments of the job", "secrets are masked as soon as a command line is read")
def secrets(bench: Bench) -> Outcome:
    arguments = [
        f"--password={SECRETS[0]}",
        "--api-key",
        SECRETS[1],
        f"postgres://me:{SECRETS[2]}@db/x",
        f"HF_TOKEN={SECRETS[3]}",
        "--max-tokens",
        "512",
    ]
    pid = str(bench.python(SLEEPS, *arguments))
    shown = {}
    options = ["--pid", pid, "-i", "200ms", "--duration", "1s"]
    shown["json"] = bench.finish("diagnose", "--json", *options).out
    shown["text"] = bench.finish("diagnose", *options).out
    bench.finish("record", "-o", "x.tmz", *options)
    bench.finish("record", "--anonymise", "-o", "y.tmz", *options)
    shown["recording"] = unpacked(read(bench.path("x.tmz")))
    shown["anonymized recording"] = unpacked(read(bench.path("y.tmz")))
    shown["log"] = bench.finish("--log", "-", *options).out
    screen = Screen(bench, "--pid", pid, "-i", "200ms", size=(200, 50))
    screen.up()
    screen.press("q")
    screen.end()
    shown["screen"] = screen.written
    for where, text in shown.items():
        found = [secret for secret in SECRETS if secret.encode() in text]
        expect(not found, f"{found} in the {where}")
    command = json.loads(shown["json"])["command"]
    expect("--max-tokens 512" in command, f"an ordinary option is masked: {command}")
    kept = bench.finish("diagnose", "--json", "--show-secrets", *options).out
    expect(all(secret.encode() in kept for secret in SECRETS), "--show-secrets does not keep them")
    return Outcome(command)


@fault("whole numbers among local variables", "only numbers that count up are recorded")
def integers(bench: Bench) -> Outcome:
    code = """
import time
def main():
    pin, card_number, step = 4711, 4111111111111111, 0
    print(flush=True)
    while True:
        step += 1
        time.sleep(0.02)
main()
"""
    bench.path("loop.py").write_text(code)
    pid, _line = bench.ready([PYTHON, bench.path("loop.py")])
    spy = py_spy()
    options = ["--py-spy", spy] if spy else ["--no-stacks"]
    bench.finish("record", "--pid", pid, "-o", "x.tmz", "-i", "500ms", "--duration", "12s", *options)
    text = unpacked(read(bench.path("x.tmz")))
    # Four digits also turn up by chance in a recording full of times, so variables are told by their names.
    expect(b'"pin"' not in text and b'"card_number"' not in text, "a number that does not count is recorded")
    expect(b"4111111111111111" not in text, "a number that does not count is recorded")
    if spy:
        expect(b'"step"' in text, "the loop's counter is missing")
    return Outcome("the loop's counter, and no other number")


@fault("escape sequences in names", "JSON escapes them and text replaces them, in every output")
def escapes(bench: Bench) -> Outcome:
    hostile = "\x1b]0;x\x07\x1b[2J\u009b31m\u202egnp.\u2066\x7f"
    code = f"open('/proc/self/comm', 'w').write({hostile[:8]!r}); {SLEEPS}"
    options = ["--pid", bench.python(code, hostile), "-i", "200ms", "--duration", "1s"]
    log = bench.path("x\x1b[2J\u009b.csv")
    outputs = [
        bench.finish("diagnose", "--json", *options),
        bench.finish("diagnose", *options),
        bench.finish("doctor", "--json"),
        bench.finish("--log", log, *options),
        bench.finish("--log", log, *options, status=1),
        bench.finish("record", "-o", bench.path("y\x1b[2J.tmz"), *options),
        bench.finish("diagnose", "--replay", bench.path("z\u202e\x1b[2J"), status=1),
        bench.finish("--the\x1b[2Jme", status=2),
    ]
    for done in outputs:
        text = done.out.decode() + done.err
        found = [c for c in text if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066")]
        found = [c for c in found if c not in "\r\t"]
        expect(not found, f"{found} come out: {text[:300]!r}")
    recorded = unpacked(read(bench.path("y\x1b[2J.tmz"))).decode()
    expect(not any(c in recorded for c in "\x1b\u009b\u202e"), "they are in the recording")
    expect(read(log), "no log")
    return Outcome(outputs[4].line)
