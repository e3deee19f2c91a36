"""What is true about the programs that train networks: a table of its own, in the form of labels.py."""

from __future__ import annotations

from uses.labels import LOADS, SILENCE, Use

#: One thread computes the model; more CPUs would not help it.
ONE_THREAD = ("cpu/cpu-training",)
#: The loop evaluates: the model on the CPU, or the loop's own work, depending on how one looks at it.
EVALUATES = ("cpu/cpu-training", "cpu/main-thread")
OWN_WORK = ("cpu/main-thread",)
SAVES = ("io/checkpoint-write",)
TOO_FEW = ("data-loader/too-few-workers", "data-loader/transform")

#: Frames of torch in which a model computes.
MODEL = ("forward", "backward", "_engine_run_backward")
BIGGER_MACHINE = (SILENCE, "GPU", "smaller")
#: These libraries move the model themselves, and there is no GPU.
CUDA = '.to("cuda")'
TRAINER_NEVER = (CUDA, "Set num_workers", "(num_workers")

TRAINING = (
    # --- transformers, Accelerate, TRL, sentence-transformers -------------------------------------------------------------------------
    Use(
        "transformers_reviews", "transformers", "training", LOADS, "steps", ("__getitem__", "tokenize"), ("dataloader_num_workers",),
        TRAINER_NEVER, parts={"loading": (0.4, 0.95)}, fixable=True,
    ),
    Use(
        "transformers_padding", "transformers", "training", ("data-loader/collate", *TOO_FEW), "steps", ("mask_whole_words",),
        ("dataloader_num_workers", "collat"), TRAINER_NEVER, parts={"waiting": (0.25, 0.95)},
    ),
    Use(
        "transformers_evaluates", "transformers", "training", EVALUATES, "steps",
        ("evaluate", "evaluation_loop", "prediction_step"), ("eval_steps", "eval_strategy", "evaluat", "validat"),
        TRAINER_NEVER, parts={"evaluating": (0.35, 0.8)}, fixable=True,
    ),
    Use(
        "transformers_saves", "transformers", "training", SAVES, "steps",
        ("_save_checkpoint", "_save_optimizer_and_scheduler", "save_model", "_save", "save_pretrained", "save", "save_file"),
        ("save_steps", "save_strategy", "save less often"), TRAINER_NEVER, parts={"saving": (0.3, 0.9)}, fixable=True,
    ),
    Use(
        "transformers_metrics", "transformers", "training", OWN_WORK, "steps", ("on_step_end", "bleu", "ngrams"),
        ("every", "metric", "callback", "own work"), (CUDA, "num_workers"), parts={"metrics": (0.35, 0.9)}, fixable=True,
    ),
    Use(
        "accelerate_readings", "Accelerate", "training", LOADS, "steps", ("__getitem__", "median", "_median"), ("num_workers",), (CUDA,),
        parts={"loading": (0.45, 0.95)}, fixable=True,
    ),
    Use(
        "accelerate_states", "Accelerate", "training", SAVES, "steps",
        ("save_state", "save_accelerator_state", "save_model", "save", "save_file"), ("save", "saving"), (CUDA, "num_workers"),
        parts={"saving": (0.3, 0.9)}, fixable=True,
    ),
    # --- torch alone ------------------------------------------------------------------------------------------------------------------
    Use(
        "torch_clips", "PyTorch", "training", ("cpu/waits-for-process", *LOADS), "steps", ("read_clip",),
        ("command", "unpack", "process", "worker", "ahead"), (CUDA,), parts={"unpacking": (0.6, 0.98)},
    ),
    Use(
        "torch_held_out", "PyTorch", "training", EVALUATES, "steps", ("test", *MODEL, "_conv_forward"), ("validat", "evaluat", "test"),
        parts={"testing": (0.25, 0.7)}, fixable=True,
    ),
    Use(
        "torch_resume", "PyTorch", "training", (*ONE_THREAD, *SAVES), "steps",
        (*MODEL, "keep", "save", "step", "adam"), ("save", "saving", "write", *BIGGER_MACHINE), ("num_workers",), also="io/checkpoint-write",
        parts={"keeping": (0.12, 0.45)}, fixable=True,
    ),
    Use(
        "torch_queue_captions", "PyTorch", "training", LOADS, "steps", ("encode", "run"), ("process", "worker", "DataLoader"), (CUDA,),
        parts={"waiting": (0.7, 0.99)},
    ),
    Use(
        "torch_queue_spectra", "PyTorch", "training", (*ONE_THREAD, "balanced"), "steps",
        (*MODEL, "step", "adam", "_single_tensor_adam", "_multi_tensor_adam"), BIGGER_MACHINE, ("num_workers",),
        parts={"waiting": (0.0, 0.1)},
    ),
)  # fmt: skip
