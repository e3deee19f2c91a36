"""How confident the rules are, compared with how often they are right. Fitted by logistic regression with the standard library."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from measure.evaluation import scoring

#: What the rules do not call certain stays uncertain (crates/diagnosis/src/diagnosis/calibration.rs).
SURE, NOT_SURE, CERTAIN = 0.80, 0.79, 0.99
COLUMNS = ("options", "program", "held_out", "confidence", "right")
#: Most steps of Newton's method, and the step size at which it ends.
STEPS, SETTLED = 100, 1e-9
_ODDS = re.compile(r"(\bODDS = )([0-9.]+)")


@dataclass(frozen=True)
class Claim:
    """A verdict that claims something: the confidence of the rules in it, 0 to 1, and whether it was right."""

    options: str
    program: str
    held_out: bool
    confidence: float
    right: bool


@dataclass(frozen=True)
class Runs:
    """An evaluation."""

    #: trainmon's.
    options: str
    #: The programs that ran. Some of them make no claim.
    programs: frozenset[str]
    claims: list[Claim]


def of_runs(path: str) -> Runs:
    """Reads an evaluation that `measure evaluate --json` wrote."""
    with open(path, encoding="utf-8") as file:
        whole = json.load(file)
    options = " ".join(whole["options"])
    claims = [
        Claim(
            options,
            run["workload"],
            bool(run["held_out"]),
            _by_rules(run) or 0.0,
            bool(run["class_right"]) and run["cause"] != "wrong",
        )
        for run in whole["runs"]
        if _by_rules(run) is not None and run["seen_class"] not in ("unknown", scoring.NO_VERDICT)
    ]
    # A failed run does not count.
    return Runs(options, frozenset(run["workload"] for run in whole["runs"] if run.get("error") is None), claims)


def taken_in(known: Iterable[Claim], runs: Iterable[Runs]) -> list[Claim]:
    """The known claims, with those of the same programs and options replaced by the ones from new runs."""
    claims: dict[tuple[str, str], list[Claim]] = {}
    for claim in known:
        claims.setdefault((claim.options, claim.program), []).append(claim)
    fresh: dict[tuple[str, str], list[Claim]] = {}
    for one in runs:
        for program in sorted(one.programs):
            fresh.setdefault((one.options, program), [])
        for claim in one.claims:
            fresh.setdefault((one.options, claim.program), []).append(claim)
    return [claim for of_program in {**claims, **fresh}.values() for claim in of_program]


def _by_rules(run: dict[str, Any]) -> float | None:
    """The confidence of the rules. Earlier versions of trainmon showed it unchanged."""
    of_rules: float | None = run.get("confidence_by_rules")
    shown: float | None = run["confidence"]
    return shown if of_rules is None else of_rules


def read(path: str) -> list[Claim]:
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Claim(row["options"], row["program"], row["held_out"] == "1", float(row["confidence"]), row["right"] == "1")
            for row in csv.DictReader(file)
        ]


def write(path: str, claims: Iterable[Claim]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for claim in claims:
            rows.writerow(
                (claim.options, claim.program, int(claim.held_out), f"{claim.confidence:.2f}", int(claim.right))
            )


def log_odds(confidence: float) -> float:
    known = min(max(confidence, 0.001), 0.999)
    return math.log(known / (1.0 - known))


def _right(at: float) -> float:
    return 1.0 / (1.0 + math.exp(-at))


def fit(claims: list[Claim]) -> tuple[float, float]:
    """Slope and shift of the log-odds that make what was seen likeliest (Platt scaling), by Newton's method."""
    slope, shift = 1.0, 0.0
    for _ in range(STEPS):
        g_slope = g_shift = h_ss = h_sb = h_bb = 0.0
        for claim in claims:
            at = log_odds(claim.confidence)
            part = _right(slope * at + shift)
            off, weight = part - claim.right, part * (1.0 - part)
            g_slope, g_shift = g_slope + off * at, g_shift + off
            h_ss, h_sb, h_bb = h_ss + weight * at * at, h_sb + weight * at, h_bb + weight
        determinant = h_ss * h_bb - h_sb * h_sb
        if determinant <= 0.0:
            break
        by_slope = (h_bb * g_slope - h_sb * g_shift) / determinant
        by_shift = (h_ss * g_shift - h_sb * g_slope) / determinant
        slope, shift = slope - by_slope, shift - by_shift
        if abs(by_slope) + abs(by_shift) < SETTLED:
            break
    return slope, shift


def fit_odds(claims: list[Claim]) -> float:
    """By how much the odds of being right differ from those that the rules give, where the slope is 1; by bisection."""
    low, high = -6.0, 6.0
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        expected = sum(_right(log_odds(claim.confidence) + middle) for claim in claims)
        low, high = (middle, high) if expected < sum(claim.right for claim in claims) else (low, middle)
    return math.exp((low + high) / 2.0)


def odds_in(source: str) -> float:
    """`ODDS` as crates/diagnosis/src/diagnosis/calibration.rs has it; raises ValueError where it has none."""
    found = _ODDS.search(source)
    if found is None:
        raise ValueError("ODDS not found in crates/diagnosis/src/diagnosis/calibration.rs")
    return float(found[2])


def odds_for(found: float) -> float:
    """The odds to use, rounded to a tenth. Below 1 they would have no effect: what the rules are certain of stays so."""
    return max(1.0, round(found, 1))


def with_odds_set(source: str, odds: float, slope: float) -> str:
    """The text of crates/diagnosis/src/diagnosis/calibration.rs with new odds, and the slope that was found along with them."""
    odds_in(source)
    source = _ODDS.sub(rf"\g<1>{odds:.1f}", source)
    source = re.sub(r"(with )[0-9.]+( times the odds)", rf"\g<1>{odds:.1f}\g<2>", source)
    return re.sub(r"(slope of )[0-9.]+", rf"\g<1>{slope:.2f}", source)


def with_odds(odds: float) -> Callable[[float], float]:
    """The confidence that is shown for one of the rules', as crates/diagnosis/src/diagnosis/calibration.rs computes it."""

    def shown(confidence: float) -> float:
        part = odds * confidence / (1.0 + (odds - 1.0) * confidence)
        most = NOT_SURE if confidence < SURE else CERTAIN
        return round(max(min(part, most), min(confidence, CERTAIN)), 2)

    return shown


def figures(claims: list[Claim], shown: Callable[[float], float]) -> tuple[float | None, float | None]:
    """Brier score and expected calibration error, as the evaluation computes them."""
    results = [
        scoring.Result(claim.program, 1, "", None, "any", confidence=shown(claim.confidence), class_right=claim.right)
        for claim in claims
    ]
    return scoring.brier(results), scoring.calibration_error(results)
