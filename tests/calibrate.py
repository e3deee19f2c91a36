"""Fits the confidence of verdicts to how often they are right.

    python tests/calibrate.py                                  what tests/calibration.csv says
    python tests/calibrate.py RUNS.json … --csv FILE           of evaluations (`evaluate.py --json RUNS.json`), which take the place
                                                               of those with the same options in FILE

Beside runs of the evaluation the file holds first verdicts on programs that are not in the repository (`elsewhere`): they
were written by people who knew no rule, or for one try. The fit is of all programs that are not held out; its figures are shown for
those that are as well. What it finds is `ODDS` in
src/diagnosis/calibration.rs.
"""

from __future__ import annotations

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "workloads")]

from evaluation import calibration  # noqa: E402
from evaluation.scoring import show  # noqa: E402

#: As in src/diagnosis/calibration.rs.
ODDS = 1.4


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("runs", nargs="*", metavar="RUNS.json", help="written by `evaluate.py --json`")
    parser.add_argument("--csv", metavar="FILE", help="keep the claims of these runs there")
    args = parser.parse_args()
    if args.csv and not args.runs:
        parser.error("--csv needs runs to keep")
    try:
        claims = [claim for path in args.runs for claim in calibration.of_runs(path)]
        claims = claims if args.runs else calibration.read(os.path.join(HERE, "calibration.csv"))
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"cannot read: {error}")
    fitted = [claim for claim in claims if not claim.held_out]
    if len({claim.right for claim in fitted}) < 2:
        parser.error("right and wrong verdicts are both needed for a fit")
    if args.csv:
        ran = {claim.options for claim in claims}
        known = calibration.read(args.csv) if os.path.exists(args.csv) else []
        calibration.write(args.csv, claims + [claim for claim in known if claim.options not in ran])
    slope, shift = calibration.fit(fitted)
    found = calibration.fit_odds(fitted)
    print(f"log-odds: slope {slope:.2f}, shift {shift:.2f}; with the slope 1 the odds are {found:.1f} times the rules'\n")
    held_out = [claim for claim in claims if claim.held_out]
    modes = dict.fromkeys(claim.options for claim in claims)
    groups = [("fitted", fitted), ("held out", held_out)]
    groups += [(mode or "with stacks", [claim for claim in claims if claim.options == mode]) for mode in modes]
    print(f"{'':28}{'claims':>8}{'right':>8}   {'Brier, ECE of the rules':26}{f'shown, odds x {ODDS:g}':20}")
    for name, of_group in groups:
        if not of_group:
            continue
        right = sum(claim.right for claim in of_group) / len(of_group)
        parts = [
            ", ".join(show(value, ".3f") for value in calibration.figures(of_group, shown))
            for shown in (lambda confidence: confidence, calibration.with_odds(ODDS))
        ]
        print(f"{name:28}{len(of_group):>8}{right:>8.1%}   {parts[0]:26}{parts[1]:20}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
