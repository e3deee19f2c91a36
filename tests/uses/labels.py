"""What is true about each program in this folder: the one table that `python measure uses` compares verdicts with."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Among the words of `advice`: no advice is right as well.
SILENCE = "(none)"


@dataclass(frozen=True)
class Use:
    """A program that uses a library like its users do."""

    #: Its file without `.py`.
    name: str
    #: As its users write it.
    library: str
    #: What kind of job, one word or several that are true: training, boosting, fitting, reinforcement-learning, inference, serving,
    #: data-preparation, search.
    kind: str
    #: True answers: `class/cause`, or a class alone where any cause of it is true. Unknown with a reason is always true.
    honest: tuple[str, ...]
    #: What it counts: steps, trees, iterations, environment steps, tokens, requests, rows, trials.
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
    #: The words of `advice` that $TALLY_FIXED=1 follows; () for all of them.
    follows: tuple[str, ...] = ()
    #: What the program can do of its plan ($TALLY_FIXES): for each of these parts words, one of which is in the title of a step that means it.
    plan: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Attach to the process that counts, where it is not the one that was started.
    attach_counting: bool = False


ON_THE_CPU = ("cpu/cpu-training", "cpu/cores-saturated")
LOADS = ("data-loader/in-process-loading",)
OWN_WORK = ("cpu/main-thread",)
#: What helps a loop that loads by itself.
AHEAD = ("ahead", "process", "cheaper", "once", "cache", "corpus_file")
NO_TORCH = ('.to("cuda")', "num_workers", "DataLoader")
#: Layers, not what calls them.
THINC = ("maxout.py", "layernorm.py", "residual.py", "with_array.py", "tb_framework.py", "_precomputable_affine.py", "hashembed.py")
NOTHING = (SILENCE, "more CPUs")

USES = (
    # scikit-learn.
    Use(
        "gradient_boosting_table", "scikit-learn", "boosting fitting", ON_THE_CPU, "iterations", ("grower.py", "splitting.py", "predictor.py"), NOTHING, NO_TORCH,
    ),
    Use(
        "churn_forest", "scikit-learn", "boosting fitting", ("cpu/cpu-training",), "trees", ("_parallel_build_trees", "_classes.py"), ("n_jobs",), NO_TORCH,
        fixable=True,
    ),
    Use("tune_svc", "scikit-learn", "search fitting", (*ON_THE_CPU, "cpu/waits-for-process"), advice=NOTHING, never=NO_TORCH),
    Use(
        "tune_mlp", "scikit-learn", "search fitting", ("cpu/cpu-training",), place=("_multilayer_perceptron.py", "_stochastic_optimizers.py", "extmath.py"),
        advice=("n_jobs",), never=NO_TORCH, fixable=True,
    ),
    Use(
        "support_tickets", "scikit-learn", "training fitting", ("cpu/main-thread", "cpu/cpu-training"), place=("text.py",),
        advice=(SILENCE, "vectorizer", "n_jobs", "cheaper", "once"), never=NO_TORCH, parts={"vectorizing": (0.75, 1.0)},
    ),
    Use(
        "classify_digits", "scikit-learn", "training fitting", ON_THE_CPU, "steps", ("_multilayer_perceptron.py", "_stochastic_optimizers.py", "extmath.py"),
        NOTHING, NO_TORCH, parts={"fitting": (0.9, 1.0)},
    ),
    Use(
        "fraud_svc", "scikit-learn", "training fitting", ("cpu/cpu-training",), place=("_dense_fit",), advice=(SILENCE, "cache_size", "n_jobs", "LinearSVC"),
        never=NO_TORCH, parts={"fitting": (0.85, 1.0)},
    ),
    Use(
        "stream_reviews", "scikit-learn", "training fitting", LOADS, "steps", ("clean", "rows", "parser.py", "handle_data"), AHEAD, NO_TORCH,
        parts={"loading": (0.7, 1.0)},
    ),
    # Boosting.
    Use("boost_clicks", "XGBoost", "boosting", ON_THE_CPU, "trees", ("update",), (*NOTHING, 'device="cuda"'), (*NO_TORCH, "task_type")),
    Use("rank_listings", "XGBoost", "boosting", ("cpu/cpu-training",), "trees", ("update",), ("n_jobs", "nthread"), NO_TORCH, fixable=True),
    Use(
        "sensor_pages", "XGBoost", "boosting", LOADS, place=("features", "<lambda>", "rolling.py"), advice=AHEAD, never=NO_TORCH,
        parts={"loading": (0.7, 1.0)},
    ),
    Use("energy_lgb", "LightGBM", "boosting", ON_THE_CPU, "trees", ("update",), (*NOTHING, "device_type"), (*NO_TORCH, "task_type")),
    Use(
        "retrain_hourly", "LightGBM", "boosting", LOADS, place=("load", "<listcomp>", "_strptime.py"), advice=AHEAD, never=NO_TORCH,
        parts={"loading": (0.75, 1.0)},
    ),
    Use(
        "demand_forecast", "LightGBM", "boosting", OWN_WORK, "trees", ("pinball", "<listcomp>"), ("metric", "eval", "pinball", "cheaper"), NO_TORCH,
        parts={"metric": (0.86, 1.0)},
    ),
    Use("credit_catboost", "CatBoost", "boosting", ON_THE_CPU, "trees", ("_train",), (*NOTHING, "task_type"), (*NO_TORCH, "device_type")),
    Use(
        "small_catboost", "CatBoost", "boosting", (*ON_THE_CPU, "cpu/thread-oversubscription"), "trees", ("_train",), ("thread_count",), NO_TORCH,
        fixable=True,
    ),
    # Optuna.
    Use(
        "tune_trees", "Optuna", "search", ("cpu/cpu-training",), "trials", ("_forest.py", "_classes.py", "_validation.py"),
        (*NOTHING, "process", "n_jobs"), NO_TORCH,
    ),
    Use(
        "tune_lightgbm", "Optuna", "search", (*ON_THE_CPU, "cpu/thread-oversubscription"), "trials", ("update", "train"),
        ("num_threads", "OMP_NUM_THREADS"), NO_TORCH, fixable=True,
    ),
    # Language.
    Use(
        "spacy_entities", "spaCy", "training", ("cpu/cpu-training",), "steps", THINC, (SILENCE, "GPU", "batch"), NO_TORCH,
    ),
    Use(
        "spacy_mails", "spaCy", "training", (*LOADS, "cpu/cpu-training"), "steps", ("make_doc", "update", "tokenizer.pyx"), (*AHEAD, "make_doc"),
        NO_TORCH, "cpu/cpu-training", {"tokenizing": (0.35, 0.7)},
    ),
    Use("spacy_archive", "spaCy pipe", "inference", ("cpu/cpu-training",), "rows", THINC, ("n_process",), NO_TORCH, fixable=True),
    Use(
        "embed_logs", "gensim", "training", ("data-loader",), place=("tokens", "__iter__"), advice=AHEAD, never=NO_TORCH,
        parts={"reading": (0.6, 1.0)},
    ),
    Use(
        "embed_baskets", "gensim", "training", (*ON_THE_CPU, "cpu/waits-for-thread"), place=("_do_train_job", "_worker_loop"), advice=NOTHING,
        never=NO_TORCH,
    ),
    # Reinforcement learning.
    Use(
        "ppo_warehouse", "Stable-Baselines3", "reinforcement-learning", OWN_WORK, "environment steps", ("cast", "look"),
        ("SubprocVecEnv", "cast", "look"), NO_TORCH, fixable=True, follows=("SubprocVecEnv",),
    ),
    Use(
        "ppo_fleet", "Stable-Baselines3", "reinforcement-learning", ("cpu/waits-for-process", "cpu/cores-saturated"), "environment steps",
        ("simulate_orders", "<genexpr>", "step_wait"), (*NOTHING, "environment", "simulate_orders", "cheaper"), NO_TORCH,
    ),
    Use(
        "ppo_cartpole", "Stable-Baselines3", "reinforcement-learning", (*ON_THE_CPU, *OWN_WORK), "environment steps",
        ("train", "collect_rollouts", "policies.py", "evaluate_actions", "_engine_run_backward", "step"), NOTHING, (*NO_TORCH, 'device="cuda"'),
    ),
    Use(
        "dqn_pole", "Stable-Baselines3", "reinforcement-learning", ON_THE_CPU, "environment steps",
        ("train", "policies.py", "_engine_run_backward", "adam.py", "optimizer.py"), NOTHING, (*NO_TORCH, 'device="cuda"'),
    ),
    Use(
        "cleanrl_ppo", "CleanRL", "reinforcement-learning", (*ON_THE_CPU, *OWN_WORK), "environment steps",
        ("get_action_and_value", "_engine_run_backward", "forward", "step"), (*NOTHING, "NUM_ENVS"), NO_TORCH, parts={"environment": (0.0, 0.3)},
    ),
    # Generation and serving.
    Use(
        "score_exports", "PyTorch", "inference", LOADS, "rows", ("read_export", "<listcomp>"), (*AHEAD, "num_workers"), ('.to("cuda")',),
        parts={"loading": (0.75, 1.0)},
    ),
    Use("generate_stories", "transformers", "inference", ON_THE_CPU, "tokens", ("modeling_gpt2.py",), (*NOTHING, "GPU", "batch"), ("num_workers",)),
    Use(
        "answer_batches", "transformers", "inference", (*OWN_WORK, "cpu/cpu-training"), "tokens", ("edit_distance", "nearest_reference", "modeling_llama.py"),
        ("edit_distance", "nearest_reference", "cheaper"), ("num_workers",), "cpu/cpu-training", {"checking": (0.4, 0.8), "generating": (0.2, 0.6)},
    ),
    Use("serve_rarely", "PyTorch", "serving", ("idle", "balanced"), "requests", never=(*NO_TORCH, "GPU")),
    Use(
        "serve_pictures", "PyTorch", "serving", (*ON_THE_CPU, "cpu/thread-oversubscription", "cpu/waits-for-thread"), "requests", ("forward", "_conv_forward"),
        (*NOTHING, "GPU", "batch", "threads"), ("num_workers",),
    ),
    # Data preparation.
    Use(
        "tokenize_corpus", "datasets", "data-preparation", OWN_WORK, "rows", ("encode_word", "pairs", "<lambda>", "<setcomp>"), ("num_proc",), NO_TORCH,
        fixable=True,
    ),
    Use(
        "customer_features", "pandas", "data-preparation", OWN_WORK, place=("features", "longest_streak"),
        advice=(SILENCE, "features", "agg", "cheaper", "process"), never=NO_TORCH,
    ),
    Use(
        "trips_polars", "Polars", "data-preparation", (*OWN_WORK, "cpu/waits-for-thread"), "rows", ("distance_km",), ("expression", "map_elements"),
        NO_TORCH, parts={"distances": (0.8, 1.0)}, fixable=True,
    ),
    # Notebooks.
    Use(
        "notebook_autoencoder", "PyTorch", "training", ON_THE_CPU, "steps", ("_engine_run_backward", "forward", "adam.py", "optimizer.py"),
        (*NOTHING, "GPU"), ("num_workers",), attach_counting=True,
    ),
)  # fmt: skip
