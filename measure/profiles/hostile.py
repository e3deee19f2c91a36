"""Traces that nobody should have to read: damaged, endless, absurd. trainmon answers each within bounds of time and memory, with one
line of error or with a verdict whose figures are possible.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import random
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from measure.profiles import made_up
from measure.profiles.run import Ran, diagnose

#: Every answer comes within these bounds, whatever the file.
SECONDS, MOST_MIB = 10.0, 300.0
#: What no program may say to a person.
PANIC = ("panicked at", "RUST_BACKTRACE", "stack overflow", "memory allocation of", "internal error")
#: Shares are rounded in print.
ROUNDING = 0.002
MB = 1_000_000


@dataclass(frozen=True)
class Case:
    """A bad file."""

    name: str
    #: Writes it; the argument is its path.
    write: Callable[[str], None]
    ending: str = ".json"
    #: Words that the error must contain; the file must be refused if there are any.
    refused: tuple[str, ...] = ()
    #: Whether the file is readable, and must get a profile.
    read: bool = False


def holding(content: bytes) -> Callable[[str], None]:
    def write(path: str) -> None:
        with open(path, "wb") as file:
            file.write(content)

    return write


def listed(events: Iterable[Any]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": list(events)}).encode()


def sound(steps: int = 2) -> bytes:
    """A good trace."""
    file = io.BytesIO()
    made_up.write(file, steps)
    return file.getvalue()


def events(steps: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(sound(steps))["traceEvents"]
    return found


def changed(of: Callable[[dict[str, Any]], bool], **values: Any) -> bytes:
    """The good trace with other values in some of its events."""
    return listed({**one, **values} if of(one) else one for one in events())


def is_kernel(event: dict[str, Any]) -> bool:
    return event.get("cat") == "kernel"


def cut(seed: int, number: int) -> Iterator[Case]:
    """Files that end too early: at the first and last bytes, and in between."""
    draw, plain = random.Random(seed), sound()
    for content, ending in ((plain, ".json"), (gzip.compress(plain, mtime=0), ".json.gz")):
        places = [1, 2, 10, len(content) - 1, len(content) - 3, *(draw.randrange(len(content)) for _ in range(number))]
        yield from (Case(f"cut at {place}", holding(content[:place]), ending) for place in places)


def flipped(seed: int, number: int) -> Iterator[Case]:
    """Files with one to thirty wrong bits."""
    draw, plain = random.Random(seed), sound()
    for content, ending in ((plain, ".json"), (gzip.compress(plain, mtime=0), ".json.gz")):
        for turn in range(number):
            damaged = bytearray(content)
            for _ in range(draw.choice((1, 3, 30))):
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
            yield Case(f"bits flipped, {turn}", holding(bytes(damaged)), ending)


#: Texts that stand where JSON has a number. Not all of them are JSON.
NUMBERS = (
    "9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + "0" * 400, "-5", "-9223372036854775808", "-0.0",
    "1e308", "-1e308", "1e999", "1e-400", "0.1234567890123456789", "NaN", "Infinity", "-Infinity", '"4906671918656.5"', '"yesterday"', '""', "null",
    "true", "[]", "{}", "[1, 2]",
)  # fmt: skip


def numbers() -> Iterator[Case]:
    """Times, durations and IDs that cannot be, in one kernel and in all events."""
    marked, of_one = "@@", next(index for index, one in enumerate(events()) if is_kernel(one))
    for key in ("ts", "dur"):
        one = listed({**event, key: marked} if index == of_one else event for index, event in enumerate(events())).decode()
        every = listed({**event, key: marked} for event in events()).decode()
        for number in NUMBERS:
            for content, where in ((one, "one"), (every, "every")):
                yield Case(f"{key} of {where} event: {number[:24]}", holding(content.replace(f'"{marked}"', number).encode()))
    for key in ("correlation", "stream", "device", "External id", "bytes", "grid", "Input Dims"):
        content = listed({**one, "args": {**one.get("args", {}), key: marked}} for one in events()).decode()
        for number in ("-1", "1e300", "NaN", '"seven"', "null", "{}", '[[1, "x"], -5, [[[]]]]', "[1e300, 1e300, 1e300]", "99999999999999999999"):
            yield Case(f"args.{key}: {number[:24]}", holding(content.replace(f'"{marked}"', number).encode()))
    for key in ("ph", "cat", "name", "pid", "tid", "args"):
        content = listed({**one, key: marked} for one in events()).decode()
        for value in ("null", "5", "1e300", "[]", "{}", '["x", {"y": 1}]', '""', "true"):
            yield Case(f"{key}: {value}", holding(content.replace(f'"{marked}"', value).encode()))


def times() -> Iterator[Case]:
    """Spans that lie as no program can make them."""
    yield Case("all at once", holding(changed(lambda _: True, ts=5)))
    yield Case("nothing lasts", holding(changed(lambda _: True, dur=0)))
    yield Case("all negative", holding(listed({**one, "ts": -one["ts"]} for one in events() if "ts" in one)))
    yield Case("a year long", holding(changed(is_kernel, dur=3.2e13)))
    yield Case("ends before it begins", holding(changed(is_kernel, dur=-50)))
    yield Case("backward in the file", holding(listed(reversed(events(3)))), read=True)
    spans = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 7} for at in range(5000)]
    yield Case("operators that overlap without nesting", holding(listed([*events(), *spans])), read=True)
    launches = [{**one, "ts": one["ts"] + 1e6} if one.get("cat") == "cuda_runtime" else one for one in events()]
    yield Case("launched after it ran", holding(listed(launches)), read=True)


def phases(number: int) -> Iterator[Case]:
    """Events in two halves, of which one is missing."""
    begins = [{"ph": "B", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at} for at in range(number)]
    yield Case("begins without ends", holding(listed(begins)))
    yield Case("begins without ends, beside others", holding(listed([*begins, *events()])))
    yield Case("ends without begins", holding(listed([*({**one, "ph": "E"} for one in begins), *events()])))
    letters = [{**one, "ph": letter} for one in events() for letter in "bneSTpFPNODvVRcC"]
    yield Case("every other phase", holding(listed(letters)))


def nested(depth: int) -> Iterator[Case]:
    """Brackets in brackets."""
    for opened, closed in (("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")):
        middle = "1" if opened.endswith(":") else ""
        deep = opened * depth + middle + closed * depth
        yield Case(f"{opened} {depth} times, never closed", holding((opened * depth).encode()))
        yield Case(f"{opened} {depth} times", holding(deep.encode()))
        yield Case(f"{opened} {depth} times before the events", holding(b'{"metadata": ' + deep.encode() + b"," + sound()[1:]))
        args = sound().replace(b'"args": {', b'"args": {"deep": ' + deep.encode() + b",", 1)
        yield Case(f"{opened} {depth} times in args", holding(args))


def big_names(size: int, count: int) -> Iterator[Case]:
    """Names that are too long or too many."""
    kernel = next(one for one in events() if is_kernel(one))
    long = [{**kernel, "name": f"{number}" + "x" * size, "ts": kernel["ts"] + 100 * number} for number in range(20)]
    yield Case("kernels with names of a megabyte", holding(listed([*events(), *long])))
    yield Case("a category of a megabyte", holding(changed(is_kernel, cat="kernel" + "x" * size)))
    yield Case("a key of a megabyte", holding(listed([*events(), {**kernel, "y" * size: 1}])), read=True)
    yield Case("a string of megabytes before the events", holding(b'{"metadata": "' + b"z" * (20 * size) + b'",' + sound()[1:]), read=True)

    def many(path: str, event: Callable[[int], dict[str, Any]], beside: list[dict[str, Any]]) -> None:
        with gzip.open(path, "wt", compresslevel=1) as file:
            file.write('{"traceEvents": [\n')
            for one in beside:
                file.write(json.dumps(one) + ",\n")
            for number in range(count):
                file.write(json.dumps(event(number)) + ",\n")
            file.write("{}]}")

    at, shared = kernel["ts"], {"args": kernel["args"]}
    spans: dict[str, Callable[[int], dict[str, Any]]] = {
        "threads": lambda number: {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": number, "ts": at + number, "dur": 3},
        "processes": lambda number: {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": number, "tid": 1, "ts": at, "dur": 3},
        "kernels with names of their own": lambda number: {**kernel, **shared, "name": f"kernel_{number}", "ts": at + number, "dur": 0.5},
        "operators with names of their own": lambda number: {"ph": "X", "cat": "cpu_op", "name": f"op_{number}", "pid": 1, "tid": 1, "ts": at + number},
        "streams": lambda number: {**kernel, "args": {**kernel["args"], "stream": number}, "tid": number, "ts": at + number},
        "GPUs": lambda number: {**kernel, "args": {**kernel["args"], "device": number}, "pid": number, "ts": at + number},
        "steps": lambda number: {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1, "ts": at + number, "dur": 1},
        "waiting calls": lambda number: {
            "ph": "X", "cat": "cuda_runtime", "name": f"cuda{number}Synchronize", "pid": 4515, "tid": 4515, "ts": at + number, "dur": 1,
            "args": {"correlation": number},
        },
        "arrows": lambda number: {"ph": "s", "id": number, "pid": 1, "tid": 1, "ts": at, "cat": "ac2g", "name": "ac2g"},
        "counters": lambda number: {"ph": "C", "pid": 1, "ts": at + number, "name": "memory", "args": {"bytes": number}},
        "operators inside each other": lambda number: {
            "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + number, "dur": 2 * (count - number)
        },
    }  # fmt: skip
    for name, event in spans.items():
        for beside, more in ((events(), ""), ([], " and nothing else")):
            yield Case(f"{count} {name}{more}", lambda path, event=event, beside=beside: many(path, event, beside), ".json.gz")  # type: ignore[misc]


def bomb(head: bytes, repeated: bytes, tail: bytes, times: int) -> Callable[[str], None]:
    """A gzip file of one member, that unpacks to `head`, so many times `repeated`, and `tail`."""

    def write(path: str) -> None:
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
        # After a full flush nothing refers to what came before, so the block can stand anywhere.
        block = packer.compress(repeated) + packer.flush(zlib.Z_FULL_FLUSH)
        with open(path, "wb") as file:
            file.write(b"\x1f\x8b\x08\0\0\0\0\0\2\xff" + first)
            for _ in range(times):
                file.write(block)
            file.write(packer.compress(tail) + packer.flush())
            checksum = zlib.crc32(head)
            for _ in range(times):
                checksum = zlib.crc32(repeated, checksum)
            length = len(head) + times * len(repeated) + len(tail)
            file.write(struct.pack("<II", zlib.crc32(tail, checksum), length % (1 << 32)))

    return write


def bombs(unpacked: int) -> Iterator[Case]:
    """Small files that are large inside."""
    space, zeros = b" " * (8 * MB), b"\0" * (8 * MB)
    event = json.dumps({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}).encode() + b",\n"
    block = event * (8 * MB // len(event))
    times = unpacked // len(space)
    head, tail = b'{"traceEvents": [' + event, b"{}]}"
    yield Case(f"{unpacked // MB} MB of spaces", bomb(b"", space, b"", times), ".json.gz")
    yield Case(f"{unpacked // MB} MB of zeros", bomb(b"", zeros, b"", times), ".json.gz")
    yield Case(f"{unpacked // MB} MB of spaces before the events", bomb(head, space, tail, times), ".json.gz")
    yield Case(f"{unpacked // MB} MB of one name", bomb(b'{"traceEvents": [{"name": "', b"x" * len(space), b'"}]}', times), ".json.gz")
    yield Case(f"{unpacked // MB} MB of one number", bomb(b'{"traceEvents": [{"ts": 1', b"1" * len(space), b"}]}", times), ".json.gz")
    yield Case(f"{unpacked // MB} MB of one event", bomb(head, block, tail, times), ".json.gz")
    yield Case(f"{unpacked // MB} MB of brackets", bomb(b"", b"[" * len(space), b"", times), ".json.gz")


#: The first bytes of what TensorFlow's profiler writes: a plane, its number and its name.
XPLANE = b"\x0a\xd0\x0f\x08\x01\x12\x0f/host:CPU Planes\x1a\x10" + bytes(range(1, 250)) * 40
#: What is no trace, or is one in an unusual dress.
OTHERS = (
    Case("empty", holding(b"")),
    Case("empty, packed", holding(gzip.compress(b"")), ".json.gz"),
    Case("packed twice", holding(gzip.compress(gzip.compress(sound()))), ".json.gz"),
    Case("with a wrong checksum", holding(gzip.compress(sound())[:-8] + b"\0" * 8), ".json.gz"),
    Case("in two members", holding(gzip.compress(sound()[:9000]) + gzip.compress(sound()[9000:])), ".json.gz", read=True),
    Case("packed, without the ending", holding(gzip.compress(sound())), ".json", read=True),
    Case("not packed, with the ending", holding(sound()), ".json.gz", read=True),
    *(Case(f"only {text.decode()[:30]!r}", holding(text)) for text in (
        b" \n", b"{}", b"[]", b"null", b"5", b'"traceEvents"', b'{"traceEvents": []}', b'{"traceEvents": {}}', b'{"traceEvents": null}',
        b'{"traceEvents": [[]]}', b'{"traceEvents": [null, 5, "x"]}', b'{"traceEvents": [{}]}', b'{"traceEvents": [,]}', b'{"traceEvents"',
        b'{"traceEvents": [] "x": 1}', b"[[[[]]]]", b'{"schema": "1.0.3-chakra.0.0.4", "pid": 5, "nodes": []}',
    )),
    Case("a list instead of an object", holding(json.dumps(events()).encode()), read=True),
    Case("with a byte order mark", holding(b"\xef\xbb\xbf" + sound())),
    Case("as UTF-16", holding(sound().decode().encode("utf-16"))),
    Case("one event", holding(listed(one for one in events() if is_kernel(one) and one["args"]["correlation"] < 20))),
    Case("nothing on the GPU", holding(listed(one for one in events() if one.get("cat") not in ("kernel", "gpu_memcpy"))), read=True),
    Case("the GPU alone", holding(listed(one for one in events() if one.get("cat") in ("kernel", "gpu_memcpy"))), read=True),
    Case("the events twice", holding(sound()[:-2] + b', "traceEvents": ' + json.dumps(events()).encode() + b"}")),
    Case("no events, then some", holding(b'{"traceEvents": [],' + sound()[1:])),
    Case("the events inside another object", holding(b'{"data": ' + sound() + b"}")),
    Case("another object's events first", holding(b'{"data": {"traceEvents": 5},' + sound()[1:]), read=True),
    Case("its key written with escapes", holding(sound().replace(b'"traceEvents"', b'"trace\\u0045vents"'))),
    Case("something behind the end", holding(sound() + b"garbage")),
    Case("two traces in one file", holding(sound() + sound())),
    Case("names that are no UTF-8", holding(sound().replace(b"aten::linear", b"aten::\xff\xfe\x80near")), read=True),
    Case("half surrogates", holding(sound().replace(b"aten::linear", b"aten::\\ud800near")), read=True),
    Case("control characters in names", holding(sound().replace(b"aten::item", b"aten\\u001b[2J\\u0007\\u0000item")), read=True),
    Case("bytes", holding(random.Random(7).randbytes(300_000))),
    Case("bytes, packed", holding(gzip.compress(random.Random(7).randbytes(300_000))), ".json.gz"),
    Case("zeros", holding(bytes(MB))),
    Case("XLA's format", holding(XPLANE), ".xplane.pb", refused=("xplane",)),
    Case("XLA's format, packed", holding(gzip.compress(XPLANE)), ".xplane.pb.gz"),
    Case("rocprof's format", holding(b'{"rocprofiler-sdk-tool": [{"metadata": {"node": {"id": 0}}, "buffer_records": {}}]}'), refused=("rocprof",)),
)  # fmt: skip


def cases(small: bool) -> Iterator[Case]:
    """All bad files; the `small` ones take half a minute together."""
    yield from OTHERS
    yield from times()
    yield from cut(1, 10 if small else 200)
    yield from flipped(2, 10 if small else 300)
    yield from numbers()
    yield from phases(20_000 if small else MB)
    yield from nested(20_000 if small else MB)
    yield from big_names(MB, 20_000 if small else MB)
    yield from bombs(100 * MB if small else 10_000 * MB)


def impossible(value: Any, at: str = "") -> Iterator[str]:
    """Numbers of a verdict that are not finite."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from impossible(part, f"{at}.{key}")
    elif isinstance(value, list):
        for part in value[:100]:
            yield from impossible(part, at)
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{at} is {value}"


def contradictions(profile: dict[str, Any]) -> Iterator[str]:
    """Shares of a profile that cannot all be true."""
    for gpu in profile.get("devices") or []:
        parts = [gpu[name] for name in ("busy", "compute", "communication", "exposed", "copy")]
        reasons = list(gpu["idle_by"].values())
        if any(part is not None and not -ROUNDING <= part <= 1 + ROUNDING for part in (*parts, *reasons)):
            yield f"GPU {gpu['index']}: a share below 0 or above 1"
        elif abs(gpu["busy"] + sum(reasons) - 1) > 3 * ROUNDING:
            yield f"GPU {gpu['index']}: busy and idle add up to {gpu['busy'] + sum(reasons):.3f}"
        if gpu["kernels"] is not None and gpu["kernels"] < 0:
            yield f"GPU {gpu['index']}: {gpu['kernels']} kernels"
    if profile["window_ms"] is not None and profile["window_ms"] < 0:
        yield f"a window of {profile['window_ms']} ms"


def faults(case: Case, ran: Ran) -> Iterator[str]:
    """What is wrong with the answer."""
    if not ran.in_time or ran.wall_s > SECONDS:
        yield f"took {ran.wall_s:.1f} s"
    if ran.peak_mib > MOST_MIB:
        yield f"took {ran.peak_mib:.0f} MiB"
    if not ran.in_time:
        return
    if any(word in ran.errors for word in PANIC):
        yield f"panicked: {ran.errors.strip()[:200]}"
    if ran.status not in (0, 1):
        yield f"exit {ran.status}"
    elif ran.status == 1:
        yield from refusal(case, ran)
    else:
        yield from answer(case, ran)


def refusal(case: Case, ran: Ran) -> Iterator[str]:
    lines = ran.errors.strip().splitlines()
    if len(lines) != 1:
        yield f"{len(lines)} lines of error"
    if len(ran.errors) > 1000 or not all(line.isprintable() for line in lines):
        yield "an error that nobody can read"
    if ran.output:
        yield "an error, but also an answer"
    if case.read:
        yield f"refused: {ran.message()}"
    if any(word not in ran.errors for word in case.refused):
        yield f"does not say {', '.join(case.refused)}: {ran.message()}"


def answer(case: Case, ran: Ran) -> Iterator[str]:
    try:
        verdict = json.loads(ran.output)
    except ValueError as error:
        yield f"no JSON: {error}"
        return
    yield from impossible(verdict)
    profile = verdict.get("profile")
    if case.refused:
        yield "not refused"
    if case.read and not profile:
        yield "no profile"
    if profile:
        yield from contradictions(profile)


def tried(trainmon: str, chosen: Iterable[Case]) -> Iterator[tuple[Case, Ran, list[str]]]:
    """Runs trainmon on each file."""
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen:
            path = os.path.join(folder, "bad" + case.ending)
            case.write(path)
            ran = diagnose(trainmon, path, SECONDS + 5)
            yield case, ran, list(faults(case, ran))
            os.remove(path)


def report(trainmon: str) -> int:
    """Prints every answer; whether any is wrong."""
    count = wrong = 0
    for case, ran, found in tried(trainmon, cases(small=False)):
        told = ran.message() if ran.status else "a verdict"
        print(f"{'WRONG' if found else 'ok':5} {case.name + ' ' + case.ending:60} {ran.wall_s:6.2f} s {ran.peak_mib:6.0f} MiB  {told[:120]}", flush=True)
        for line in found:
            print(f"      {line}")
        count, wrong = count + 1, wrong + bool(found)
    print(f"\n{count - wrong} of {count} bad files are answered within {SECONDS:.0f} s and {MOST_MIB:.0f} MiB, by one line or by possible figures")
    return 1 if wrong else 0
