"""What is true about the programs with two limits of their own: a table in the form of labels.py, with what each can do of its plan."""

from __future__ import annotations

from uses.labels import LOADS, ON_THE_CPU, OWN_WORK, Use
from uses.training_labels import CUDA, MODEL, SAVES, TOO_FEW

#: Words of a plan's steps.
IN_WORKERS = ("workers", "ahead of the loop")
LESS_WORK = ("own work", "every n steps", "out of the step", "cheaper")
LESS_SAVING = ("save less often", "flush")
LESS_ASKING = ("request",)
#: The first advice may be about either limit.
OF_OWN_WORK = ("cheaper", "own work", "every", "metric", "callback")

TWO = (
    Use(
        "two_tiles", "PyTorch", "training", (*LOADS, *OWN_WORK, *ON_THE_CPU), "steps",
        ("__getitem__", "equalized", "unique", "_unique1d", "regions", "scattered", "<genexpr>"), ("num_workers", *OF_OWN_WORK, "callbacks"), (CUDA,),
        also="data-loader/in-process-loading", parts={"loading": (0.15, 0.5), "metrics": (0.18, 0.55)}, plan={"loading": IN_WORKERS, "metrics": LESS_WORK},
    ),
    Use(
        "two_dialogues", "Hugging Face Trainer", "training", (*LOADS, "data-loader/collate", *OWN_WORK, *ON_THE_CPU), "steps",
        (*MODEL, "training_step", "__call__", "cut", "<listcomp>", "<genexpr>", "on_step_end", "argsort", "_wrapfunc"), ("num_workers", "collat", *OF_OWN_WORK), (CUDA,),
        also="cpu/main-thread", parts={"loading": (0.15, 0.5), "neighbours": (0.15, 0.5)}, plan={"loading": IN_WORKERS, "neighbours": LESS_WORK},
    ),
    Use(
        "two_rooms", "Lightning", "training", (*LOADS, *SAVES), "steps",
        ("step", "adam", "__getitem__", "augment", "rotate", "filter", "transform", "autocontrast", "resize", "on_train_batch_end", "keep", "save"),
        ("num_workers", "save", "saving"), (CUDA,),
        also="io/checkpoint-write", parts={"loading": (0.2, 0.6), "saving": (0.12, 0.55)}, plan={"loading": IN_WORKERS, "saving": LESS_SAVING},
    ),
    # Its service is a process beside it: a server on this machine that rests.
    Use(
        "two_meters", "Accelerate", "training", (*LOADS, "io/remote-service", "cpu/waits-for-process"), "steps",
        ("__getitem__", "percentile", "_percentile", "_quantile", "_quantile_unchecked", "partition", "ask", "readline", "readinto"),
        ("num_workers", "request", "server"), (CUDA,),
        also="data-loader/in-process-loading", parts={"loading": (0.15, 0.5), "asking": (0.2, 0.55)}, plan={"loading": IN_WORKERS, "asking": LESS_ASKING},
    ),
    Use(
        "two_proteins", "PyTorch", "training", (*TOO_FEW, *OWN_WORK), "steps",
        ("__getitem__", "mean_area", "area", "<listcomp>", "<genexpr>"), ("num_workers", *OF_OWN_WORK, "callbacks"), (CUDA,),
        also="cpu/main-thread", parts={"loading": (0.1, 0.6), "metrics": (0.15, 0.65)}, plan={"loading": IN_WORKERS, "metrics": LESS_WORK},
    ),
    Use(
        "two_leaves", "fastai", "training", (*LOADS, *OWN_WORK, *ON_THE_CPU), "steps",
        (*MODEL, "_do_one_batch", "create", "load_image", "do_item", "create_item", "encodes", "load", "convert", "resize", "crop", "after_batch", "describe", "percentile", "histogram",
         "partition", "_quantile"),
        ("num_workers", *OF_OWN_WORK, "callbacks"), (CUDA,),
        also="cpu/main-thread", parts={"loading": (0.2, 0.6), "histograms": (0.18, 0.55)}, plan={"loading": IN_WORKERS, "histograms": LESS_WORK},
    ),
    Use(
        "two_tides", "PyTorch", "training", (*LOADS, *SAVES), "steps",
        ("__iter__", "detided", "median", "_median", "_ureduce", "lstsq", "pad", "main", "save"), ("worker", "ahead", "save", "saving"), (CUDA,),
        also="io/checkpoint-write", parts={"loading": (0.18, 0.5), "saving": (0.12, 0.6)}, plan={"loading": IN_WORKERS, "saving": LESS_SAVING},
    ),
    Use(
        "two_weather", "Keras", "training", (*LOADS, *OWN_WORK), "steps",
        ("__getitem__", "cleaned", "median", "_median", "_ureduce", "skill", "<listcomp>", "<genexpr>", "on_train_batch_end"),
        ("workers", *OF_OWN_WORK), (CUDA, "num_workers"),
        also="cpu/main-thread", parts={"loading": (0.22, 0.6), "scoring": (0.15, 0.5)}, plan={"loading": IN_WORKERS, "scoring": LESS_WORK},
    ),
)  # fmt: skip
