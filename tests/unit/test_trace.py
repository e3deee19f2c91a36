"""The traces of `trainmon trace`, read with Perfetto's own schema: alone, and with what torch's profiler wrote of the same process.
Needs the release build.
"""

from __future__ import annotations

import bisect
import collections
import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

from measure.paths import ROOT, TRAINMON
from unit.support import InFolder

Event = perfetto.TrackEvent

#: Of a loader that is too slow, several ranks, a GPU without work, a change in the middle, a loop in a thread, and an end.
RECORDINGS = ("segmentation", "eight-ranks-loader", "under-filled", "change", "loop-in-thread", "worker-restart", "network-storage")

#: Works and sleeps in turn while torch's profiler watches, and says where its trace is.
PROGRAM = """
import sys, time, torch
from torch.profiler import profile, record_function, ProfilerActivity

weights = torch.randn(256, 256, requires_grad=True)
print("ready", flush=True)
sys.stdin.readline()
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for _ in range(3):
        with record_function("works"):
            end = time.monotonic() + 2.0
            while time.monotonic() < end:
                for _ in range(50):
                    rows = torch.randn(256, 256)
                    rows @ rows
                (weights @ rows).sum().backward()
        with record_function("sleeps"):
            time.sleep(2.0)
profiler.export_chrome_trace(sys.argv[1])
"""
INTERVAL = "250ms"
#: An interval, and what lies between the same moment for the profiler and for trainmon, which reads some milliseconds after it was due.
MARGIN_NS = 450_000_000
STEP_NS = 50_000_000


@dataclass(frozen=True)
class Slice:
    """One slice: its track, name, and begin and end in nanoseconds since 1970."""

    track: int
    name: str
    begin: int
    end: int


@dataclass
class Trace:
    """A trace in which every event is in its place."""

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    #: By track: time and value.
    counters: dict[int, list[tuple[int, float]]] = field(default_factory=lambda: collections.defaultdict(list))
    #: The tracks at the two ends of each arrow.
    arrows: list[tuple[int, int]] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, path: str) -> Trace:
        """Decodes a trace and checks what holds for each."""
        file = perfetto.Trace()
        file.ParseFromString(Path(path).read_bytes())
        trace = cls()
        names: dict[tuple[int, int], str] = {}
        times: dict[int, int] = collections.defaultdict(int)
        open_slices: dict[int, list[tuple[str, int]]] = collections.defaultdict(list)
        flows: dict[int, list[tuple[str, int]]] = collections.defaultdict(list)
        for packet in file.packet:
            sequence = packet.trusted_packet_sequence_id
            names.update(((sequence, name.iid), name.name) for name in packet.interned_data.event_names)
            if packet.HasField("clock_snapshot"):
                trace.clocks = [clock.clock_id for clock in packet.clock_snapshot.clocks]
                assert packet.clock_snapshot.primary_trace_clock == perfetto.BUILTIN_CLOCK_REALTIME
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in trace.tracks, track
                assert not track.parent_uuid or track.parent_uuid in trace.tracks, track
                trace.tracks[track.uuid] = track
            if not packet.HasField("track_event"):
                continue
            event, time = packet.track_event, packet.timestamp
            assert trace.clocks and event.track_uuid in trace.tracks, event
            assert time >= times[sequence], (time, times[sequence])
            times[sequence] = time
            if event.type == Event.TYPE_SLICE_BEGIN:
                open_slices[event.track_uuid].append((event.name or names[sequence, event.name_iid], time))
            elif event.type == Event.TYPE_SLICE_END:
                trace.slices.append(Slice(event.track_uuid, *open_slices[event.track_uuid].pop(), time))
            elif event.type == Event.TYPE_COUNTER:
                assert trace.tracks[event.track_uuid].HasField("counter"), event
                trace.counters[event.track_uuid].append((time, event.double_counter_value))
            for flow in event.flow_ids:
                flows[flow].append(("begins", event.track_uuid))
            for flow in event.terminating_flow_ids:
                flows[flow].append(("ends", event.track_uuid))
        assert not any(open_slices.values()), open_slices
        for ends in flows.values():
            assert [what for what, _track in ends] == ["begins", "ends"], ends
            trace.arrows.append((ends[0][1], ends[1][1]))
        return trace

    def named(self, name: str) -> list[int]:
        """The tracks of this name."""
        return [uuid for uuid, track in self.tracks.items() if track.name == name]


def traced(*arguments: str) -> str:
    """Writes a trace; what trainmon said."""
    done = subprocess.run([TRAINMON, "trace", *arguments], check=True, capture_output=True, text=True)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


class OfRecordings(InFolder):
    def test_everything_is_in_its_place(self) -> None:
        for name in RECORDINGS:
            with self.subTest(name):
                path = os.path.join(self.folder, f"{name}.pftrace")
                traced(os.path.join(ROOT, f"tests/recordings/{name}.tmz"), "-o", path)
                trace = Trace.read(path)
                verdicts = [piece for piece in trace.slices if piece.track in trace.named("verdict")]
                self.assertTrue(verdicts)
                for one, next_one in itertools.pairwise(verdicts):
                    self.assertEqual(one.end, next_one.begin)
                units = {track.name: track.counter.unit_name for track in trace.tracks.values() if track.HasField("counter")}
                self.assertEqual([units[name] for name in ("cpu_util_pct", "mem_used_mib", "own work")], ["%", "MiB", "%"])
                self.assertTrue(trace.named("loop"))
                threads = {track.thread.tid for track in trace.tracks.values() if track.HasField("thread")}
                processes = {track.process.pid for track in trace.tracks.values() if track.HasField("process")}
                self.assertTrue(threads and processes)

    def test_the_wait_chain_leads_from_the_loop_to_a_worker(self) -> None:
        path = os.path.join(self.folder, "run.pftrace")
        traced(os.path.join(ROOT, "tests/recordings/segmentation.tmz"), "-o", path)
        trace = Trace.read(path)
        ends = [[trace.tracks[trace.tracks[track].parent_uuid].thread.thread_name for track in arrow] for arrow in trace.arrows]
        self.assertIn(["python", "pt_data_worker"], ends)

    def test_steps_and_batches_are_as_many_and_as_long_as_the_verdict_says(self) -> None:
        for name in ("segmentation", "too-few-workers"):
            with self.subTest(name):
                recording = os.path.join(ROOT, f"tests/recordings/{name}.tmz")
                path = os.path.join(self.folder, f"{name}.pftrace")
                traced(recording, "-o", path)
                trace = Trace.read(path)
                verdict = json.loads(subprocess.check_output([TRAINMON, "diagnose", "--replay", recording, "--json"]))
                for track, margin in (("steps", 0.02), ("batches", 0.04)):
                    pieces = sorted((piece for piece in trace.slices if piece.track in trace.named(track)), key=lambda piece: piece.begin)
                    for one, next_one in itertools.pairwise(pieces):
                        self.assertLessEqual(one.end, next_one.begin)
                    counts = [int(piece.name.split()[0]) if " " in piece.name else 1 for piece in pieces]
                    seconds = sum(piece.end - piece.begin for piece in pieces) / 1e9
                    # One worker makes all batches, so there are as many of them as steps.
                    self.assertAlmostEqual(sum(counts) / seconds, verdict["steps"]["per_s"], delta=margin * verdict["steps"]["per_s"])


class WithTorch(InFolder):
    def test_what_the_profiler_wrote_is_on_the_same_axis(self) -> None:
        profile, recording, path = (os.path.join(self.folder, name) for name in ("prof.json.gz", "run.tmz", "both.pftrace"))
        program = [sys.executable, "-c", PROGRAM, profile]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
            assert job.stdin is not None and job.stdout is not None
            self.assertEqual(job.stdout.readline(), "ready\n")
            record = [TRAINMON, "record", str(job.pid), "-o", recording, "--interval", INTERVAL, "--no-stacks"]
            with subprocess.Popen(record, stderr=subprocess.DEVNULL) as recorder:
                job.stdin.write("\n")
                job.stdin.close()
                self.assertEqual((job.wait(120), recorder.wait(30)), (0, 0))
        self.assertIn("trace in", traced(recording, "--torch-profile", profile, "-o", path))
        trace = Trace.read(path)

        # Every operator and annotation of the profiler, to the nanosecond.
        with gzip.open(profile) as file:
            theirs = json.load(file)
        start = theirs["baseTimeNanoseconds"]
        slices = [event for event in theirs["traceEvents"] if event["ph"] == "X" and event.get("cat") in ("cpu_op", "user_annotation")]
        wanted = collections.Counter((event["name"], start + round(event["ts"] * 1000), round(event["dur"] * 1000)) for event in slices)
        found = collections.Counter((piece.name, piece.begin, piece.end - piece.begin) for piece in trace.slices)
        self.assertGreater(len(wanted), 1000)
        self.assertFalse(wanted - found)

        # It is below the thread that trainmon calls the loop.
        of_loop = next(piece.track for piece in trace.slices if piece.name == "works")
        thread = trace.tracks[trace.tracks[of_loop].parent_uuid].thread
        self.assertEqual((thread.pid, thread.tid), (job.pid, job.pid))

        # Both agree on when it worked.
        (track,) = trace.named("job_cpu_pct")
        cpu = trace.counters[track]
        times = [at for at, _value in cpu]

        def during(name: str) -> list[float]:
            """The values at moments whose whole interval is within a slice of this name."""
            pieces = [piece for piece in trace.slices if piece.name == name]
            moments = [at for piece in pieces for at in range(piece.begin + MARGIN_NS, piece.end - MARGIN_NS, STEP_NS)]
            return [cpu[bisect.bisect(times, at) - 1][1] for at in moments if at >= times[0]]

        works, sleeps = during("works"), during("sleeps")
        self.assertTrue(works and sleeps)
        self.assertGreater(statistics.mean(works), 3 * statistics.mean(sleeps))


if __name__ == "__main__":
    unittest.main()
