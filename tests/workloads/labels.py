"""The table of workloads and of what is true about each: the one place that names their class and cause.

Pure data, standard library only, so that the evaluation can read it without importing torch. `klass` and `cause` are words
of the verdict. `wait` and `busy` are the bounds within which the program's own truth must lie for the label to hold; `check.py`
measures them. Functions are named by the last part of their name alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

Share = tuple[float, float]
#: For `fixed`: the workload's own entry.
SAME = "same"


@dataclass(frozen=True)
class Label:
    """What is true about one workload."""

    name: str
    klass: str
    #: The cause, or None where the class has none, or where naming one is not asked for.
    cause: str | None
    #: One line for a person.
    about: str
    #: The function that runs it, `file:function`; the file alone where the function is called as the workload is.
    entry: str
    #: Causes of the same class that are right as well.
    also_causes: tuple[str, ...] = ()
    #: Other classes that a careful observer may name too, each with a cause or None for any.
    also: tuple[tuple[str, str | None], ...] = ()
    #: Bounds of the share of the main thread's wall time spent waiting for batches.
    wait: Share | None = None
    #: Bounds of the share of the time in which the device worked for this job.
    busy: Share | None = None
    #: Bounds of the share of the time that the loop loses to what the label names, where that is no wait for batches.
    lost: Share | None = None
    #: When watching may begin: "stepping", "ready" (the program says so) or "started".
    start: str = "stepping"
    #: Seconds to watch, where the usual time is too short.
    duration: float | None = None
    #: What the launcher must provide: "real-disk", "cpu-quota=CORES", "read-limit=BYTES_S", "memory-limit=BYTES",
    #: "package=NAME" (an optional Python package), "cpus=N", "compiler" (C++), "slow-output" (into a pipe).
    needs: tuple[str, ...] = ()
    #: Processes that run beside the job: see companions.py.
    companions: tuple[str, ...] = ()
    #: Whether the share of data wait can be held against the verdict's.
    wait_scored: bool = True
    #: The evaluation stops the job with SIGSTOP before watching.
    stop: bool = False
    #: Kept out of the runs that thresholds are calibrated on.
    held_out: bool = False
    #: One of the few that the quick evaluation runs.
    quick: bool = False
    env: dict[str, str] = field(default_factory=dict)
    #: User functions of which each is right as the one that the workers spend most of their time in.
    hottest: tuple[str, ...] = ()
    #: The same of the main thread.
    hottest_main: tuple[str, ...] = ()
    #: User functions of which each holds the line that makes the host wait for the device.
    sync_lines: tuple[str, ...] = ()
    #: A stall comes every so many steps, by the law of too few workers in turn.
    stall_every: int | None = None
    #: The workload without what holds it back, `file:function`; SAME where advice gives a number of workers for it.
    fixed: str | None = None
    #: How many workers or threads make the batches in the changed workload, where the advice names no number.
    more_feeders: int | None = None
    #: What of `needs` (without the value) and `companions` the changed workload does without.
    fixed_without: tuple[str, ...] = ()
    #: Whether the label is true from the beginning; else the time to the first right class is not scored.
    settled: bool = True
    #: For a program that changes, at its event "change": what is right up to then.
    before: tuple[tuple[str, str | None], ...] = ()

    def __post_init__(self) -> None:
        if ":" not in self.entry:
            object.__setattr__(self, "entry", f"{self.entry}:{self.name.replace('-', '_')}")
        if self.fixed == SAME:
            object.__setattr__(self, "fixed", self.entry)

    def holds(self, wait: float | None, busy: float | None, lost: float | None = None) -> bool:
        """Whether measured shares lie within the bounds; a share that was not measured does not speak against it."""
        return _within(wait, self.wait) and _within(busy, self.busy) and _within(lost, self.lost)

    def acceptable(self) -> tuple[tuple[str, str | None], ...]:
        """Every right answer, the best one first; a cause of None means that any will do."""
        first = ((self.klass, self.cause),)
        return first + tuple((self.klass, cause) for cause in self.also_causes) + self.also


def _within(value: float | None, bounds: Share | None) -> bool:
    return bounds is None or value is None or bounds[0] <= value <= bounds[1] + 0.01


STARVED: Share = (0.30, 1.0)
FED: Share = (0.0, 0.08)
#: Lost to something else than batches; and the share that is left to the device then.
LOST: Share = (0.35, 0.95)
IDLE_DEVICE: Share = (0.0, 0.5)

LABELS: tuple[Label, ...] = (
    # --- data-loader -----------------------------------------------------------------------------------------------
    Label("too-few-workers", "data-loader", "too-few-workers",
          "one forked worker computes 60 ms for each 15 ms step; a core is free",
          "loader_cases", also_causes=("transform",), wait=STARVED, quick=True, hottest=("burn",), fixed=SAME),
    Label("too-few-workers-forkserver", "data-loader", "too-few-workers",
          "the same with forkserver, where workers are grandchildren",
          "loader_cases", also_causes=("transform",), wait=STARVED, hottest=("burn",), fixed=SAME),
    Label("too-few-workers-spin", "data-loader", "too-few-workers",
          "a spawned worker; the trainer spins while it waits for the device, as CUDA does by default",
          "loader_cases", also_causes=("transform",), wait=STARVED, held_out=True, hottest=("burn",), fixed=SAME),
    Label("pinned", "data-loader", "too-few-workers",
          "one worker and torch's own pin-memory thread, its pinning emulated: the main thread waits in a futex",
          "loader_cases", also_causes=("transform",), wait=STARVED, hottest=("burn",), fixed=SAME),
    Label("decode", "data-loader", "decode",
          "one worker decodes JPEG files from the page cache",
          "loader_cases", also_causes=("too-few-workers", "transform"), wait=STARVED, hottest=("__getitem__",), fixed=SAME),
    Label("transform", "data-loader", "transform",
          "one worker convolves small arrays with numpy",
          "loader_cases", also_causes=("too-few-workers",), wait=STARVED, held_out=True, hottest=("blur",), fixed=SAME),
    Label("in-process-loading", "data-loader", "in-process-loading",
          "num_workers=0: the main thread reads and decodes JPEG files",
          "loader_cases", wait=STARVED, quick=True, hottest_main=("__getitem__",), fixed=SAME),
    Label("collate", "data-loader", "collate",
          "cheap samples of many small tensors; default_collate and padding in Python cost the most",
          "loader_cases", also_causes=("too-few-workers", "transform"), wait=STARVED, held_out=True,
          hottest=("pad_and_collate", "<listcomp>"), fixed=SAME),
    Label("hand-over", "data-loader", "hand-over",
          "batches of nested Python lists: pickling them in the feeder thread costs more than making them",
          "loader_cases", also_causes=("too-few-workers",), wait=STARVED, held_out=True, hottest=("__getitem__", "<listcomp>"),
          fixed=SAME),
    Label("slow-samples", "data-loader", "slow-samples",
          "two workers; one batch in 25 costs 1.2 s instead of 8 ms",
          "loader_cases", wait=STARVED, duration=15, hottest=("burn",), fixed="loader_cases:slow_samples_fixed"),
    Label("slow-samples-one-worker", "data-loader", "slow-samples",
          "one worker; every eighth batch costs 0.4 s instead of 4 ms",
          "loader_cases:slow_batches_of_one_worker", wait=STARVED, duration=15, hottest=("burn",), stall_every=8,
          fixed="loader_cases:slow_batches_of_one_worker_fixed"),
    Label("worker-imbalance", "data-loader", "worker-imbalance",
          "two workers over shards: one shard costs 6 ms a batch, the other 110 ms",
          "loader_cases", wait=STARVED, hottest=("burn",), stall_every=2, fixed="loader_cases:worker_imbalance_fixed"),
    Label("worker-restart", "data-loader", "worker-restart",
          "short epochs with persistent_workers=False and spawn: each epoch imports everything again",
          "loader_cases", wait=STARVED, duration=16, fixed="loader_cases:worker_restart_fixed"),
    Label("too-many-workers", "data-loader", "too-many-workers",
          "four busy workers for each allowed CPU",
          "loader_cases", also=(("cpu", "cores-saturated"),), wait=STARVED, hottest=("burn",), fixed=SAME),
    Label("stalls-2-busy", "data-loader", "too-few-workers",
          "two workers compute 120 ms for each batch, a step takes 20: every second step stalls",
          "step_cases", also_causes=("transform",), also=(("cpu", "cores-saturated"),), wait=STARVED, hottest=("burn",),
          stall_every=2, fixed=SAME),
    # --- io --------------------------------------------------------------------------------------------------------
    Label("io-throttled", "io", "io-throttled",
          "a cgroup limits the job's reads to 4 MB/s; files read cold",
          "storage_cases:throttled", wait=STARVED, needs=("real-disk", "read-limit=4000000"), quick=True,
          hottest=("__getitem__",), fixed=SAME, fixed_without=("read-limit",)),
    Label("small-files", "io", "small-files",
          "small reads from many files, past the page cache, on a disk that another job keeps busy",
          "storage_cases", also_causes=("disk-bandwidth",), wait=STARVED, companions=("disk-readers",), needs=("real-disk",),
          held_out=True, hottest=("__getitem__",), fixed=SAME),
    Label("disk-bandwidth", "io", "disk-bandwidth",
          "two workers read big files past the page cache as fast as the disk gives them",
          "storage_cases", wait=STARVED, needs=("real-disk",), hottest=("__getitem__",), fixed=SAME),
    Label("thread-reads-ahead", "io", "disk-bandwidth",
          "a thread of the trainer reads big files past the page cache into a short queue; no workers",
          "storage_cases", wait=STARVED, needs=("real-disk",)),
    Label("mmap-cold", "io", "page-cache-miss",
          "random pages of mapped files that are never in memory, each access a major fault, on a busy disk",
          "storage_cases", also_causes=("disk-bandwidth", "small-files"), wait=STARVED, companions=("disk-readers",),
          needs=("real-disk",), held_out=True, hottest=("__getitem__",), fixed=SAME),
    Label("threads-map-cold", "io", "page-cache-miss",
          "two threads of the trainer touch random pages of mapped files that are never in memory; each fault is over in a moment",
          "storage_cases", also_causes=("disk-bandwidth", "small-files"), wait=STARVED, needs=("real-disk",), held_out=True),
    Label("page-cache-miss", "io", "page-cache-miss",
          "the data set does not fit into the memory cgroup: reads never stop reaching the (busy) disk",
          "storage_cases", also_causes=("disk-bandwidth", "memory-pressure"), wait=STARVED, companions=("disk-readers",),
          needs=("real-disk", "memory-limit=440000000"), hottest=("__getitem__",), fixed=SAME),
    Label("network-storage", "io", "network-storage",
          "three workers fetch each sample over TCP from a slow server",
          "storage_cases", wait=STARVED, companions=("slow-server",), hottest=("_read",), stall_every=3, fixed=SAME),
    Label("network-storage-by-the-loop", "io", "network-storage",
          "no workers: the loop itself fetches each sample over TCP from a slow server",
          "storage_cases", also_causes=("remote-service",), wait=STARVED, busy=IDLE_DEVICE, companions=("slow-server",),
          hottest_main=("_read",)),
    Label("stalls-2", "io", "network-storage",
          "two workers wait 200 ms on a server for each batch, a step takes 30: every second step stalls",
          "step_cases", wait=STARVED, companions=("slow-server",), hottest=("_read",), stall_every=2, fixed=SAME),
    Label("stalls-3", "io", "network-storage",
          "three workers wait 200 ms on a server for each batch, a step takes 30: every third step stalls",
          "step_cases", wait=STARVED, companions=("slow-server",), held_out=True, hottest=("_read",), stall_every=3,
          fixed=SAME),
    Label("stalls-4", "io", "network-storage",
          "four workers wait 200 ms on a server for each batch, a step takes 20: every fourth step stalls",
          "step_cases", wait=STARVED, companions=("slow-server",), quick=True, hottest=("_read",), stall_every=4, fixed=SAME),
    Label("fifo", "io", None,
          "one worker reads its samples from a slow named pipe",
          "storage_cases", wait=STARVED, companions=("fifo-writer",), held_out=True, hottest=("__iter__",)),
    Label("checkpoint-write", "io", "checkpoint-write",
          "a large torch.save with fsync every eight steps, while the device idles",
          "storage_cases", wait=FED, busy=(0.0, 0.5), needs=("real-disk",), fixed="storage_cases:checkpoint_write_fixed"),
    # --- cpu -------------------------------------------------------------------------------------------------------
    Label("cores-saturated", "cpu", "cores-saturated",
          "as many busy workers as cores, and a loop that computes as well",
          "cpu_cases", also_causes=("main-thread",), wait=(0.1, 1.0), busy=(0.0, 0.4), hottest=("burn",),
          hottest_main=("burn",)),
    Label("main-thread", "cpu", "main-thread",
          "40 ms of metrics in Python for each 10 ms of device time; batches are ready",
          "cpu_cases", wait=FED, busy=(0.0, 0.4), quick=True, hottest_main=("burn", "update_metrics"),
          fixed="cpu_cases:main_thread_fixed"),
    Label("launch-bound", "cpu", "launch-bound",
          "thousands of tiny kernels a step: the host cannot launch them fast enough",
          "cpu_cases", also_causes=("main-thread",), wait=FED, busy=(0.0, 0.6), held_out=True,
          hottest_main=("step", "launch", "_enqueue"), fixed="cpu_cases:launch_bound_fixed"),
    Label("cgroup-throttled", "cpu", "cgroup-throttled",
          "a CFS quota of half a core; with two cores the workers would keep up",
          "cpu_cases", wait=(0.15, 1.0), needs=("cpu-quota=0.5",), quick=True, hottest=("burn",), fixed=SAME,
          fixed_without=("cpu-quota",)),
    Label("noisy-neighbour", "cpu", "noisy-neighbour",
          "other processes spin on every core; alone the two workers would keep up",
          "cpu_cases", wait=(0.15, 1.0), companions=("spinners",), held_out=True, hottest=("burn",), fixed=SAME,
          fixed_without=("spinners",)),
    Label("too-few-workers-beside-a-visitor", "data-loader", "too-few-workers",
          "one worker is too few, and other processes take every core for half of the time: both are true",
          "loader_cases:too_few_workers", also_causes=("transform",), also=(("cpu", "noisy-neighbour"),), wait=STARVED,
          companions=("visitor",), duration=30.0, hottest=("burn",)),
    Label("thread-oversubscription", "cpu", "thread-oversubscription",
          "two workers with eight compute threads each",
          "cpu_cases", also_causes=("cores-saturated",), wait=(0.15, 1.0), hottest=("__getitem__",),
          fixed="cpu_cases:thread_oversubscription_fixed"),
    Label("cpu-training", "cpu", "cpu-training",
          "a real torch model trained on the CPU with a light loader; the device belongs to nobody",
          "cpu_cases", wait=FED, busy=(0.0, 0.0), hottest_main=("step",)),
    Label("host-device-sync", "cpu", "host-device-sync",
          "a read of one value after each tiny kernel: the device runs dry between them",
          "cpu_cases", also=(("gpu", "host-device-sync"), ("cpu", "launch-bound")), wait=FED, busy=(0.2, 0.75),
          sync_lines=("step", "synchronize", "_wait_until"), fixed="cpu_cases:host_device_sync_fixed"),
    # --- gpu -------------------------------------------------------------------------------------------------------
    Label("compute-bound-block", "gpu", "compute-bound",
          "asynchronous launches, the loss read every ten steps in a blocking wait",
          "gpu_cases", wait=(0.0, 0.25), busy=(0.93, 1.0), quick=True),
    Label("compute-bound-spin", "gpu", "compute-bound",
          "the same with a spinning wait at each step: the main thread looks fully busy",
          "gpu_cases", wait=FED, busy=(0.9, 1.0), held_out=True),
    Label("compute-bound-run-ahead", "gpu", "compute-bound",
          "the host waits for batches most of the time, but the device always has queued work",
          "gpu_cases:runs_ahead", wait=(0.3, 1.0), busy=(0.93, 1.0), quick=True),
    Label("compute-bound-crowd", "gpu", "compute-bound",
          "eight workers with little to do each, the device busy",
          "gpu_cases:eight_light_workers", wait=FED, busy=(0.9, 1.0), held_out=True),
    Label("steps-of-5-ms", "gpu", "compute-bound",
          "very short steps, the device always busy: each reads the loss of two steps ago",
          "step_cases", wait=(0.0, 0.3), busy=(0.93, 1.0), held_out=True),
    Label("steps-of-3-s", "gpu", "compute-bound",
          "very long steps, the device busy",
          "step_cases", start="ready", wait=FED, busy=(0.9, 1.0), duration=24),
    Label("under-filled", "gpu", "under-filled",
          "utilisation near 100 % at a third of the power: small kernels",
          "gpu_cases", wait=FED, busy=(0.9, 1.0)),
    Label("memory-bandwidth", "gpu", "memory-bandwidth",
          "memory controller at 96 %, few multiprocessors active",
          "gpu_cases", wait=FED, busy=(0.9, 1.0), held_out=True),
    Label("throttled", "gpu", "throttled",
          "hardware thermal slowdown: clocks at half of their maximum",
          "gpu_cases", wait=FED, busy=(0.9, 1.0), held_out=True),
    Label("shared-gpu", "gpu", "shared-gpu",
          "another process holds the same device half of the time",
          "gpu_cases", wait=FED, busy=(0.35, 0.6), companions=("sleeper",)),
    # --- balanced, idle, unknown -----------------------------------------------------------------------------------
    Label("balanced", "balanced", None,
          "the device works 80 to 90 % of the time; data, host and saving cost a few percent each",
          "other_cases", also=(("gpu", "compute-bound"),), wait=FED, busy=(0.75, 0.95)),
    Label("hung", "idle", None,
          "training stopped half-way: the main thread sleeps, the workers have nothing to do",
          "other_cases", start="ready", wait_scored=False, quick=True),
    Label("init", "idle", None,
          "still setting up: imports, then an index of the data set built in Python; no loader yet",
          "other_cases", start="started", also=(("unknown", None),), wait_scored=False),
    Label("stopped", "idle", None,
          "stopped by a signal in the middle of training",
          "loader_cases:too_few_workers", stop=True, wait_scored=False),
    Label("finished", "idle", None,
          "training is over: a process that only waits for a queue",
          "other_cases", start="ready", also=(("unknown", None),), wait_scored=False, held_out=True),
    Label("web-server", "unknown", None,
          "a threaded HTTP server under light load: not training at all",
          "other_cases", start="ready", also=(("idle", None),), companions=("web-client",), wait_scored=False),
    # --- change ----------------------------------------------------------------------------------------------------
    Label("change", "cpu", "main-thread",
          "too few workers for the first 12 s of stepping, then host-bound: the verdict must follow",
          "other_cases", duration=24, wait_scored=False, settled=False),
    # --- several ranks ---------------------------------------------------------------------------------------------
    Label("rank-straggler-loader", "data-loader", "too-few-workers",
          "two gloo ranks under torchrun; one rank's only worker is slow, the other rank waits in all_reduce",
          "rank_cases:straggler_loader", also_causes=("transform",), wait=STARVED, wait_scored=False),
    Label("rank-straggler-ddp", "data-loader", "too-few-workers",
          "the same with DistributedDataParallel: the other rank waits within backward",
          "rank_cases:straggler_ddp", also_causes=("transform",), wait=STARVED, wait_scored=False),
    Label("rank-straggler-decode", "data-loader", "decode",
          "the same with JPEG decoding, and a device that looks busy while a rank waits, as NCCL's does",
          "rank_cases:straggler_decode", also_causes=("too-few-workers",), wait=STARVED, wait_scored=False, held_out=True),
    Label("rank-straggler-storage", "io", "network-storage",
          "two ranks of torch.multiprocessing; one rank's samples come from a slow server",
          "rank_cases:straggler_storage", wait=STARVED, wait_scored=False, companions=("slow-server",), held_out=True),
    Label("rank-straggler-main-thread", "cpu", "main-thread",
          "two ranks of torch.multiprocessing; one rank's loop does 45 ms of Python more, the other's device looks busy",
          "rank_cases:straggler_main_thread", wait=FED, busy=(0.0, 0.5), wait_scored=False),
    Label("rank-late-in-turn", "cpu", "main-thread",
          "two gloo ranks, of which each does 45 ms of Python at every second step while the other waits in all_reduce",
          "rank_cases:late_in_turn", wait=FED, busy=(0.0, 0.5), wait_scored=False, hottest_main=("write_report", "burn")),
    Label("rank-communication", "gpu", "communication",
          "two ranks under torchrun, none late: the collective takes most of the step, at low power",
          "rank_cases:communication", also=(("unknown", None),), wait=FED, busy=(0.85, 1.0), wait_scored=False),
    Label("datasets-streaming", "data-loader", "in-process-loading",
          "an IterableDataset of `datasets` is shuffled, mapped by a tokeniser in Python and batched in the loop's own process",
          "framework_cases", also_causes=("transform",), also=(("cpu", "main-thread"),), wait=STARVED, busy=IDLE_DEVICE,
          needs=("package=datasets",)),
    # --- a node's eight ranks ------------------------------------------------------------------------------------------
    Label("eight-ranks-loader", "data-loader", "too-few-workers",
          "eight ranks under torchrun; one rank's only worker is slow, the others' devices look busy while they wait",
          "node_cases:late_loader", also_causes=("transform",), wait=STARVED, wait_scored=False),
    Label("eight-ranks-host", "cpu", "main-thread",
          "eight ranks of torch.multiprocessing; one rank's loop does 60 ms of Python more",
          "node_cases:late_host", wait=FED, busy=(0.0, 0.5), wait_scored=False),
    Label("eight-ranks-hot", "gpu", "throttled",
          "eight ranks under torchrun; one rank's device is held down by its temperature and takes three times as long",
          "node_cases:late_hot", wait=FED, wait_scored=False, held_out=True),
    Label("eight-ranks-network", "gpu", "communication",
          "eight ranks of torch.multiprocessing, none late: the exchange takes 80 ms over a slow wire, at low power",
          "node_cases:slow_network", also=(("unknown", None),), wait=FED, wait_scored=False),
    Label("eight-ranks-died", "idle", None,
          "eight ranks that a script started; one is killed, and the kernels of the others wait for it for ever",
          "node_cases:rank_dies", start="ready", wait_scored=False, held_out=True),
    # --- frameworks ------------------------------------------------------------------------------------------------
    Label("lightning-too-few-workers", "data-loader", "too-few-workers",
          "Lightning's Trainer with one slow worker",
          "framework_cases", also_causes=("transform",), wait=STARVED, needs=("package=lightning",)),
    Label("lightning-callback", "cpu", "main-thread",
          "Lightning's Trainer; a callback computes metrics in Python after each step",
          "framework_cases", wait=FED, busy=(0.0, 0.5), needs=("package=lightning",), held_out=True),
    Label("hf-trainer-too-few-workers", "data-loader", "too-few-workers",
          "the Trainer of transformers with one slow worker",
          "framework_cases", also_causes=("transform",), wait=STARVED, needs=("package=transformers", "package=accelerate"),
          held_out=True),
    Label("hf-trainer-callback", "cpu", "main-thread",
          "the Trainer of transformers; a callback computes metrics in Python after each step",
          "framework_cases", wait=FED, busy=(0.0, 0.5), needs=("package=transformers", "package=accelerate")),
    Label("accelerate-too-few-workers", "data-loader", "too-few-workers",
          "a loop with Accelerate, which fetches one batch ahead; one slow worker",
          "framework_cases", also_causes=("transform",), wait=STARVED, needs=("package=accelerate",)),
    Label("accelerate-metrics", "cpu", "main-thread",
          "a loop with Accelerate that gathers and computes metrics in Python after each step",
          "framework_cases", wait=FED, busy=(0.0, 0.5), needs=("package=accelerate",)),
    Label("datasets-decode", "data-loader", "decode",
          "a data set of `datasets`: JPEG bytes in mapped Arrow files, decoded by decode_example in one worker",
          "framework_cases", also_causes=("too-few-workers",), wait=STARVED, needs=("package=datasets",)),
    Label("datasets-columns", "data-loader", "hand-over",
          "a data set of `datasets`: batches of twelve tensors, a file descriptor fetched for each by the main thread",
          "framework_cases", wait=STARVED, needs=("package=datasets",), held_out=True),
    # --- other loaders and loops -----------------------------------------------------------------------------------
    Label("mixup-collate", "data-loader", "collate",
          "one worker; collate_fn mixes samples number by number in Python lists",
          "more_cases", also_causes=("too-few-workers",), wait=STARVED),
    Label("dilation", "cpu", "cores-saturated",
          "a worker for each core convolves masks; a step would need tens of workers",
          "more_cases", also=(("data-loader", "transform"),), wait=STARVED),
    Label("decode-all-cores", "cpu", "cores-saturated",
          "a worker for each core decodes JPEG files and cannot keep up",
          "more_cases", also=(("data-loader", "decode"),), wait=STARVED, held_out=True),
    Label("spawn-pinned", "data-loader", "too-few-workers",
          "one spawned worker and the pin-memory thread, its pinning emulated",
          "more_cases", also_causes=("transform",), wait=STARVED),
    Label("epoch-restarts-fork", "data-loader", "worker-restart",
          "short epochs with persistent_workers=False and fork: each epoch's worker builds its index again",
          "more_cases", wait=STARVED, duration=14),
    Label("iterable-text", "data-loader", "too-few-workers",
          "an IterableDataset that cuts text into tokens in one worker",
          "more_cases", also_causes=("transform",), wait=STARVED),
    Label("batched-getitems", "data-loader", "transform",
          "a BatchSampler and a data set with __getitems__, standardised in Python by one worker",
          "more_cases", also_causes=("too-few-workers",), wait=STARVED, held_out=True),
    Label("user-prefetcher", "data-loader", "too-few-workers",
          "a thread of the user's takes batches from a loader with one slow worker: the main thread waits for a queue",
          "more_cases", also_causes=("transform",), wait=STARVED),
    Label("loader-timeout", "data-loader", "too-few-workers",
          "one slow worker and DataLoader(timeout=90): the main thread polls with another time limit",
          "more_cases", also_causes=("transform",), wait=STARVED, held_out=True),
    Label("inline-synthetic", "data-loader", "in-process-loading",
          "num_workers=0: the main thread makes samples with numpy and reads no file",
          "more_cases", wait=STARVED),
    Label("own-generator", "data-loader", "in-process-loading",
          "no loader at all: a generator makes each batch when the loop asks for it",
          "more_cases", also=(("cpu", "main-thread"),), wait=STARVED, held_out=True),
    Label("cpu-training-threads", "cpu", "cpu-training",
          "a transformer trained on the CPU by as many threads as there are CPUs",
          "more_cases", wait=FED, held_out=True),
    Label("cpu-training-inline", "cpu", "cpu-training",
          "num_workers=0 with cheap batches: the time goes into a model on the CPU",
          "more_cases", wait=(0.0, 0.15)),
    Label("heavy-logging", "cpu", "main-thread",
          "the loop writes thousands of JSON lines to a file after each step",
          "more_cases", wait=FED, busy=(0.0, 0.5)),
    Label("sync-one-line", "cpu", "host-device-sync",
          "a spinning wait on one line after each of twelve kernels a step, and some Python between",
          "more_cases", also=(("gpu", "host-device-sync"),), wait=FED, busy=(0.3, 0.75)),
    Label("python-many-lines", "cpu", "main-thread",
          "Python on many lines, longer than the work of the device beside it",
          "more_cases", wait=FED, busy=(0.2, 0.6), held_out=True),
    Label("copy-bound", "gpu", "copy-bound",
          "blocking copies fill the bus for most of each step, and the device idles meanwhile",
          "more_cases", wait=FED, busy=(0.1, 0.3)),
    Label("pinned-job", "cpu", "cores-saturated",
          "a job whose affinity allows one CPU while others are free: its worker and its loop share it",
          "more_cases", wait=(0.15, 1.0), needs=("cpus=2",)),
    Label("pinned-workers", "cpu", "cores-saturated",
          "two workers that worker_init_fn puts on the same CPU while another is free",
          "more_cases", also=(("cpu", "thread-oversubscription"), ("data-loader", "too-many-workers")), wait=(0.15, 1.0),
          needs=("cpus=2",), held_out=True),
    Label("memory-pressure", "io", "memory-pressure",
          "memory kept by the job leaves its control group too little for the files that it needs again and again",
          "more_cases", also_causes=("page-cache-miss", "disk-bandwidth"), wait=STARVED, companions=("disk-readers",),
          needs=("real-disk", "memory-limit=440000000")),
    # --- phases ----------------------------------------------------------------------------------------------------
    Label("validation", "idle", None,
          "a long validation under torch.no_grad after two seconds of training",
          "more_cases", start="ready", wait_scored=False),
    Label("lightning-validation", "idle", None,
          "a long validation by Lightning's Trainer after twenty steps of training",
          "framework_cases", start="ready", wait_scored=False, needs=("package=lightning",), held_out=True),
    Label("compile-warm-up", "idle", None,
          "torch.compile works on one model after another before the first step",
          "more_cases", start="ready", also=(("unknown", None),), wait_scored=False, needs=("compiler",)),
    Label("imports", "idle", None,
          "imports large modules that were never compiled before; no loader, no device yet",
          "more_cases", start="started", also=(("unknown", None),), wait_scored=False, held_out=True),
    Label("training-named-for-validation", "data-loader", "too-few-workers",
          "each fold of a cross-validation trains: one worker is too few, whatever the function is called",
          "phase_cases", also_causes=("transform",), wait=STARVED, busy=IDLE_DEVICE),
    Label("metric-at-each-step", "gpu", "compute-bound",
          "a metric under no_grad at each step is where a device-bound loop waits for the device",
          "phase_cases", also_causes=("host-device-sync",), also=(("balanced", None),), wait=FED, busy=(0.9, 1.0)),
    Label("features-for-jax", "cpu", "main-thread",
          "a linear model of JAX on the CPU; turning text into numbers takes most of each step",
          "phase_cases", also=(("data-loader", "in-process-loading"),), wait=(0.0, 0.3), lost=(0.6, 1.0),
          hottest_main=("featurize", "<listcomp>"), needs=("package=jax",)),
    Label("one-thread-without-a-counter", "cpu", "cpu-training",
          "a model in NumPy trains on one thread, and nothing counts its steps",
          "phase_cases", also_causes=("main-thread",), wait=FED, env={"OPENBLAS_NUM_THREADS": "1"}),
    Label("reads-lengths-first", "idle", None,
          "the sampler reads every text for its length before it hands out the first one",
          "phase_cases", start="ready", also=(("unknown", None),), wait_scored=False),
    Label("fills-a-buffer", "idle", None,
          "the loader fills a shuffle buffer for half an hour, in the loop's own thread",
          "phase_cases", start="ready", also=(("unknown", None),), wait_scored=False),
    Label("skips-what-it-has-seen", "idle", None,
          "a resumed run makes and drops the batches that it had before it was stopped",
          "phase_cases", start="ready", also=(("unknown", None),), wait_scored=False, held_out=True),
    # --- other loaders, and processes beside a loader ---------------------------------------------------------------
    Label("pool-imap", "data-loader", "too-few-workers",
          "multiprocessing.Pool(1).imap feeds the loop: its one process computes all the time",
          "chain_cases", also_causes=("transform", "decode"), wait=STARVED, busy=IDLE_DEVICE),
    Label("process-pool-executor", "data-loader", "too-few-workers",
          "a ProcessPoolExecutor with a small window of futures, awaited in order",
          "chain_cases", also_causes=("transform",), wait=STARVED, busy=IDLE_DEVICE, held_out=True),
    Label("prefetch-thread", "data-loader", "too-few-workers",
          "a thread of the program's own unpacks batches into a short queue: zlib and numpy, without the interpreter lock",
          "chain_cases", also_causes=("in-process-loading", "transform"), wait=STARVED, busy=IDLE_DEVICE),
    Label("future-io", "data-loader", "in-process-loading",
          "a ThreadPoolExecutor in the trainer reads sqlite and npz files and unpacks them; futures awaited in order",
          "chain_cases", also_causes=("too-few-workers", "decode"), wait=STARVED, busy=IDLE_DEVICE),
    Label("pool-per-batch", "data-loader", "in-process-loading",
          "each batch is unpacked by a ThreadPoolExecutor of two threads that is made for it",
          "chain_cases", also_causes=("too-few-workers", "decode"), wait=STARVED, busy=IDLE_DEVICE),
    Label("loop-in-thread", "data-loader", "too-few-workers",
          "the loop runs in a thread that the main thread joins; one slow worker",
          "chain_cases", also_causes=("transform",), wait=STARVED, busy=IDLE_DEVICE),
    Label("worker-beside-pool", "data-loader", "too-few-workers",
          "one slow worker beside four idle processes of a pool that was used before",
          "chain_cases", also_causes=("transform",), wait=STARVED, busy=IDLE_DEVICE),
    Label("worker-beside-validation", "data-loader", "too-few-workers",
          "one slow worker beside the kept workers of a validation loader",
          "chain_cases:kept_second_loader", also_causes=("transform",), wait=STARVED, busy=IDLE_DEVICE, held_out=True),
    Label("worker-between-validations", "data-loader", "too-few-workers",
          "one slow worker, and every few seconds the two kept workers of a validation loader make a few batches",
          "chain_cases:two_loaders_in_turn", also_causes=("transform",), wait=STARVED, busy=IDLE_DEVICE),
    Label("short-epochs", "data-loader", "worker-restart",
          "epochs of a second; each starts its worker anew, which unpacks its vocabulary again",
          "chain_cases", wait=STARVED, busy=(0.0, 0.7), duration=14),
    Label("worker-threads-fetch", "io", "network-storage",
          "two workers fetch samples from a slow server, each in four threads of its own",
          "chain_cases", wait=STARVED, busy=IDLE_DEVICE, companions=("slow-server",)),
    Label("worker-threads-decode", "data-loader", "decode",
          "one worker, in which a thread decodes JPEG data ahead of the one that makes batches",
          "chain_cases", also_causes=("too-few-workers", "transform"), wait=STARVED, busy=IDLE_DEVICE, held_out=True),
    Label("worker-lock", "data-loader", "lock",
          "three workers make each sample under a lock that they share: one at a time works",
          "chain_cases", wait=STARVED, busy=IDLE_DEVICE),
    Label("worker-server", "cpu", "waits-for-process",
          "three workers ask one manager's process for each sample, and it computes all the time",
          "chain_cases", wait=STARVED, busy=IDLE_DEVICE),
    # --- loops that wait for something else than batches ------------------------------------------------------------
    Label("gil-contention", "cpu", "gil-contention",
          "a second Python thread computes all the time: the loop waits for the interpreter lock after each wait",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("gil-contention-metrics", "cpu", "gil-contention",
          "two Python threads beside the loop, one aggregating metrics, one building tables",
          "waiting_cases", wait=(0.0, 0.2), lost=LOST, busy=IDLE_DEVICE, held_out=True),
    Label("thread-lock", "cpu", "waits-for-thread",
          "a thread holds the lock of a replay store while it sorts the priorities",
          "thread_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("thread-lock-table", "cpu", "waits-for-thread",
          "a thread holds the lock of a table of embeddings while it normalises it",
          "thread_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, held_out=True),
    Label("thread-joined", "cpu", "waits-for-thread",
          "each step starts a thread that sums up the gradients, and joins it",
          "thread_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, held_out=True),
    Label("thread-result", "cpu", "waits-for-thread",
          "each step ends with a search in a pool's thread, whose result the next one begins with",
          "thread_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("output-blocked", "io", "output-blocked",
          "much is printed at each step, into a pipe whose reader, outside the job, is slow",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, needs=("slow-output",)),
    Label("output-blocked-logger", "io", "output-blocked",
          "each step's record goes to a process of the job that takes 30 ms to log it",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, held_out=True),
    Label("remote-metrics", "io", "remote-service",
          "metrics are posted at each step to a server that answers after 40 ms",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, companions=("metrics-server",)),
    Label("remote-features", "io", "remote-service",
          "each step asks a feature store on a connection that stays, and has its answer after 25 ms",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, companions=("feature-store",), held_out=True),
    Label("asyncio-remote", "io", "remote-service",
          "the loop is a coroutine that awaits the answer of a slow server at each step",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, companions=("feature-store",), held_out=True),
    Label("scoring-service", "cpu", "waits-for-process",
          "a process that computes 40 ms for each request over TCP, asked in a thread whose future the loop awaits",
          "peer_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("environments", "cpu", "waits-for-process",
          "two environments in processes of their own, stepped together through pipes; one is slower",
          "peer_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, wait_scored=False),
    Label("environments-vector", "cpu", "waits-for-process",
          "four environments that write into a shared array and signal through pipes; one is slower",
          "peer_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, wait_scored=False, held_out=True),
    Label("simulator-over-stdio", "cpu", "waits-for-process",
          "no device; a simulator that reads actions from its standard input and prints what it observes",
          "peer_cases", wait=FED, lost=(0.5, 1.0)),
    Label("quiet-loop", "io", "remote-service",
          "no device, and hardly any work: each step waits for a service in a child that answers after 80 ms",
          "peer_cases", wait=FED, lost=(0.5, 1.0)),
    Label("parameter-server", "cpu", "waits-for-process",
          "a server of parameters outside of the job's tree computes 45 ms for each push; the trainer holds its listening socket too",
          "peer_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("async-features", "io", "remote-service",
          "an asyncio loop gathers the features of eight users from a service that lets each wait for 45 ms",
          "peer_cases", also_causes=("network-storage",), wait=FED, lost=LOST, busy=IDLE_DEVICE, held_out=True),
    Label("file-lock", "io", "lock",
          "each step appends to a journal under a lock that another job holds most of the time",
          "peer_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, companions=("journal-holder",)),
    Label("file-lock-spin", "io", "lock",
          "the same, by a loop whose waits for the device spin, beside a pool of processes that fills the CPUs",
          "peer_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, companions=("journal-holder",)),
    Label("file-lock-tried", "io", "lock",
          "each step writes a row into an SQLite file that another job locks most of the time: SQLite sleeps and tries again",
          "peer_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, companions=("importer",)),
    Label("lock-shared-cache", "io", "lock",
          "batches come out of an index that another job rewrites under its lock",
          "peer_cases", wait=STARVED, busy=IDLE_DEVICE, companions=("index-builder",), held_out=True),
    Label("pageable-copy", "gpu", "copy-bound",
          "the host copies 300 MB a step from memory that is not pinned, while the device idles",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("pageable-tensors", "gpu", "copy-bound",
          "tensors of 160 MB go to the device at a line of the loop, over a link that could carry far more",
          "waiting_cases", wait=FED, lost=(0.35, 0.95), busy=(0.0, 0.65), hottest_main=("pageable_tensors",)),
    Label("metrics-under-no-grad", "cpu", "main-thread",
          "metrics in numpy and Python under torch.no_grad at each step: no validation",
          "waiting_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("hung-queue", "idle", None,
          "the thread that filled the loop's queue has died: the loop waits for ever",
          "waiting_cases", start="ready", wait_scored=False, held_out=True),
    Label("hung-collective", "idle", None,
          "two gloo ranks; one sleeps and never comes to the all_reduce in which the other waits",
          "rank_cases", start="ready", wait_scored=False),
    # --- other libraries, other people's habits -----------------------------------------------------------------------
    Label("torchdata-nodes-threads", "data-loader", "in-process-loading",
          "torchdata.nodes: two threads tokenise in Python, one at a time",
          "library_cases", also_causes=("transform", "too-few-workers"), also=(("cpu", "gil-contention"),), wait=STARVED,
          busy=IDLE_DEVICE, needs=("package=torchdata",)),
    Label("torchdata-nodes-process", "data-loader", "too-few-workers",
          "torchdata.nodes: a process tokenises, threads of the trainer pump its queues",
          "library_cases", also_causes=("transform", "hand-over"), wait=STARVED, busy=IDLE_DEVICE, needs=("package=torchdata",),
          held_out=True),
    Label("grain-threads", "data-loader", "in-process-loading",
          "grain: four threads decode PNG files on all CPUs",
          "library_cases", also_causes=("decode", "transform"), also=(("cpu", "cores-saturated"),), wait=STARVED,
          busy=IDLE_DEVICE, needs=("package=grain",)),
    Label("grain-process", "data-loader", "too-few-workers",
          "grain: one worker process decodes PNG files",
          "library_cases", also_causes=("decode", "transform"), wait=STARVED, busy=IDLE_DEVICE, needs=("package=grain",),
          held_out=True),
    Label("webdataset", "data-loader", "too-few-workers",
          "webdataset: tar shards, one worker of torch's loader decodes and turns pictures",
          "library_cases:webdataset_worker", also_causes=("decode", "transform"), wait=STARVED, busy=IDLE_DEVICE,
          needs=("package=webdataset",)),
    Label("jax-augments", "cpu", "main-thread",
          "a JAX loop on the CPU, each step of which begins with a call that jitters its rows in Python: 80 % of the time",
          "jax_cases", also=(("data-loader", "in-process-loading"),), wait=FED, lost=(0.6, 1.0), wait_scored=False,
          needs=("package=jax",), hottest_main=("jittered",)),
    Label("jax-generator", "data-loader", "in-process-loading",
          "a JAX loop on the CPU over a generator that jitters its rows in Python",
          "jax_cases", also_causes=("transform",), also=(("cpu", "main-thread"),), wait=(0.6, 1.0), needs=("package=jax",),
          hottest_main=("jittered",)),
    Label("jax-trains", "cpu", "cpu-training",
          "a JAX loop on the CPU with batches that are slices of an array: the compiled network takes the time",
          "jax_cases", also_causes=("thread-oversubscription", "cores-saturated"), wait=FED, needs=("package=jax",),
          held_out=True),
    Label("two-loaders-a-step", "data-loader", "too-few-workers",
          "a labelled and an unlabelled loader at each step; the only worker of the second is slow",
          "library_cases:two_loaders", also_causes=("decode", "transform"), wait=STARVED, busy=IDLE_DEVICE),
    Label("gymnasium-async", "cpu", "waits-for-process",
          "gymnasium's AsyncVectorEnv: two environments in Python, and a small policy on the device",
          "library_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, also_causes=("cores-saturated",),
          needs=("package=gymnasium",), held_out=True),
    Label("reward-by-queue", "cpu", "waits-for-process",
          "generation token by token, then the scores of a reward model in another process, through queues",
          "library_cases", wait=FED, lost=LOST, busy=(0.0, 0.6)),
    Label("optimizer-on-the-host", "cpu", "main-thread",
          "large kernels, then AdamW on the host for half of each step while the device idles",
          "step_cases", wait=FED, busy=(0.25, 0.75), hottest_main=("step",)),
    Label("saves-images", "cpu", "main-thread",
          "each step ends with a PNG file, encoded by the loop itself while the device idles",
          "library_cases", wait=FED, lost=(0.2, 0.7), busy=(0.3, 0.8)),
    Label("metrics-on-the-cpu", "cpu", "main-thread",
          "a small network trains on the CPU; metrics in Python take most of each step",
          "library_cases", also_causes=("cpu-training",), wait=FED, lost=(0.5, 1.0)),
    Label("shared-model", "cpu", "cpu-training",
          "two processes train one model in shared memory on the CPU; the one that is watched only waits for their end",
          "library_cases", also_causes=("cores-saturated", "thread-oversubscription"), wait=FED),
    Label("rate-limit", "cpu", "sleeps",
          "a token bucket: the loop sleeps for three quarters of each step",
          "library_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE, held_out=True),
    Label("cools-down", "cpu", "sleeps",
          "the loop sleeps 45 ms after each step, so that the machine stays cool",
          "poll_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("polls-for-a-permit", "cpu", "sleeps",
          "each step polls every 15 ms for a file that a thread, which sleeps itself, puts down every 90 ms",
          "poll_cases", also_causes=("waits-for-thread",), wait=FED, lost=LOST, busy=IDLE_DEVICE, held_out=True),
    Label("polls-a-planner", "cpu", "waits-for-process",
          "each step polls every 10 ms for a plan that a process of a pool computes for it",
          "poll_cases", wait=FED, lost=LOST, busy=IDLE_DEVICE),
    Label("polls-a-folder", "cpu", "waits-for-process",
          "a program of the job's renders batches into a folder all the time, where the loop looks every 10 ms",
          "poll_cases", also=(("data-loader", "too-few-workers"), ("data-loader", "transform"), ("data-loader", "decode")),
          wait=STARVED, busy=IDLE_DEVICE, wait_scored=False),
    Label("threads-that-learn", "cpu", "waits-for-thread",
          "no device: threads train in native code, and the main thread notes what they report",
          "poll_cases", also_causes=("cpu-training", "cores-saturated"), wait=FED, lost=(0.5, 1.0), wait_scored=False,
          held_out=True),
    Label("answers-requests", "idle", None,
          "no training: a model answers some eight requests a second, which a thread takes from a connection",
          "poll_cases", also=(("unknown", None),), start="ready", wait_scored=False),
    Label("flax-on-the-cpu", "cpu", "cpu-training",
          "a network of flax, compiled for the CPU: threads without Python compute",
          "library_cases", also_causes=("thread-oversubscription", "cores-saturated"), wait=(0.0, 0.3),
          needs=("package=flax",)),
    # --- who is who ------------------------------------------------------------------------------------------------
    Label("learner-in-a-child", "cpu", "cpu-training",
          "a forked child trains on the CPU; the process that started it imports torch too, and only asks for each step",
          "role_cases", also_causes=("waits-for-process",), wait=FED, lost=(0.5, 1.0), wait_scored=False),
    Label("tracker-in-a-child", "data-loader", "in-process-loading",
          "the loop makes its batches itself; a forked tracker hears of each step and is no data worker",
          "role_cases", also=(("cpu", "main-thread"),), wait=STARVED, wait_scored=False),
    Label("one-shard-for-three-workers", "data-loader", "worker-imbalance",
          "a stream of one shard and three workers: two have nothing to read and end",
          "role_cases", also_causes=("transform",), wait=STARVED),
    Label("mapped-rows-from-a-cold-disk", "io", "disk-bandwidth",
          "one worker reads rows of mapped files that are not in memory: the kernel reads around each fault",
          "role_cases", also_causes=("page-cache-miss", "small-files"), wait=STARVED, needs=("real-disk",)),
    Label("pool-that-trains-nothing", "unknown", None,
          "NumPy in a pool of twice as many processes as CPUs; nothing learns",
          "other_cases", start="ready", also=(("idle", None), ("cpu", "cores-saturated")), wait_scored=False),
)


class Named(Protocol):
    """A table entry."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def find(what: str, name: str, among: Iterable[N]) -> N:
    """The entry with this name. Raises KeyError with the names that exist; `what` is the word for an entry."""
    for one in among:
        if one.name == name:
            return one
    raise KeyError(f"no {what} is called {name!r}; there are {', '.join(one.name for one in among)}")


def by_name(name: str) -> Label:
    """The label with this name, those of programs made at random included; raises KeyError with the names there are."""
    kind, _, seed = name.partition("-")
    if kind in ("random", "changing", "standing") and seed.isdigit():
        from workloads import random_plans

        return random_plans.label(name)
    return find("workload", name, LABELS)
