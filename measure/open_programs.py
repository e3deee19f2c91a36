"""Training programs written by others, on the CPU: does the verdict agree with their code?

    python measure open-programs --checkouts DIR                   all programs whose checkout is in DIR
    python measure open-programs --checkouts DIR --only nanogpt,vae --no-stacks

DIR holds checkouts named like their repositories on github.com: `examples` (pytorch/examples), `nanoGPT`, `minGPT` (karpathy)
and `cleanrl` (vwxyzjn). Their code is not in this repository, and no data set is downloaded: the script generates data of the same
shape in the checkouts. Needs the packages in requirements.txt, and for some programs:
    pip install tyro tensorboard gymnasium[classic-control]
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import contradictions, options
from measure.monitor import Monitor, MonitorFailed
from measure.paths import TRAINMON
from workloads.processes import die_with_parent, end_group

#: A verdict with this confidence must be right.
SURE = 0.8
#: From the start until it trains, seconds, on two cores; and what trainmon may take beside the time that it watches.
STARTS_S, PATIENCE_S = 14.0, 30.0
ON_THE_CPU = (("cpu", "cpu-training"),)
IN_THE_LOOP = (("data-loader", "in-process-loading"), *ON_THE_CPU)


def mnist(checkout: str) -> None:
    """Writes pictures of noise in MNIST's format."""
    import numpy

    folder = os.path.join(checkout, "data/MNIST/raw")
    os.makedirs(folder, exist_ok=True)
    noise = numpy.random.default_rng(0)
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        labels = noise.integers(0, 10, count, dtype=numpy.uint8).tobytes()
        images = noise.bytes(count * 28 * 28)
        Path(folder, f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + images)
        Path(folder, f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)


def pictures(folder: str, count: int, size: tuple[int, int]) -> None:
    import numpy
    from PIL import Image

    os.makedirs(folder, exist_ok=True)
    noise = numpy.random.default_rng(0)
    for number in range(count):
        pixels = noise.integers(0, 256, (*size, 3), dtype=numpy.uint8)
        Image.fromarray(pixels).save(os.path.join(folder, f"{number}.jpg"))


def imagenet(checkout: str) -> None:
    for part, count in (("train", 40), ("val", 8)):
        for name in range(8):
            pictures(os.path.join(checkout, f"imagenet/data/{part}/{name}"), count, (480, 640))


def berkeley(checkout: str) -> None:
    for part in ("train", "test"):
        pictures(os.path.join(checkout, f"super_resolution/dataset/BSDS300/images/{part}"), 100, (321, 481))


def words(count: int) -> str:
    draw = random.Random(0)
    known = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 8))) for _ in range(5000)]
    return "\n".join(" ".join(draw.choices(known, k=30)) for _ in range(count // 30)) + "\n"


def wikitext(checkout: str) -> None:
    folder = os.path.join(checkout, "word_language_model/data/made-up")
    os.makedirs(folder, exist_ok=True)
    for part, count in (("train", 400_000), ("valid", 20_000), ("test", 20_000)):
        Path(folder, f"{part}.txt").write_text(words(count), encoding="ascii")


def shakespeare(checkout: str) -> None:
    folder = os.path.join(checkout, "data/shakespeare_char")
    Path(folder, "input.txt").write_text(words(200_000), encoding="ascii")
    subprocess.run([sys.executable, "prepare.py"], cwd=folder, check=True, stdout=subprocess.DEVNULL)


@dataclass(frozen=True)
class Program:
    """A program, and every right answer to what holds it back, the best first."""

    checkout: str
    folder: str
    arguments: str
    answers: tuple[tuple[str, str], ...]
    why: str
    data: Callable[[str], None] | None = None


PROGRAMS = {
    "nanogpt": Program(
        "nanoGPT", ".", "train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=2 --eval_interval=100000"
        " --block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128", ON_THE_CPU,
        "a transformer without a device; batches are slices of a memory map", shakespeare,
    ),
    "mnist": Program("examples", "mnist", "main.py --no-accel", ON_THE_CPU, "convolutions take the most, ToTensor in the loop an eighth", mnist),
    "mnist-rnn": Program("examples", "mnist_rnn", "main.py", IN_THE_LOOP, "a small model: ToTensor in the loop takes about half", mnist),
    "vae": Program("examples", "vae", "main.py --no-accel", IN_THE_LOOP, "a small model: ToTensor in the loop takes about half", mnist),
    "siamese": Program("examples", "siamese_network", "main.py", ON_THE_CPU, "a ResNet-18 without a device, pictures in memory", mnist),
    "hogwild": Program(
        "examples", "mnist_hogwild", "main.py", (("cpu", "thread-oversubscription"), *ON_THE_CPU),
        "two processes train one model in shared memory, each on as many threads as there are CPUs; their parent only waits", mnist,
    ),
    "dcgan": Program("examples", "dcgan", "main.py --dataset fake --outf /tmp", ON_THE_CPU, "two workers make noise, the model takes seconds"),
    "imagenet": Program(
        "examples", "imagenet", "main.py data -a squeezenet1_1 -b 16 -j 2 --no-accel --epochs 50", ON_THE_CPU,
        "two workers decode in time, the model takes half a second", imagenet,
    ),
    "super-resolution": Program(
        "examples", "super_resolution", "main.py --upscale_factor 3 --batchSize 4 --nEpochs 50 --threads 2", ON_THE_CPU,
        "two workers crop and scale in time", berkeley,
    ),
    "lstm": Program(
        "examples", "word_language_model", "main.py --data data/made-up --model LSTM", ON_THE_CPU, "text in memory", wikitext
    ),
    "transformer": Program(
        "examples", "word_language_model", "main.py --data data/made-up --model Transformer", ON_THE_CPU, "text in memory", wikitext
    ),
    "actor-critic": Program(
        "examples", "reinforcement_learning", "actor_critic.py", (*ON_THE_CPU, ("cpu", "main-thread")),
        "one thread: a pole is balanced in Python, a tiny model learns",
    ),
    "reinforce": Program(
        "examples", "reinforcement_learning", "reinforce.py", (*ON_THE_CPU, ("cpu", "main-thread")),
        "one thread: a pole is balanced in Python, a tiny model learns",
    ),
    "adder": Program("minGPT", "projects/adder", "adder.py", ON_THE_CPU, "workers make sums in no time"),
    "ppo": Program("cleanrl", ".", "cleanrl/ppo.py --no-cuda", (*ON_THE_CPU, ("cpu", "main-thread")), "a tiny model, called at each move"),
    "dqn": Program(
        "cleanrl", ".", "cleanrl/dqn.py --no-cuda --learning-starts 500", (*ON_THE_CPU, ("cpu", "main-thread")),
        "a tiny model, called at each move",
    ),
}  # fmt: skip


def judged(name: str, program: Program, checkouts: str, monitor: Monitor, duration: float) -> str:
    """Runs a program and returns the result in one line."""
    checkout = os.path.join(checkouts, program.checkout)
    if program.data:
        program.data(checkout)
    folder, parent = os.path.join(checkout, program.folder), os.getpid()
    paths = (os.path.abspath(checkout), os.environ.get("PYTHONPATH", ""))
    env = {**os.environ, "PYTHONPATH": ":".join(filter(None, paths)), "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryFile() as output:
        job = subprocess.Popen(
            [sys.executable, *program.arguments.split()], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip
        try:
            time.sleep(STARTS_S)
            if job.poll() is not None:
                output.seek(0)
                lines = output.read().decode(errors="replace").strip().splitlines()
                return f"ended, {lines[-1] if lines else 'without a word'}"
            answer = monitor.run(
                "", "diagnose", "--pid", str(job.pid), "--duration", f"{duration:g}s", "--json", timeout=duration + PATIENCE_S
            )
        finally:
            end_group(job)
    verdict = json.loads(answer)
    said = (verdict["class"], verdict["cause"])
    if said in program.answers:
        result = "right"
    elif said[0] in {answer[0] for answer in program.answers}:
        result = "right class"
    elif said[0] == "unknown":
        result = "unknown"
    else:
        result = "WRONG AND SURE" if verdict["confidence"] >= SURE else "wrong"
    found = contradictions.find(monitor.program, verdict)
    more = f"; CONTRADICTS ITSELF: {found[0]}" if found else ""
    return f"{said[0] + '/' + (said[1] or '-'):31} {verdict['confidence']:.2f}  {result:14}  {program.why}{more}"


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, "measure open-programs")
    parser.add_argument("--checkouts", required=True, metavar="DIR", help="the folder with the checkouts")
    parser.add_argument("--only", metavar="NAME,…", help="only these programs")
    parser.add_argument("--duration", type=float, default=8.0, metavar="SECONDS", help="seconds to watch each [8]")
    parser.add_argument("--no-stacks", action="store_true", help="without py-spy")
    parser.add_argument("--trainmon", default=TRAINMON, help="the program")
    args = parser.parse_args(words)
    names = args.only.split(",") if args.only else list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program is named {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    monitor = Monitor(args.trainmon, None, ("--no-stacks",) if args.no_stacks else ())
    failed = 0
    for name in names:
        program = PROGRAMS[name]
        if not os.path.isdir(os.path.join(args.checkouts, program.checkout, program.folder)):
            print(f"{name:17} skipped: no checkout {program.checkout} in {args.checkouts}")
            continue
        try:
            line = judged(name, program, args.checkouts, monitor, args.duration)
        except (MonitorFailed, OSError, subprocess.CalledProcessError) as error:
            line = f"failed: {error}"
        failed += any(word in line for word in ("WRONG AND SURE", "CONTRADICTS ITSELF", "failed:", "ended,"))
        print(f"{name:17} {line}", flush=True)
    return min(failed, 1)
