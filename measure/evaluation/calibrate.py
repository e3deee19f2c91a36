"""Fits the confidence of verdicts to how often they are right.

    python measure calibrate                              use measure/calibration.csv as it is
    python measure calibrate RUNS.json …                  also use these evaluations
    python measure calibrate RUNS.json … --csv measure/calibration.csv --set-odds

`measure evaluate --json RUNS.json` writes RUNS.json. Its claims replace those of the same programs with the same options; all
others stay. The last form calibrates anew: it writes the CSV file, and sets `ODDS` in crates/diagnosis/src/diagnosis/calibration.rs to the value
that fits best. Run the evaluations with the build to calibrate:

    python measure evaluate --runs 1 --duration 8 --json with.json
    python measure evaluate --runs 1 --duration 8 --no-stacks --json without.json
    python measure calibrate with.json without.json --csv measure/calibration.csv --set-odds

The file also holds first verdicts on programs outside this repository (`elsewhere`), written by people who did not know the
rules, or for a single test. The fit uses all programs that are not held out; the output also shows figures for those that are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from measure import options
from measure.evaluation import calibration
from measure.paths import MEASURE, ROOT
from measure.text import show
from workloads.labels import LABELS

CSV, SOURCE = os.path.join(MEASURE, "calibration.csv"), os.path.join(ROOT, "crates/diagnosis/src/diagnosis/calibration.rs")
LABELLED = {label.name for label in LABELS}


def main(words: list[str]) -> int:
    parser = options.parser(__doc__, "measure calibrate")
    parser.add_argument("runs", nargs="*", metavar="RUNS.json", help="a file that `measure evaluate --json` wrote")
    parser.add_argument("--csv", metavar="FILE", help="add these runs to this file (default: write no file)")
    parser.add_argument("--set-odds", action="store_true", help="also set ODDS in crates/diagnosis/src/diagnosis/calibration.rs")
    args = parser.parse_args(words)
    if args.csv and not args.runs:
        parser.error("--csv needs runs to add")
    try:
        runs = [calibration.of_runs(path) for path in args.runs]
        path = args.csv or CSV
        known = calibration.read(path) if os.path.exists(path) else []
        source = Path(SOURCE).read_text(encoding="utf-8")
        odds = calibration.odds_in(source)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"cannot read: {error}")
    claims = calibration.taken_in((claim for claim in known if not is_gone(claim)), runs)
    fitted = [claim for claim in claims if not claim.held_out]
    if len({claim.right for claim in fitted}) < 2:
        parser.error("a fit needs both right and wrong verdicts")
    if args.csv:
        calibration.write(args.csv, claims)
    if args.runs:
        fresh = sum(len(one.claims) for one in runs)
        print(f"{fresh} claims are new, {len(claims) - fresh} stay, {len(known) + fresh - len(claims)} are gone")
    slope, shift = calibration.fit(fitted)
    found = calibration.fit_odds(fitted)
    print(f"log-odds: slope {slope:.2f}, shift {shift:.2f}; with a slope of 1 the odds are {found:.2f} times those of the rules")
    asked = calibration.odds_for(found)
    if args.set_odds:
        Path(SOURCE).write_text(calibration.with_odds_set(source, asked, slope), encoding="utf-8")
        print(f"ODDS was {odds:.1f} in crates/diagnosis/src/diagnosis/calibration.rs and is {asked:.1f} now")
        odds = asked
    else:
        print(f"ODDS is {odds:.1f} in crates/diagnosis/src/diagnosis/calibration.rs, and --set-odds would make it {asked:.1f}")
    if found < 1.0:
        print("the rules claim more confidence than they deserve: odds below 1 are not used, so lower the confidence in the rules")
    print()
    held_out = [claim for claim in claims if claim.held_out]
    modes = dict.fromkeys(claim.options for claim in claims)
    groups = [("fitted", fitted), ("held out", held_out)]
    groups += [(mode or "with stacks", [claim for claim in claims if claim.options == mode]) for mode in modes]
    print(f"{'':28}{'claims':>8}{'right':>8}   {'Brier, ECE of the rules':26}{f'shown, odds x {odds:g}':20}")
    for name, of_group in groups:
        if not of_group:
            continue
        right = sum(claim.right for claim in of_group) / len(of_group)
        parts = [
            ", ".join(show(value, ".3f") for value in calibration.figures(of_group, shown))
            for shown in (lambda confidence: confidence, calibration.with_odds(odds))
        ]
        print(f"{name:28}{len(of_group):>8}{right:>8.1%}   {parts[0]:26}{parts[1]:20}")
    return 0


def is_gone(claim: calibration.Claim) -> bool:
    """Whether the claim is about a labeled program that no longer exists."""
    labelled = not claim.options.startswith("elsewhere") and not re.fullmatch(r"(random|changing|standing)-\d+", claim.program)
    return labelled and claim.program not in LABELLED
