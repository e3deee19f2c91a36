"""Runs HolisticTraceAnalysis on one trace and prints its figures, and the seconds after its imports, as JSON. Needs its own environment."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any

# Otherwise it cuts each event to whole microseconds, and kernels of a few microseconds lose a fifth.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

import pandas
from hta.trace_analysis import TraceAnalysis


def figures(path: str) -> dict[str, Any]:
    """Milliseconds of the GPU, the percentage of communication that computation hides, and idle milliseconds of all streams by reason."""
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path), include_last_profiler_step=True)
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    found = {
        "busy_ms": (row["kernel_time(us)"] - row["idle_time(us)"]) / 1e3,
        "compute_ms": row["compute_time(us)"] / 1e3,
        "idle_ms": row["idle_time(us)"] / 1e3,
    }
    overlap = analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0]
    found["overlap"] = None if pandas.isna(overlap) else float(overlap) / 100
    of_streams = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    found["idle_by"] = (of_streams.groupby("idle_category")["idle_time"].sum() / 1e3).to_dict()
    found["streams"] = int(of_streams["stream"].nunique())
    return found


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    answer = figures(sys.argv[1])
    print(json.dumps({**answer, "seconds": time.monotonic() - began}, default=float))
