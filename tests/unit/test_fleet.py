"""Two scenarios of `python measure fleet` with a real Prometheus and few ranks, and how answers are checked."""

from __future__ import annotations

import copy
import os
import unittest
from collections.abc import Callable
from typing import Any

from measure import fleet, paths

EXAMPLE = os.path.join(paths.RELEASE, "examples/fleet_exporters")


def answer(scenario: fleet.Scenario) -> dict[str, Any]:
    """What is right."""
    late = {"kind": "none", "ranks": []} if scenario.late is None else {"kind": "rank", "ranks": [scenario.late]}
    class_, cause = scenario.kind.right[0].split("/") if scenario.kind.right else ("gpu", "communication")
    ranks: list[dict[str, Any]] = [{}] * scenario.ranks
    large = {"training_job": "large", "late": late, "class": class_, "cause": cause, "ranks": ranks}
    small = {"training_job": "small", "late": {"kind": "none", "ranks": []}}
    down = [] if scenario.down is None else [{"machine": fleet.machine(scenario.down)}]
    return {"runs": [large, small], "down": down, "totals": {"gpus": {"idle": 2}}}


class Scenarios(unittest.TestCase):
    def test_the_same_seed_plants_the_same(self) -> None:
        first, again = (fleet.Scenario.planted(1, 7, 16) for _ in range(2))
        self.assertEqual(first.plan, again.plan)
        self.assertNotEqual(first.late, first.down)
        self.assertEqual(len(first.plan), 16 + 4 + 2)
        self.assertIsNone(fleet.Scenario.planted(2, 7, 16).late)

    def test_mistakes_are_found(self) -> None:
        scenario = fleet.Scenario.planted(1, 7, 16)
        right = answer(scenario)
        self.assertEqual(scenario.mistakes(right), [])
        changes: tuple[tuple[Callable[[Any], Any], str], ...] = (
            (lambda wrong: wrong["runs"][0]["late"].update(ranks=[99]), "late"),
            (lambda wrong: wrong["runs"][0].update(cause="decode"), "cause"),
            (lambda wrong: wrong["runs"].pop(), "runs"),
            (lambda wrong: wrong["down"].clear(), "down"),
            (lambda wrong: wrong["totals"]["gpus"].update(idle=0), "idle"),
            (lambda wrong: wrong["runs"][1]["late"].update(kind="rank"), "small"),
        )
        for change, part in changes:
            wrong = copy.deepcopy(right)
            change(wrong)
            mistakes = scenario.mistakes(wrong)
            self.assertTrue(len(mistakes) == 1 and part in mistakes[0], mistakes)

    @unittest.skipIf(fleet.server() is None, "prometheus is missing: tests/run.sh gets it")
    @unittest.skipUnless(os.path.exists(EXAMPLE), "not built: cargo build --release --bins --examples")
    def test_the_late_rank_is_named_by_way_of_a_real_prometheus(self) -> None:
        for at in (0, 1, 2):
            scenario = fleet.Scenario.planted(at, 7, 16)
            with self.subTest(kind=scenario.kind.name):
                mistakes, *_ = fleet.tried(scenario, EXAMPLE, paths.TRAINMON, None, at)
                self.assertEqual(mistakes, [])


if __name__ == "__main__":
    unittest.main()
