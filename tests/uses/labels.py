"""What is true about each program in this folder: the one table that `python measure uses` compares verdicts with."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Among the words of `advice`: no advice is right as well.
SILENCE = "(none)"


@dataclass(frozen=True)
class Use:
    """A program that uses a library as its users do."""

    #: Its file without `.py`.
    name: str
    #: As its users write it.
    library: str
    #: What kind of job: training, boosting, reinforcement-learning, generation, serving, data-preparation, search.
    kind: str
    #: True answers: `class/cause`, or a class alone where any cause of it is true. Unknown with a reason is always true.
    honest: tuple[str, ...]
    #: What it counts: steps, trees, environment steps, tokens, requests, rows, trials.
    unit: str | None = None
    #: Functions or files, one of which must be in the last two frames of the place; () where there is no place.
    place: tuple[str, ...] = ()
    #: Words, one of which must be in the first advice. () where there must be no advice.
    advice: tuple[str, ...] = ()
    #: Words that no advice may contain.
    never: tuple[str, ...] = ()
    #: The second limit, where there are two that cost 15% or more each.
    also: str | None = None
    #: Bounds of the share of the time that each part takes, as the program measures it; outside of them the label is not true.
    parts: dict[str, tuple[float, float]] = field(default_factory=dict)
    #: Whether $TALLY_FIXED=1 does what `advice` names.
    fixable: bool = False
    #: Attach to the process that counts, where it is not the one that was started.
    attach_counting: bool = False


ON_THE_CPU = ("cpu/cpu-training", "cpu/cores-saturated")
LOADS = ("data-loader/in-process-loading",)
TO_CUDA = ('.to("cuda")', "num_workers")

USES = (
    Use(
        "gradient_boosting_table", "scikit-learn", "boosting", ON_THE_CPU, "trees", ("grower.py", "splitting.py", "predictor.py"),
        (SILENCE, "CPUs"), TO_CUDA,
    ),
    Use(
        "stream_reviews", "scikit-learn", "training", LOADS, "steps", ("rows", "stream_reviews.py", "clean"), ("read", "parse", "load"),
        TO_CUDA, parts={"loading": (0.6, 0.98)},
    ),
)  # fmt: skip
