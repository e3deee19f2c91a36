"""Compares trainmon's verdicts with labeled workloads: how often is it right, how soon, and at what cost?

    python measure evaluate                       every workload three times: the full table
    python measure evaluate --quick               eight workloads once: about two minutes
    python measure evaluate --sample 24 --seed 7  24 workloads once, of every class and kind: the daily check, ten minutes
    python measure evaluate --random 50 --seed 7  randomly generated programs, each with its own seed
    python measure evaluate --changing 30         the same, but the bottleneck changes during the run
    python measure evaluate --standing 10         the same, but it changes after a verdict has held for a minute
    python measure evaluate --keep-all DIR        keep whole runs, to judge them again with another build:
    python measure evaluate --again DIR [--no-stacks]
    python measure evaluate --what-if             follow the first advice, and compare the result with the prediction
    python measure evaluate --spin                every wait for the GPU spins, as CUDA's waits do
    python measure evaluate --container all       in each kind of container: trainmon inside, next to it, or outside
    python measure evaluate --no-ptrace           what an ordinary user under Yama gets
    python measure evaluate --slowdown            the job's steps per second with and without trainmon
    python measure evaluate --cost                trainmon's own CPU, memory and first frame
    python measure evaluate --cost --busy         the same where a job's workers and other programs want every CPU
    python measure evaluate --cost --against OTHER/trainmon --duration 125    two builds in pairs: A B B A …, as ratios
    python measure evaluate --screen              bytes to the terminal, wake-ups, time from a key to its frame

Needs the packages in requirements.txt, and a release build with the fake NVML library:
    cargo build --release --bins --examples
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from typing import Any

from measure import contradictions, options
from measure.evaluation import again, amd, containers, cost, sample, scoring, screen, slowdown, verdicts, whatif
from measure.monitor import Monitor
from workloads.labels import LABELS, Label, by_name
from workloads.launch import simulated_cuda
from workloads.limits import Unavailable

NAME = "measure evaluate"
QUICK_DURATION_S = 8.0


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = options.parser(__doc__, NAME)
    options.add_monitor(parser)
    parser.add_argument("--runs", type=int, default=3, help="runs of each workload (default: %(default)s)")
    parser.add_argument("--duration", type=float, default=12.0, help="seconds to watch (default: %(default)s)")
    parser.add_argument("--only", help="names of workloads, separated by commas")
    parser.add_argument("--held-out", choices=("with", "without", "only"), default="with", help="whether to run the held-out third")
    parser.add_argument("--quick", action="store_true", help="eight workloads, one short run each")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="draw N workloads of every class and kind with --seed, one 8 s run each"
    )
    parser.add_argument("--markdown", action="store_true", help="print the figures as the tables of docs/measured.md (also with --cost)")
    made = parser.add_mutually_exclusive_group()
    made.add_argument("--random", type=int, metavar="N", help="generate N random programs")
    made.add_argument("--changing", type=int, metavar="N", help="generate N random programs whose bottleneck changes")
    made.add_argument("--standing", type=int, metavar="N", help="the same, after a verdict has held for a minute")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of --sample, or of the first random program (default: %(default)s)"
    )
    parser.add_argument("--spin", action="store_true", help="waits for the simulated GPU spin in native code")
    parser.add_argument("--no-stacks", action="store_true", help="pass this option to trainmon")
    parser.add_argument("--no-ptrace", action="store_true", help="pass this option to trainmon")
    parser.add_argument("--container", metavar="KIND", help="run in this kind of container, or in `all`; `list` names them")
    parser.add_argument("--amd", choices=("read", "unread"), help="show the simulated GPU as an AMD card, or as one that cannot be read")
    parser.add_argument("--min-class", type=float, help="exit with 1 if the class accuracy is lower (0 to 1)")
    parser.add_argument(
        "--no-contradictions", action="store_true", help="exit with 1 if the numbers of a verdict contradict each other"
    )
    parser.add_argument("--json", metavar="FILE", help="also write every run to this file")
    parser.add_argument("--keep", metavar="DIR", help="keep recordings that are fit for tests/recordings in this folder")
    parser.add_argument(
        "--keep-wrong", metavar="DIR", help="keep recordings of verdicts that are wrong or contradict themselves in this folder"
    )
    parser.add_argument("--keep-all", metavar="DIR", help="keep whole runs in this folder, for --again")
    parser.add_argument("--again", metavar="DIR", help="run nothing: judge the runs that --keep-all kept, without their stacks if --no-stacks is given")
    parser.add_argument("--what-if", action="store_true", help="compare predicted with measured step times, one run of each workload")
    parser.add_argument("--slowdown", action="store_true", help="measure how much watching slows the job down")
    parser.add_argument(
        "--pairs", type=int, help="pairs per workload for --slowdown (default: 8), per mode for --against (default: 3)"
    )
    parser.add_argument("--segment", type=float, default=6.0, help="seconds per segment for --slowdown, watched or alone")
    parser.add_argument("--min-ratio", type=float, help="for --slowdown: exit with 1 if the median ratio is lower")
    parser.add_argument("--cost", action="store_true", help="measure trainmon's own cost")
    parser.add_argument("--busy", action="store_true", help="for --cost: a starving job on a machine whose CPUs are full")
    parser.add_argument("--against", metavar="TRAINMON", help="for --cost: another build, measured alternately with this one")
    parser.add_argument("--max-ratio", type=float, help="for --against: exit with 1 if a median CPU ratio is higher")
    parser.add_argument("--screen", action="store_true", help="measure how much the screen sends, and how fast it reacts")
    args = parser.parse_args(words)
    if args.against and not args.cost:
        parser.error("--against needs --cost")
    if args.busy and not args.cost:
        parser.error("--busy needs --cost")
    if args.max_ratio is not None and not args.against:
        parser.error("--max-ratio needs --against")
    if args.pairs is None:
        args.pairs = 3 if args.against else 8
    if args.runs < 1 or args.pairs < 1 or args.duration <= 0 or args.segment <= 0:
        parser.error("--runs, --pairs, --duration and --segment must be positive")
    if args.again and not os.path.isdir(args.again):
        parser.error(f"{args.again} is not a folder of runs; make one with --keep-all")
    if args.sample is not None and args.sample < 1:
        parser.error("--sample must be positive")
    if args.sample and (args.quick or args.random or args.changing or args.standing):
        parser.error("--sample draws labeled workloads, so it cannot be combined with --quick, --random, --changing or --standing")
    if args.spin and not simulated_cuda():
        parser.error("--spin needs libsimulated_cuda.so; build it: cargo build --release --examples")
    return args


def chosen(args: argparse.Namespace) -> list[Label]:
    for kind, count in (("random", args.random), ("changing", args.changing), ("standing", args.standing)):
        if count:
            return [by_name(f"{kind}-{seed}") for seed in range(args.seed, args.seed + count)]
    if args.only:
        labels = [by_name(name) for name in args.only.split(",")]
    else:
        wanted = {"with": (False, True), "without": (False,), "only": (True,)}[args.held_out]
        labels = [label for label in LABELS if label.held_out in wanted and (label.quick or not args.quick)]
    return sample.draw(labels, args.sample, args.seed) if args.sample else labels


def run_all(
    labels: list[Label], runs: int, duration: float, monitor: Monitor, args: argparse.Namespace
) -> tuple[list[scoring.Result], dict[str, str], bool]:
    """Returns the results, what was skipped and why, and whether the user interrupted it."""
    results: list[scoring.Result] = []
    skipped: dict[str, str] = {}
    try:
        for label in labels:
            for number in range(1, runs + 1):
                try:
                    result = verdicts.one_run(
                        label, number, monitor, duration, args.data, args.keep, args.keep_wrong, args.keep_all
                    )
                except Unavailable as error:
                    skipped[label.name] = str(error)
                    print(f"{label.name:27}     skipped: {error}", flush=True)
                    break
                results.append(result)
                print(scoring.row(result), flush=True)
    except KeyboardInterrupt:
        print("interrupted: the tables cover the runs that finished")
        return results, skipped, True
    return results, skipped, False


def judge_again(
    monitor: Monitor, args: argparse.Namespace
) -> tuple[list[scoring.Result], dict[str, str], bool]:
    """Like `run_all`, for runs that were kept."""
    results: list[scoring.Result] = []
    for run in again.kept(args.again, stacks=not args.no_stacks):
        if args.held_out == "with" or run.label.held_out == (args.held_out == "only"):
            results.append(verdicts.once_more(run, monitor))
            print(scoring.row(results[-1]), flush=True)
    return results, {}, False


def evaluate(monitor: Monitor, args: argparse.Namespace) -> int:
    labels = chosen(args)
    runs, duration = (1, QUICK_DURATION_S) if args.quick or args.sample else (args.runs, args.duration)
    about = {label.name: label.about for label in labels}
    if args.sample:
        print(f"{len(labels)} programs drawn with seed {args.seed}\n{sample.about(labels)}\n")
    print(scoring.ROW_HEAD)
    if args.again:
        results, skipped, interrupted = judge_again(monitor, args)
    else:
        results, skipped, interrupted = run_all(labels, runs, duration, monitor, args)
    if not results:
        print("no workload was run")
        return 130 if interrupted else 1
    print(f"\n{scoring.as_markdown(results)}" if args.markdown else scoring.tables(results))
    at_random = args.random or args.changing or args.standing
    made = [result.workload for result in results if not result.class_right and at_random]
    for name in dict.fromkeys(made):
        print(f"wrong: {about[name]}\n       python measure evaluate --only {name}")
    if skipped:
        print(f"skipped               {', '.join(skipped)}")
    if args.json:
        whole = scoring.as_json(results, skipped=skipped, options=list(monitor.options), duration_s=duration)
        options.write_json(args.json, whole)
    if interrupted:
        return 130
    total = scoring.summarise(results)
    good = agree_with_themselves(total, args)
    if args.min_class is not None and total["class_accuracy"] < args.min_class:
        print(f"class accuracy {total['class_accuracy']:.1%} is below {args.min_class:.1%}")
        good = False
    return 0 if good else 1


def agree_with_themselves(total: dict[str, Any], args: argparse.Namespace) -> bool:
    """Whether --no-contradictions is satisfied; prints why not."""
    if not args.no_contradictions:
        return True
    if total["contradicting"]:
        print(f"{total['contradicting']} verdicts contradict themselves")
    unchecked = total["runs"] - total["failed"] - total["contradictions_checked"]
    if unchecked:
        print(f"{unchecked} verdicts could not be checked for contradictions")
    return not total["contradicting"] and not unchecked


def in_containers(monitor: Monitor, args: argparse.Namespace) -> int:
    """The workloads in one kind of container after the other, and a table of the kinds."""
    names = [kind.name for kind in containers.KINDS] if args.container == "all" else args.container.split(",")
    kinds = [containers.by_name(name) for name in names]
    labels = chosen(args) if args.only else [by_name(name) for name in containers.WORKLOADS]
    rows, everything = [], []
    judged: list[scoring.Result] = []
    for kind in kinds:
        print(f"\n{kind.name}: {kind.what}\n{scoring.ROW_HEAD}", flush=True)
        try:
            containers.check(kind)
        except Unavailable as error:
            print(f"skipped: {error}")
            continue
        enclosed = containers.EnclosedMonitor(monitor.program, monitor.nvml_lib, monitor.options, kind=kind)
        results, _skipped, interrupted = run_all(labels, args.runs, args.duration, enclosed, args)
        everything += [{"container": kind.name, **vars(result)} for result in results]
        judged += results
        rows.append(containers.row(kind, results))
        if interrupted:
            break
    print("\n" + containers.table(rows))
    print("\n".join(scoring.named(judged)))
    if args.json:
        options.write_json(args.json, {"runs": everything})
    good = bool(rows) and all(row.all_right for row in rows)
    return 0 if good and agree_with_themselves(scoring.summarise(judged), args) else 1


def what_if(monitor: Monitor, args: argparse.Namespace) -> int:
    results: list[whatif.Comparison] = []
    print(whatif.HEAD)
    for label in chosen(args):
        if label.fixed is None:
            continue
        try:
            result = whatif.compare(label, monitor, args.duration, args.data)
        except Unavailable as error:
            result = whatif.Comparison(label.name, label.held_out, why_not=str(error))
        results.append(result)
        print(whatif.row(result), flush=True)
    print(whatif.report(results))
    if args.json:
        options.write_json(args.json, {"summary": whatif.sums(results), "runs": [vars(result) for result in results]})
    return 0


def main(words: list[str] | None = None) -> int:
    args = arguments(words)
    missing = [name for name in ("torch", "numpy", "PIL", "zstandard") if importlib.util.find_spec(name) is None]
    if missing:
        return options.failed(NAME, f"{', '.join(missing)} not found; install with: pip install -r tests/requirements.txt")
    passed_on = tuple(name for name, on in (("--no-stacks", args.no_stacks), ("--no-ptrace", args.no_ptrace)) if on)
    try:
        monitor = Monitor.given(args, passed_on)
    except RuntimeError as error:
        return options.failed(NAME, str(error))
    if args.no_contradictions and contradictions.checker(monitor.program) is None:
        return options.failed(NAME, "--no-contradictions needs the example `contradictions`; build it: cargo build --release --bins --examples")
    if args.container == "list":
        print(*(f"{kind.name:18}{kind.what}" for kind in containers.KINDS), sep="\n")
        return 0
    if args.spin:
        os.environ["TRAINMON_SIMULATED_SYNC"] = "spin"
    options.end_as_interrupted()
    try:
        if args.amd:
            monitor = amd.monitor(monitor, args.amd)
        if args.slowdown:
            names = args.only.split(",") if args.only else list(slowdown.WORKLOADS)
            text, ratio = slowdown.report(slowdown.measure(monitor, names, args.pairs, args.segment, args.data))
            print(text, flush=True)
            if not args.only:
                print(slowdown.report_pauses(slowdown.measure_pauses(monitor, args.pairs, args.segment, args.data)))
            return 1 if args.min_ratio is not None and (ratio is None or ratio < args.min_ratio) else 0
        if args.cost:
            duration = max(args.duration, cost.LEAST_S)
            if not args.against:
                print(cost.report(cost.measure(monitor, duration, args.data, args.busy), args.markdown, args.busy))
                return 0
            other = monitor.another(args.against)
            text, ratio = cost.report_pairs(cost.compare(monitor, other, duration, args.pairs, args.data, args.busy))
            print(text)
            return 1 if args.max_ratio is not None and (ratio is None or ratio > args.max_ratio) else 0
        if args.screen:
            print(screen.measure(monitor, max(args.duration, 30.0), args.data))
            return 0
        if args.container:
            return in_containers(monitor, args)
        return what_if(monitor, args) if args.what_if else evaluate(monitor, args)
    except KeyboardInterrupt:
        return 130
    except (KeyError, RuntimeError, Unavailable) as error:
        return options.failed(NAME, str(error.args[0]))
