"""nvidia-smi's answers as values: `--query-gpu` and `--query-compute-apps` as CSV without units.

Drivers differ in the fields they know and devices in what they offer. A field that nvidia-smi calls invalid is left out and
its older name tried; what a device does not offer is written in words (`[N/A]`, `[Not Supported]`) and becomes None.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: Longer than this no call takes; without persistence mode the driver may have to wake up each device, seconds.
PATIENCE_S = 30.0
#: Words in place of a value, in lower case and without brackets.
NOTHING = frozenset(
    ("", "n/a", "not supported", "not available", "unknown error", "insufficient permissions", "gpu is lost",
     "gpu requires reset", "no permissions", "not found", "unknown")
)  # fmt: skip
_INVALID = re.compile(r'Field "([^"]+)" is not a valid field')

#: One device: value by name of the field; None where it has none.
Row = dict[str, "str | None"]


class SmiFailed(Exception):
    """nvidia-smi is not there, failed, or said what is no CSV; the message is one line."""


@dataclass(frozen=True)
class App:
    """A compute process of nvidia-smi's list."""

    pid: int
    uuid: str
    #: Memory held, MiB; None where the driver does not tell (a MIG instance, a container without the right).
    memory_mib: float | None


def value(text: str) -> str | None:
    """A field's text, or None where it says that there is no value."""
    text = text.strip()
    bare = text.removeprefix("[").removesuffix("]").strip()
    return None if bare.lower() in NOTHING else text


def number(text: str | None) -> float | None:
    """A value as a number: decimal or 0x…, with or without its unit; None for anything else."""
    words = (text or "").split()
    try:
        return float(int(words[0], 16)) if words[0].lower().startswith("0x") else float(words[0])
    except (IndexError, ValueError):
        return None


def table(text: str, names: Iterable[str]) -> list[Row]:
    """CSV without a header as one mapping a line. Raises SmiFailed for a line with another number of fields."""
    names, rows = list(names), []
    for fields in csv.reader(io.StringIO(text), skipinitialspace=True):
        if not fields:
            continue
        if len(fields) != len(names):
            raise SmiFailed(f"nvidia-smi gave {len(fields)} fields for {len(names)}: {','.join(fields)[:80]}")
        rows.append({name: value(field) for name, field in zip(names, fields)})
    return rows


def apps(text: str) -> list[App]:
    """The list of compute processes. A line without a PID ("[Not Found]") is no process that could be compared."""
    found = []
    for row in table(text, ("pid", "uuid", "memory")):
        pid = number(row["pid"])
        if pid is not None:
            found.append(App(int(pid), row["uuid"] or "", number(row["memory"])))
    return found


class Smi:
    """nvidia-smi, or what stands in for it. `command` is the program with the arguments that every call gets."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None):
        self.command, self.environment = command, environment
        #: Fields asked for; those that this nvidia-smi does not know go.
        self.fields: list[str] = []

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [*self.command, *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=PATIENCE_S,
            )  # fmt: skip
        except FileNotFoundError:
            raise SmiFailed(f"{self.command[0]} not found; it comes with the driver") from None
        except OSError as error:
            raise SmiFailed(f"cannot run {self.command[0]}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise SmiFailed(f"nvidia-smi gave no answer within {PATIENCE_S:.0f} s") from None
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise SmiFailed(f"nvidia-smi: exit {done.returncode}: {' '.join(said)[:160] or 'no message'}")
        return done.stdout

    def choose(self, wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str | None]:
        """Finds which of each reading's names this nvidia-smi knows, and asks for these from now on."""
        left = {names: list(names) for names in wanted}
        while True:
            self.fields = list(dict.fromkeys(names[0] for names in left.values() if names))
            try:
                self.query()
            except SmiFailed as error:
                invalid = _INVALID.search(str(error))
                if not invalid or invalid[1] not in self.fields:
                    raise
                for names in left.values():
                    if names and names[0] == invalid[1]:
                        del names[0]
                continue
            return {names: rest[0] if rest else None for names, rest in left.items()}

    def query(self) -> list[Row]:
        """All devices, by the fields chosen."""
        return table(self._run(f"--query-gpu={','.join(self.fields)}", "--format=csv,noheader,nounits"), self.fields)

    def apps(self) -> list[App]:
        """All compute processes, of all devices."""
        return apps(self._run("--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits"))
