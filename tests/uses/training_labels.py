"""What is true about the programs that train networks: a table of its own, in the form of labels.py."""

from __future__ import annotations

from uses.labels import LOADS, ON_THE_CPU, SILENCE, Use

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
        "transformers_reviews", "Hugging Face Trainer", "training", LOADS, "steps", ("__getitem__", "tokenize"), ("dataloader_num_workers",),
        TRAINER_NEVER, parts={"loading": (0.4, 0.95)}, fixable=True,
    ),
    Use(
        "transformers_padding", "Hugging Face Trainer", "training", ("data-loader/collate", *TOO_FEW), "steps", ("mask_whole_words",),
        ("dataloader_num_workers", "collat"), TRAINER_NEVER, parts={"waiting": (0.25, 0.95)},
    ),
    Use(
        "transformers_evaluates", "Hugging Face Trainer", "training", EVALUATES, "steps",
        ("evaluate", "evaluation_loop", "prediction_step"), ("eval_steps", "eval_strategy", "evaluat", "validat"),
        TRAINER_NEVER, parts={"evaluating": (0.35, 0.8)}, fixable=True,
    ),
    Use(
        "transformers_saves", "Hugging Face Trainer", "training", SAVES, "steps",
        ("_save_checkpoint", "_save_optimizer_and_scheduler", "save_model", "_save", "save_pretrained", "save", "save_file"),
        ("save_steps", "save_strategy", "save less often"), TRAINER_NEVER, parts={"saving": (0.2, 0.9)}, fixable=True,
    ),
    Use(
        "transformers_metrics", "Hugging Face Trainer", "training", OWN_WORK, "steps", ("on_step_end", "bleu", "ngrams"),
        ("every", "metric", "callback", "own work"), (CUDA, "num_workers"), parts={"metrics": (0.35, 0.9)}, fixable=True,
    ),
    Use(
        "accelerate_readings", "Accelerate", "training", LOADS, "steps", ("__getitem__", "median", "_median"), ("num_workers",), (CUDA,),
        parts={"loading": (0.45, 0.95)}, fixable=True,
    ),
    Use(
        "accelerate_states", "Accelerate", "training", SAVES, "steps",
        ("save_state", "save_accelerator_state", "save_model", "save", "save_file"), ("save", "saving"), (CUDA, "num_workers"),
        parts={"saving": (0.2, 0.9)}, fixable=True,
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
    # Both at once, in one loop: the larger one comes first.
    Use(
        "torch_scores", "PyTorch", "training", (*TOO_FEW, *OWN_WORK), "steps", ("__getitem__", "percentile", "_percentile", "_quantile", "quantile"), ("num_workers",), (CUDA,),
        also="cpu/main-thread", parts={"waiting": (0.2, 0.7), "metrics": (0.12, 0.5)},
    ),
    Use(
        "torch_patches", "PyTorch", "training", (*LOADS, *SAVES), "steps", ("cut", "__iter__", "median", "_median"), ("num_workers",), (CUDA,),
        also="io/checkpoint-write", parts={"loading": (0.3, 0.8), "saving": (0.12, 0.45)},
    ),
    Use(
        "torch_forecast", "PyTorch", "training", ON_THE_CPU, "steps", (*MODEL, "step", "adamw"), (*BIGGER_MACHINE, "CPUs"), ("num_workers",),
    ),
    # --- TRL, sentence-transformers ---------------------------------------------------------------------------------------------------
    Use(
        "trl_sft", "TRL", "training", ONE_THREAD, "steps", ("training_step", "compute_loss", *MODEL), BIGGER_MACHINE, (CUDA, "num_workers"),
    ),
    Use(
        "trl_grpo", "TRL", "reinforcement-learning", (*ONE_THREAD, *OWN_WORK), "steps",
        ("_generate_and_score_completions", "_generate", "_generate_single_turn", "generate", "_sample"),
        ("max_completion_length", "num_generations", "vllm", "generat", "completion"), (CUDA, "num_workers"),
        parts={"generating": (0.7, 0.99)}, fixable=True,
    ),
    Use(
        "sentence_transformers_titles", "sentence-transformers", "training", LOADS, "steps",
        ("with_scores", "ratio", "find_longest_match", "get_matching_blocks"), ("dataloader_num_workers",), TRAINER_NEVER,
        parts={"loading": (0.35, 0.95)}, fixable=True,
    ),
    # --- Lightning, fastai, MMEngine, MONAI, timm, Ultralytics ------------------------------------------------------------------------
    Use(
        "lightning_segments", "Lightning", "training", LOADS, "steps", ("__getitem__", "warp", "roll"), ("num_workers",), (CUDA,),
        parts={"loading": (0.4, 0.95)}, fixable=True,
    ),
    Use(
        "lightning_validates", "Lightning", "training", EVALUATES, "steps", ("validation_step", "_evaluation_step", "evaluation_loop.py"),
        ("val_check_interval", "check_val_every_n_epoch", "limit_val_batches", "validat"), (CUDA,), parts={"validating": (0.35, 0.85)},
        fixable=True,
    ),
    Use(
        "lightning_pictures", "Lightning", "training", OWN_WORK, "steps", ("on_train_batch_end", "sheet", "resize", "save", "_encode_tile"),
        ("callback", "every", "on_train_batch_end", "log", "own work"), (CUDA, "num_workers"), parts={"drawing": (0.35, 0.9)}, fixable=True,
    ),
    Use(
        "fastai_pets", "fastai", "training", LOADS, "steps",
        ("create", "load_image", "do_item", "create_item", "encodes", "load", "convert", "resize", "crop"), ("num_workers",), (CUDA,),
        parts={"computing": (0.01, 0.4)}, fixable=True,
    ),
    Use(
        "mmengine_faces", "MMEngine", "training", TOO_FEW, "steps", ("__getitem__", "equalize"), ("num_workers",), (CUDA,),
        parts={"computing": (0.02, 0.5)}, fixable=True,
    ),
    Use(
        "monai_volumes", "MONAI", "training", LOADS, "steps", ("__call__", "_transform", "__getitem__"),
        ("worker", "process", "transform", "cache"), (CUDA,), parts={"waiting": (0.6, 0.99)},
    ),
    Use(
        "monai_cache", "MONAI", "training", LOADS, "steps", ("denoise", "__call__", "_transform", "__getitem__"),
        ("cache_rate", "cache_num", "num_workers"), (CUDA,), parts={"denoising": (0.4, 0.95)}, fixable=True,
    ),
    # Its two workers fill both CPUs: only cheaper decoding helps.
    Use(
        "timm_photos", "timm", "training", ("data-loader/decode", "cpu/cores-saturated"), "steps",
        ("__getitem__", "convert", "load", "thumbnail"), ("draft", "resize", "smaller", "at the size", "decode less", "decoder"),
        (CUDA, "on the GPU", "to the GPU", "Raise num_workers", "Set num_workers"), parts={"decoding": (0.6, 1.9), "transforms": (0.1, 0.8)},
    ),
    Use(
        "ultralytics_shapes", "Ultralytics", "training", LOADS, "steps",
        ("__getitem__", "get_image_and_label", "load_image", "imread", "imdecode", "__call__"), ("workers=", "cache="), TRAINER_NEVER,
        parts={"computing": (0.05, 0.55)}, fixable=True,
    ),
    Use(
        "ultralytics_counts", "Ultralytics", "training", ON_THE_CPU, "steps",
        (*MODEL, "_forward_once", "_predict_once", "loss", "__call__", "forward_split", "_conv_forward"),
        (*BIGGER_MACHINE, "device", "imgsz", "CPUs"), (CUDA, "num_workers"), parts={"computing": (0.75, 1.0)},
    ),
    # --- Keras, JAX, loaders of other libraries ----------------------------------------------------------------------------------
    Use(
        "keras_flowers", "Keras", "training", (*LOADS, "data-loader/decode", *TOO_FEW), "steps", (),
        ("AUTOTUNE", "num_parallel_calls", "prefetch"), (CUDA, "num_workers"), fixable=True,
    ),
    Use(
        "keras_sounds", "Keras", "training", (*LOADS, "data-loader/transform"), "steps", ("features",),
        ("py_function", "cache", "TensorFlow op"), (CUDA, "num_workers"), parts={"features": (0.35, 0.99)}, fixable=True,
    ),
    Use(
        "keras_tables", "Keras", "training", LOADS, "steps", ("__getitem__", "indicators"), ("workers", "use_multiprocessing"),
        (CUDA, "num_workers"), parts={"loading": (0.5, 0.98)}, fixable=True,
    ),
    Use(
        "jax_grain_maps", "JAX", "training", LOADS, "steps", ("map", "interp"), ("worker_count", "mp_prefetch"), (CUDA, "num_workers"),
        parts={"waiting": (0.5, 0.99)}, fixable=True,
    ),
    Use(
        "webdataset_signs", "WebDataset", "training", ("data-loader/decode", *TOO_FEW), "steps",
        ("small", "__call__", "load", "decode", "resize"), ("num_workers",), (CUDA,), parts={"waiting": (0.3, 0.99)}, fixable=True,
    ),
    Use(
        "streaming_scenes", "mosaicml-streaming", "training", LOADS, "steps", ("__getitem__", "filter", "resize", "convert", "load"),
        ("num_workers",), (CUDA,), parts={"loading": (0.5, 0.97)},
    ),
)  # fmt: skip
