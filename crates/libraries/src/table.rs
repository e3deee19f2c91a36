//! The libraries, a row for each. Functions and options were read in the version that the row names, and the options are
//! checked against the installed library by `tests/unit/test_libraries.py`.
//!
//! Long because it is one table.

use super::JobKind::*;
use super::JobSetting::{
    Algorithm, Columns, Device, Environments, FewerThreads, Generation, Persistent, Pin, Prefetch, SameAs, Saving,
    Threads, Workers,
};
use super::LibraryPart::*;
use super::StepUnit::*;
use super::{Code, Counter, JobSetting, Library};

const fn code(files: &'static str, functions: &'static str) -> Code {
    Code::new(files, functions)
}

const fn counter(code: Code, variable: &'static str, unit: super::StepUnit) -> Counter {
    Counter { code, variable, unit, total: None }
}

/// No function: the loop is the user's.
const NO_LOOP: Code = code("", "<none>");

/// Where scikit-learn computes. Its pipelines, searches and wrappers call what users wrote, so they are not in it.
const SKLEARN: &str = "sklearn/ensemble/_forest.py, sklearn/ensemble/_gb.py, sklearn/ensemble/_hist_gradient_boosting/, \
     sklearn/ensemble/_iforest.py, sklearn/discriminant_analysis.py, sklearn/naive_bayes.py, \
     sklearn/cluster/, sklearn/covariance/, sklearn/cross_decomposition/, sklearn/decomposition/, \
     sklearn/feature_extraction/, sklearn/gaussian_process/, sklearn/impute/, sklearn/linear_model/, \
     sklearn/manifold/, sklearn/mixture/, sklearn/neighbors/, sklearn/neural_network/, \
     sklearn/preprocessing/_data.py, sklearn/preprocessing/_encoders.py, sklearn/svm/, sklearn/tree/";

/// Outer libraries first: the last one that runs a loop is named, with its settings. A search or a server runs other libraries, and
/// TRL's functions run inside the loop of Transformers.
pub(super) const LIBRARIES: &[Library] = &[
    // Python 3.11. Flask and Prometheus' exporter serve by it.
    Library {
        name: "http.server",
        shown_as: Some(""),
        kind: Serving,
        runs: code("/socketserver.py", "serve_forever process_request_thread"),
        counters: &[counter(code("/socketserver.py", "serve_forever"), "threads begun", Request)],
        parts: &[],
        settings: &[(Workers, ""), (Persistent, ""), (Prefetch, ""), (Pin, "")],
        page: "https://docs.python.org/3/library/http.server.html",
    },
    // gunicorn 27.0.1: each worker is a fork of its arbiter.
    Library {
        name: "gunicorn",
        shown_as: None,
        kind: Serving,
        runs: code("gunicorn/arbiter.py", "run"),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "http.server")],
        page: "https://docs.gunicorn.org/en/stable/design.html",
    },
    // uvicorn 0.54: FastAPI and Starlette run in it.
    Library {
        name: "uvicorn",
        shown_as: None,
        kind: Serving,
        runs: code("uvicorn/server.py", "run serve _serve main_loop"),
        counters: &[counter(code("uvicorn/server.py", "run"), "self.server_state.total_requests", Request)],
        parts: &[],
        settings: &[(SameAs, "http.server")],
        page: "https://uvicorn.dev/deployment/",
    },
    // Flask 3.1.3: below its own server, or that of gunicorn.
    Library {
        name: "Flask",
        shown_as: None,
        kind: Serving,
        runs: code("flask/app.py", "wsgi_app"),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "http.server")],
        page: "https://flask.palletsprojects.com/en/stable/deploying/",
    },
    // aiohttp 3.14.
    Library {
        name: "aiohttp",
        shown_as: None,
        kind: Serving,
        runs: code("aiohttp/web.py", "run_app"),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "http.server")],
        page: "https://docs.aiohttp.org/en/stable/web.html",
    },
    // grpcio 1.85: a thread takes the calls, and a pool answers them.
    Library {
        name: "gRPC",
        shown_as: None,
        kind: Serving,
        runs: code("grpc/_server.py", "_serve wait_for_termination _unary_response_in_pool _stream_response_in_pool"),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "http.server")],
        page: "https://grpc.io/docs/guides/performance/",
    },
    // Ray Serve 2.60.0: a replica's process.
    Library {
        name: "Ray Serve",
        shown_as: None,
        kind: Serving,
        runs: code(
            "ray/serve/_private/replica.py",
            "handle_request handle_request_streaming handle_request_with_rejection call_user_method",
        ),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "http.server")],
        page: "https://docs.ray.io/en/latest/serve/advanced-guides/performance.html",
    },
    // pandas 3.1.
    Library {
        name: "pandas",
        shown_as: None,
        kind: DataPreparation,
        runs: code("pandas/core/, pandas/io/", ""),
        counters: &[],
        parts: &[(
            EachRow,
            code(
                "pandas/core/apply.py, pandas/core/groupby/ops.py, pandas/core/algorithms.py",
                "apply_standard apply_series_generator apply_groupwise _aggregate_series_pure_python map_array",
            ),
        )],
        settings: &[
            (Device, ""),
            (Workers, ""),
            (
                Columns,
                "Compute on whole columns, as with groupby(…).agg(…), instead of a function for each row or group",
            ),
        ],
        page: "https://pandas.pydata.org/docs/user_guide/enhancingperf.html",
    },
    // Polars 2.1.
    Library {
        name: "Polars",
        shown_as: None,
        kind: DataPreparation,
        runs: code(
            "polars/lazyframe/, polars/dataframe/, polars/series/, polars/expr/, polars/functions/, polars/io/",
            "",
        ),
        counters: &[],
        parts: &[(EachRow, code("polars/series/series.py, polars/dataframe/frame.py", "map_elements map_rows"))],
        settings: &[
            (Device, ""),
            (Workers, ""),
            (Columns, "Write it as expressions instead of a Python function in map_elements()"),
        ],
        page: "https://docs.pola.rs/user-guide/expressions/user-defined-python-functions/",
    },
    // Spark 4.3.0: the driver asks a Java process, which computes.
    Library {
        name: "Spark",
        shown_as: None,
        kind: DataPreparation,
        runs: code("py4j/clientserver.py, py4j/java_gateway.py", "send_command"),
        counters: &[],
        parts: &[],
        settings: &[(Device, ""), (Workers, "")],
        page: "https://spark.apache.org/docs/latest/tuning.html",
    },
    // Ray Data 2.60.0: the driver waits for what tasks in other processes make.
    Library {
        name: "Ray Data",
        shown_as: None,
        kind: DataPreparation,
        runs: code("ray/data/_internal/, ray/data/dataset.py, ray/data/iterator.py", ""),
        counters: &[],
        parts: &[
            (Batches, code("ray/data/_internal/block_batching/iter_batches.py", "__iter__ get_next_batch_context")),
            (TaskWait, code("ray/data/_internal/execution/streaming_executor_state.py", "get_output_blocking")),
        ],
        settings: &[(Device, ""), (Workers, ""), (Persistent, ""), (Prefetch, "prefetch_batches"), (Pin, "")],
        page: "https://docs.ray.io/en/latest/data/performance-tips.html",
    },
    // datasets 5.2.0.
    Library {
        name: "datasets",
        shown_as: None,
        kind: DataPreparation,
        runs: code("datasets/arrow_dataset.py", "map _map_single filter"),
        // A list of rows where it maps batches.
        // The bar adds up what several processes do.
        counters: &[
            counter(code("datasets/arrow_dataset.py", "map"), "pbar.n", Row),
            counter(code("datasets/arrow_dataset.py", "_map_single"), "i", Row),
        ],
        parts: &[],
        settings: &[
            (Device, ""),
            (Workers, "num_proc"),
            (Threads, "Map in processes: num_proc at the number of CPUs"),
        ],
        page: "https://huggingface.co/docs/datasets/process#multiprocessing",
    },
    // torch 2.15: its loader, whose settings have the names that advice uses.
    Library {
        name: "PyTorch DataLoader",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Batches, code("torch/utils/data/dataloader.py", ""))],
        settings: &[],
        page: "https://docs.pytorch.org/docs/stable/data.html",
    },
    // Grain 0.2.18, by its data sets.
    Library {
        name: "Grain",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Batches, code("grain/_src/python/dataset/transformations/prefetch.py", "__next__"))],
        settings: &[
            (Workers, "mp_prefetch(grain.MultiprocessingOptions(num_workers=…))"),
            (Persistent, ""),
            (Prefetch, "per_worker_buffer_size"),
            (Pin, ""),
        ],
        page: "https://google-grain.readthedocs.io/en/latest/tutorials/dataset_advanced_tutorial.html",
    },
    // Grain 0.2.18, by its DataLoader, which runs such a data set.
    Library {
        name: "Grain DataLoader",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Batches, code("grain/_src/python/data_loader.py", "__next__"))],
        settings: &[(Workers, "worker_count"), (Persistent, ""), (Prefetch, "worker_buffer_size"), (Pin, "")],
        page: "https://google-grain.readthedocs.io/en/latest/data_loader/transformations.html",
    },
    // DALI 2: its threads make the batches.
    Library {
        name: "DALI",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(
            Batches,
            code(
                "nvidia/dali/plugin/base_iterator.py, nvidia/dali/plugin/pytorch/__init__.py",
                "__next__ _get_outputs",
            ),
        )],
        settings: &[
            (Workers, "num_threads=… of the Pipeline"),
            (Persistent, ""),
            (Prefetch, "prefetch_queue_depth"),
            (Pin, ""),
        ],
        page: "https://docs.nvidia.com/deeplearning/dali/user-guide/docs/advanced_topics_performance_tuning.html",
    },
    // webdataset 1.0.2: its WebLoader hands its options to torch's loader.
    Library {
        name: "WebDataset",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Batches, code("webdataset/pipeline.py", "iterator iterator1"))],
        settings: &[],
        page: "https://webdataset.github.io/webdataset/",
    },
    // mosaicml-streaming 0.13.0: its loader is torch's, and downloads ahead.
    Library {
        name: "mosaicml-streaming",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Batches, code("streaming/base/dataloader.py, streaming/base/dataset.py", "__iter__"))],
        settings: &[],
        page: "https://docs.mosaicml.com/projects/streaming/en/stable/",
    },
    // Keras 3.15.1, on any backend.
    Library {
        name: "Keras PyDataset",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(
            Samples,
            code(
                "keras/src/trainers/data_adapters/py_dataset_adapter.py",
                "_finite_generator _infinite_generator _finite_enqueuer_generator _infinite_enqueuer_generator get_index",
            ),
        )],
        settings: &[
            (Workers, "workers=… and use_multiprocessing=True of the PyDataset"),
            (Persistent, ""),
            (Prefetch, "max_queue_size"),
            (Pin, ""),
        ],
        page: "https://keras.io/api/utils/python_utils/#pydataset-class",
    },
    // Gymnasium 1.4: environments one after the other in the loop's process, or each in one of its own.
    Library {
        name: "Gymnasium",
        shown_as: None,
        kind: ReinforcementLearning,
        runs: code(
            "gymnasium/vector/sync_vector_env.py, gymnasium/vector/async_vector_env.py",
            "step reset step_wait reset_wait",
        ),
        counters: &[],
        parts: &[
            (EnvironmentWait, code("gymnasium/vector/async_vector_env.py", "step_wait reset_wait")),
            (Environment, code("gymnasium/vector/sync_vector_env.py", "step reset")),
            (Environment, code("gymnasium/core.py, gymnasium/wrappers/common.py", "step reset")),
        ],
        settings: &[(Environments, "Step environments in processes: gymnasium.vector.AsyncVectorEnv")],
        page: "https://gymnasium.farama.org/api/vector/async_vector_env/",
    },
    // Optuna 5.0.0.
    Library {
        name: "Optuna",
        shown_as: None,
        kind: Search,
        runs: code("optuna/study/_optimize.py", "_optimize _optimize_sequential _run_trial"),
        // The first one rises only if the number of trials is given.
        counters: &[
            counter(code("optuna/study/_optimize.py", "_optimize_sequential"), "i_trial", Trial),
            counter(code("optuna/study/_optimize.py", "_optimize_sequential"), "frozen_trial_id", Trial),
        ],
        parts: &[],
        settings: &[(
            Threads,
            "Run trials in parallel: several processes with one storage, or study.optimize(n_jobs=…)",
        )],
        page: "https://optuna.readthedocs.io/en/stable/tutorial/10_key_features/004_distributed.html",
    },
    // scikit-learn 1.9.1: grid, random and halving search.
    Library {
        name: "scikit-learn search",
        shown_as: Some("scikit-learn"),
        kind: Search,
        runs: code("sklearn/model_selection/_search.py", "fit evaluate_candidates"),
        counters: &[],
        parts: &[],
        settings: &[(Workers, ""), (Threads, "Fit the candidates in parallel: n_jobs=-1 of the search")],
        page: "https://scikit-learn.org/stable/modules/grid_search.html#parallelism",
    },
    // Ray Train 2.60.0: the user's function runs in a worker process of it.
    Library {
        name: "Ray Train",
        shown_as: None,
        kind: Training,
        runs: code(
            "ray/train/v2/_internal/execution/worker_group/thread_runner.py, ray/train/_internal/utils.py",
            "",
        ),
        counters: &[],
        parts: &[(Report, code("ray/train/v2/api/train_fn_utils.py", "report"))],
        settings: &[],
        page: "https://docs.ray.io/en/latest/train/user-guides/data-loading-preprocessing.html",
    },
    // vLLM 0.33.0: a process of its own runs the engine, for a script as for a server.
    Library {
        name: "vLLM",
        shown_as: None,
        kind: Inference,
        runs: code("vllm/v1/engine/core.py, vllm/entrypoints/common/offline.py", "run_busy_loop _run_engine"),
        counters: &[],
        parts: &[(Generate, code("vllm/v1/engine/core.py", "step step_with_batch_queue"))],
        settings: &[(Device, ""), (Workers, ""), (Persistent, ""), (Prefetch, ""), (Pin, "")],
        page: "https://docs.vllm.ai/en/latest/configuration/optimization.html",
    },
    // SGLang 0.5.23: its scheduler's process.
    Library {
        name: "SGLang",
        shown_as: None,
        kind: Inference,
        runs: code("sglang/srt/managers/scheduler.py", "event_loop_normal event_loop_overlap"),
        counters: &[],
        parts: &[(Generate, code("sglang/srt/managers/scheduler.py", "run_batch process_batch_result"))],
        settings: &[(Device, ""), (Workers, ""), (Persistent, ""), (Prefetch, ""), (Pin, "")],
        page: "https://docs.sglang.io/docs/advanced_features/hyperparameter_tuning",
    },
    // Transformers 5.23.0: a model or a pipeline that is called by the user's loop.
    Library {
        name: "Transformers",
        shown_as: None,
        kind: Inference,
        runs: code(
            "transformers/generation/utils.py, transformers/pipelines/base.py",
            "generate __call__ run_single",
        ),
        // What it holds is counted, and it begins anew with each call.
        counters: &[counter(
            code("transformers/generation/utils.py", "_sample _assisted_decoding"),
            "input_ids",
            Token,
        )],
        parts: &[
            (Generate, code("transformers/generation/utils.py", "generate _sample _beam_search")),
            (Forward, code("transformers/pipelines/base.py", "forward")),
        ],
        settings: &[],
        page: "https://huggingface.co/docs/transformers/pipeline_tutorial",
    },
    // Accelerate 1.15.0: the loop is the user's, or that of a trainer below.
    Library {
        name: "Accelerate",
        shown_as: None,
        kind: Training,
        runs: code("accelerate/optimizer.py, accelerate/accelerator.py", "step backward"),
        counters: &[],
        parts: &[
            (Copy, code("accelerate/utils/operations.py", "send_to_device")),
            (Checkpoint, code("accelerate/accelerator.py", "save_state save_model")),
            (Checkpoint, code("accelerate/checkpointing.py", "")),
        ],
        settings: &[],
        page: "https://huggingface.co/docs/accelerate/concept_guides/performance",
    },
    // DeepSpeed 0.18: its engine is called by the user's loop, or by a trainer below.
    Library {
        name: "DeepSpeed",
        shown_as: None,
        kind: Training,
        runs: code("deepspeed/runtime/engine.py", "forward backward step"),
        counters: &[],
        parts: &[
            (Optimizer, code("deepspeed/runtime/engine.py", "_take_model_step")),
            (Checkpoint, code("deepspeed/runtime/engine.py", "save_checkpoint")),
            (Report, code("deepspeed/monitor/", "")),
        ],
        settings: &[],
        page: "https://deepspeed.readthedocs.io/en/latest/training.html",
    },
    // timm 1.0.31: the loop is the user's copy of train.py, so only its parts are known.
    Library {
        name: "timm",
        shown_as: None,
        kind: Training,
        runs: NO_LOOP,
        counters: &[],
        parts: &[
            (Checkpoint, code("timm/utils/checkpoint_saver.py", "")),
            (Report, code("timm/utils/summary.py", "")),
        ],
        settings: &[],
        page: "https://huggingface.co/docs/timm/training_script",
    },
    // Transformers 5.23.0.
    Library {
        name: "Hugging Face Trainer",
        shown_as: None,
        kind: Training,
        runs: code("transformers/trainer.py", "_inner_training_loop _run_epoch"),
        counters: &[
            counter(
                code("transformers/trainer.py", "_inner_training_loop _run_epoch"),
                "self.state.global_step",
                Step,
            ),
            counter(code("transformers/trainer.py", "_inner_training_loop _run_epoch"), "step", Step),
        ],
        parts: &[
            (Validation, code("transformers/trainer.py", "evaluate evaluation_loop prediction_step")),
            (Copy, code("transformers/trainer.py", "_prepare_inputs _prepare_input")),
            (Checkpoint, code("transformers/trainer.py", "_save_checkpoint save_model _save")),
            (Checkpoint, code("transformers/modeling_utils.py", "save_pretrained")),
            (Checkpoint, code("transformers/trainer_utils.py", "rotate_checkpoints")),
            (Report, code("transformers/trainer_callback.py", "")),
        ],
        settings: &[
            (JobSetting::Validation, "Evaluate less often: eval_steps, or on fewer examples of eval_dataset"),
            (Saving, "Save less often: save_steps, or save_only_model=True"),
            (Workers, "dataloader_num_workers"),
            (Persistent, "dataloader_persistent_workers"),
            (Prefetch, "dataloader_prefetch_factor"),
            (Pin, "dataloader_pin_memory"),
        ],
        page: "https://huggingface.co/docs/transformers/main_classes/trainer",
    },
    // TRL 1.16.0: its classes are those of Transformers.
    Library {
        name: "TRL",
        shown_as: None,
        kind: ReinforcementLearning,
        runs: code(
            "trl/trainer/grpo_trainer.py, trl/trainer/rloo_trainer.py, trl/trainer/online_dpo_trainer.py",
            "training_step _prepare_inputs _generate_and_score_completions",
        ),
        counters: &[],
        parts: &[(
            Generate,
            code("trl/trainer/grpo_trainer.py, trl/trainer/rloo_trainer.py", "_generate _generate_single_turn"),
        )],
        settings: &[
            (SameAs, "Hugging Face Trainer"),
            (Generation, "Generate with vLLM: use_vllm=True in GRPOConfig"),
        ],
        page: "https://huggingface.co/docs/trl/speeding_up_training",
    },
    // TRL 1.16.0: what learns from texts as they are.
    Library {
        name: "TRL fine-tuning",
        shown_as: Some("TRL"),
        kind: Training,
        runs: code(
            "trl/trainer/sft_trainer.py, trl/trainer/dpo_trainer.py, trl/trainer/kto_trainer.py, trl/trainer/reward_trainer.py, \
             trl/trainer/distillation_trainer.py",
            "training_step compute_loss",
        ),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "Hugging Face Trainer")],
        page: "https://huggingface.co/docs/trl/sft_trainer",
    },
    // sentence-transformers 6.2.0: its classes are those of Transformers, too.
    Library {
        name: "sentence-transformers",
        shown_as: None,
        kind: Training,
        runs: code(
            "sentence_transformers/base/trainer.py, sentence_transformers/base/data_collator.py, \
             sentence_transformers/trainer.py",
            "compute_loss __call__",
        ),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "Hugging Face Trainer")],
        page: "https://sbert.net/docs/package_reference/sentence_transformer/training_args.html",
    },
    // Lightning 2.6.6: the user makes the loader, so its options are torch's.
    Library {
        name: "Lightning",
        shown_as: None,
        kind: Training,
        runs: code("loops/training_epoch_loop.py, loops/fit_loop.py", ""),
        counters: &[counter(code("loops/training_epoch_loop.py", "advance"), "batch_idx", Step)],
        parts: &[
            (Validation, code("loops/evaluation_loop.py", "")),
            (Copy, code("strategies/strategy.py", "batch_to_device")),
            (Copy, code("fabric/utilities/apply_func.py", "move_data_to_device batch_to")),
            (Checkpoint, code("callbacks/model_checkpoint.py", "")),
            (Report, code("trainer/call.py", "_call_callback_hooks")),
            (Report, code("logger_connector/", "")),
        ],
        settings: &[
            (JobSetting::Validation, "Validate less often: val_check_interval, or limit_val_batches"),
            (Saving, "Save less often: every_n_train_steps in ModelCheckpoint"),
        ],
        page: "https://lightning.ai/docs/pytorch/stable/advanced/speed.html",
    },
    // Ultralytics 8.4.
    Library {
        name: "Ultralytics",
        shown_as: None,
        kind: Training,
        runs: code("ultralytics/engine/trainer.py", "_do_train"),
        counters: &[counter(code("ultralytics/engine/trainer.py", "_do_train"), "ni", Step)],
        parts: &[
            (Validation, code("ultralytics/engine/trainer.py", "validate")),
            (Validation, code("ultralytics/engine/validator.py", "__call__")),
            (Checkpoint, code("ultralytics/engine/trainer.py", "save_model")),
            (Report, code("ultralytics/utils/plotting.py, ultralytics/utils/callbacks/", "")),
        ],
        settings: &[
            (JobSetting::Validation, "Validate at the end only: val=False"),
            (Saving, "Save the last and the best only: save_period=-1"),
            (Workers, "workers"),
            (Persistent, ""),
            (Prefetch, ""),
            (Pin, ""),
        ],
        page: "https://docs.ultralytics.com/modes/train/#train-settings",
    },
    // fastai 2.8.12.
    Library {
        name: "fastai",
        shown_as: None,
        kind: Training,
        runs: code("fastai/learner.py", "_do_fit _do_epoch_train all_batches"),
        // Of the batches, `i` counts those of validation as well.
        counters: &[counter(code("fastai/learner.py", "_do_fit"), "self.train_iter", Step)],
        parts: &[
            (Validation, code("fastai/learner.py", "_do_epoch_validate")),
            (Forward, code("fastai/learner.py", "_do_one_batch")),
            (Checkpoint, code("fastai/callback/tracker.py", "_save")),
            (Report, code("fastai/callback/progress.py, fastprogress/", "")),
        ],
        settings: &[],
        page: "https://docs.fast.ai/data.load.html",
    },
    // PyTorch Ignite 0.5.5. A trainer runs evaluators inside its loop: the outer one counts.
    Library {
        name: "Ignite",
        shown_as: None,
        kind: Training,
        runs: code("ignite/engine/engine.py", "_run_once_on_dataset_as_gen _run_once_on_dataset_legacy"),
        counters: &[counter(
            code("ignite/engine/engine.py", "_run_once_on_dataset_as_gen _run_once_on_dataset_legacy"),
            "iter_counter",
            Step,
        )],
        parts: &[
            (Checkpoint, code("ignite/handlers/checkpoint.py", "")),
            (
                Report,
                code(
                    "ignite/handlers/base_logger.py, ignite/handlers/tensorboard_logger.py, ignite/handlers/tqdm_logger.py",
                    "",
                ),
            ),
        ],
        settings: &[],
        page: "https://docs.pytorch.org/ignite/engine.html",
    },
    // MONAI 1.6.1: its engines are those of Ignite.
    Library {
        name: "MONAI",
        shown_as: None,
        kind: Training,
        runs: code("monai/engines/trainer.py", "run _iteration"),
        counters: &[],
        parts: &[
            (Validation, code("monai/engines/evaluator.py", "run _iteration")),
            (Checkpoint, code("monai/handlers/checkpoint_saver.py", "")),
            (Report, code("monai/handlers/stats_handler.py, monai/handlers/tensorboard_handlers.py", "")),
        ],
        settings: &[],
        page: "https://docs.monai.io/en/stable/engines.html",
    },
    // MMEngine 0.10.7.
    Library {
        name: "MMEngine",
        shown_as: None,
        kind: Training,
        runs: code("mmengine/runner/loops.py", "run_epoch run_iter"),
        counters: &[counter(code("mmengine/runner/loops.py", "run_epoch"), "idx", Step)],
        parts: &[
            (Checkpoint, code("mmengine/hooks/checkpoint_hook.py, mmengine/runner/checkpoint.py", "")),
            (Report, code("mmengine/hooks/logger_hook.py, mmengine/logging/", "")),
        ],
        settings: &[
            (Workers, "train_dataloader['num_workers']"),
            (Persistent, "train_dataloader['persistent_workers']"),
        ],
        page: "https://mmengine.readthedocs.io/en/latest/common_usage/speed_up_training.html",
    },
    // Keras 3.15.1.
    Library {
        name: "Keras",
        shown_as: None,
        kind: Training,
        runs: code(
            "keras/src/backend/tensorflow/trainer.py, keras/src/backend/torch/trainer.py, keras/src/backend/jax/trainer.py",
            "fit",
        ),
        counters: &[
            counter(
                code(
                    "keras/src/backend/tensorflow/trainer.py, keras/src/backend/torch/trainer.py, keras/src/backend/jax/trainer.py",
                    "fit",
                ),
                "begin_step",
                Step,
            ),
            counter(code("keras/src/trainers/epoch_iterator.py", "_enumerate_iterator"), "step", Step),
        ],
        parts: &[
            (
                Validation,
                code(
                    "keras/src/backend/tensorflow/trainer.py, keras/src/backend/torch/trainer.py, keras/src/backend/jax/trainer.py",
                    "evaluate",
                ),
            ),
            (Checkpoint, code("keras/src/saving/", "")),
            (Report, code("keras/src/callbacks/", "")),
            (EachRow, code("tensorflow/python/ops/script_ops.py", "")),
        ],
        settings: &[
            (JobSetting::Validation, "Validate less often: validation_freq, or validation_steps"),
            (Saving, "Save less often: save_freq in ModelCheckpoint"),
            (Workers, "num_parallel_calls=tf.data.AUTOTUNE in map()"),
            (Persistent, ""),
            (Prefetch, "prefetch(tf.data.AUTOTUNE)"),
            (Pin, ""),
            (Columns, "Use TensorFlow operations instead of a Python function, or keep its results: cache()"),
        ],
        page: "https://www.tensorflow.org/guide/data_performance",
    },
    // Stable-Baselines3 2.9.2. Its page on performance advises the CPU for policies without images.
    Library {
        name: "Stable-Baselines3",
        shown_as: None,
        kind: ReinforcementLearning,
        runs: code(
            "stable_baselines3/common/on_policy_algorithm.py, stable_baselines3/common/off_policy_algorithm.py",
            "learn collect_rollouts",
        ),
        // Of all environments of a vector together.
        counters: &[counter(
            code(
                "stable_baselines3/common/on_policy_algorithm.py, stable_baselines3/common/off_policy_algorithm.py",
                "learn collect_rollouts",
            ),
            "self.num_timesteps",
            EnvironmentStep,
        )],
        parts: &[
            (EnvironmentWait, code("stable_baselines3/common/vec_env/subproc_vec_env.py", "step_wait")),
            (Environment, code("stable_baselines3/common/vec_env/", "step step_wait reset")),
            (Environment, code("stable_baselines3/common/monitor.py", "step reset")),
            (Report, code("stable_baselines3/common/logger.py", "")),
        ],
        settings: &[
            (Device, ""),
            (Environments, "Step environments in processes: make_vec_env(…, n_envs=…, vec_env_cls=SubprocVecEnv)"),
        ],
        page: "https://stable-baselines3.readthedocs.io/en/master/guide/vec_envs.html",
    },
    // XGBoost 3.2.0.
    Library {
        name: "XGBoost",
        shown_as: None,
        kind: Boosting,
        runs: code("xgboost/training.py", "train cv"),
        counters: &[counter(code("xgboost/training.py", "train cv"), "i", Tree)],
        parts: &[
            (Fit, code("xgboost/core.py", "update boost")),
            (Samples, code("xgboost/core.py", "_next_wrapper")),
            (Forward, code("xgboost/core.py", "predict inplace_predict")),
        ],
        settings: &[
            (Device, "Train on the GPU: device=\"cuda\""),
            (Workers, ""),
            (Threads, "Use all CPUs: nthread=… (n_jobs=…) at the number of allowed CPUs"),
            (FewerThreads, "Use no more threads than CPUs: nthread, n_jobs in its scikit-learn interface"),
        ],
        page: "https://xgboost.readthedocs.io/en/stable/gpu/index.html",
    },
    // LightGBM 4.7.0. Its GPU build is another package than that of pip.
    Library {
        name: "LightGBM",
        shown_as: None,
        kind: Boosting,
        runs: code("lightgbm/engine.py", "train cv"),
        counters: &[counter(code("lightgbm/engine.py", "train cv"), "i", Tree)],
        parts: &[(Fit, code("lightgbm/basic.py", "update __boost")), (Forward, code("lightgbm/basic.py", "predict"))],
        settings: &[
            (Device, "Train on the GPU: device_type=\"cuda\", with a build for CUDA"),
            (Workers, ""),
            (Threads, "Use one thread for each physical core: num_threads"),
            (FewerThreads, "Use no more threads than CPUs, one for a small table: num_threads"),
        ],
        page: "https://lightgbm.readthedocs.io/en/stable/GPU-Tutorial.html",
    },
    // CatBoost 1.2.10: its whole loop is native; a file that it writes counts.
    Library {
        name: "CatBoost",
        shown_as: None,
        kind: Boosting,
        runs: code("catboost/core.py", "_train _fit train"),
        counters: &[counter(code("catboost/core.py", "_train"), "time_left.tsv", Tree)],
        parts: &[(Fit, code("catboost/core.py", "_train")), (Forward, code("catboost/core.py", "_base_predict"))],
        settings: &[
            (Device, "Train on the GPU: task_type=\"GPU\""),
            (Workers, ""),
            (Threads, "Use all CPUs: thread_count=-1"),
            (FewerThreads, "Use no more threads than CPUs, one for a small table: thread_count"),
        ],
        page: "https://catboost.ai/docs/en/features/training-on-gpu",
    },
    // spaCy 3.8.18. Training evaluates by its pipe as well.
    Library {
        name: "spaCy pipe",
        shown_as: None,
        kind: Inference,
        runs: code("spacy/language.py", "pipe"),
        counters: &[],
        parts: &[],
        settings: &[
            (Device, "Run it on the GPU: spacy.require_gpu() before spacy.load()"),
            (Workers, ""),
            (Threads, "Run it in processes: nlp.pipe(texts, n_process=…)"),
        ],
        page: "https://spacy.io/usage/processing-pipelines#multiprocessing",
    },
    // spaCy 3.8.18.
    Library {
        name: "spaCy",
        shown_as: None,
        kind: Training,
        runs: code("spacy/language.py, spacy/training/loop.py", "update train_while_improving"),
        counters: &[counter(code("spacy/training/loop.py", "train_while_improving"), "step", Step)],
        parts: &[
            (Forward, code("spacy/pipeline/, spacy/language.py", "update _ensure_doc")),
            (Samples, code("spacy/language.py", "make_doc")),
            (Optimizer, code("thinc/optimizers.py", "")),
        ],
        settings: &[(Device, "Train on the GPU: spacy.require_gpu(), or `spacy train --gpu-id 0`"), (Workers, "")],
        page: "https://spacy.io/usage/training",
    },
    // gensim 4.4.0: threads train, and the loop's thread waits for them.
    Library {
        name: "gensim",
        shown_as: None,
        kind: Training,
        runs: code(
            "gensim/models/word2vec.py, gensim/models/fasttext.py, gensim/models/doc2vec.py",
            "train _train_epoch _log_epoch_progress",
        ),
        // It begins anew with each epoch.
        counters: &[counter(code("gensim/models/word2vec.py", "_log_epoch_progress"), "example_count", Row)],
        parts: &[(
            Fit,
            code(
                "gensim/models/word2vec.py, gensim/models/fasttext.py, gensim/models/doc2vec.py",
                "_do_train_job _do_train_epoch",
            ),
        )],
        settings: &[
            (Device, ""),
            (Workers, "workers"),
            (Persistent, ""),
            (Prefetch, ""),
            (Pin, ""),
            (Threads, "Raise workers, and read from a corpus_file: threads do not share the interpreter lock there"),
        ],
        page: "https://radimrehurek.com/gensim/models/word2vec.html",
    },
    // scikit-learn 1.9.1: a model that is fitted already. A loop that fits comes after it.
    Library {
        name: "scikit-learn prediction",
        shown_as: Some("scikit-learn"),
        kind: Inference,
        runs: code(SKLEARN, "predict predict_proba predict_log_proba decision_function kneighbors score_samples"),
        counters: &[],
        parts: &[],
        settings: &[(SameAs, "scikit-learn")],
        page: "https://scikit-learn.org/stable/computing/computational_performance.html#prediction-latency",
    },
    // scikit-learn 1.9.1.
    Library {
        name: "scikit-learn",
        shown_as: None,
        kind: Fitting,
        runs: code("sklearn/base.py", "wrapper"),
        counters: &[
            counter(code("sklearn/ensemble/_gb.py", "_fit_stages"), "i", Tree),
            counter(
                code("sklearn/ensemble/_hist_gradient_boosting/gradient_boosting.py", "fit"),
                "iteration",
                Iteration,
            ),
            Counter {
                total: Some("n_trees"),
                ..counter(code("sklearn/ensemble/_forest.py", "_parallel_build_trees"), "tree_idx", Tree)
            },
            counter(code("sklearn/neural_network/_multilayer_perceptron.py", "_fit_stochastic"), "it", Iteration),
        ],
        parts: &[
            (
                Fit,
                code(SKLEARN, "fit fit_transform partial_fit _fit _fit_stages _parallel_build_trees _fit_stochastic"),
            ),
            (
                Forward,
                code(SKLEARN, "predict predict_proba predict_log_proba decision_function kneighbors score_samples"),
            ),
        ],
        settings: &[(Device, ""), (Workers, "")],
        page: "https://scikit-learn.org/stable/computing/parallelism.html",
    },
    // scikit-learn 1.9.1: estimators that share their work among processes or threads if they are asked to. Of linear models only
    // some do, and with one class or one step there is nothing to share.
    Library {
        name: "scikit-learn estimators with n_jobs",
        shown_as: Some("scikit-learn"),
        kind: Fitting,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(
            Computes,
            code(
                "sklearn/ensemble/_forest.py, sklearn/ensemble/_iforest.py, sklearn/neighbors/_base.py, \
                 sklearn/neighbors/_classification.py, sklearn/neighbors/_regression.py, sklearn/neighbors/_unsupervised.py, \
                 sklearn/neighbors/_lof.py, sklearn/cluster/_dbscan.py, sklearn/cluster/_optics.py, \
                 sklearn/cluster/_mean_shift.py, sklearn/decomposition/_lda.py, sklearn/decomposition/_dict_learning.py, \
                 sklearn/manifold/_t_sne.py, sklearn/manifold/_mds.py, sklearn/manifold/_isomap.py",
                "",
            ),
        )],
        settings: &[(SameAs, "scikit-learn"), (Threads, "Use all CPUs: n_jobs=-1 of the estimator")],
        page: "https://scikit-learn.org/stable/computing/parallelism.html",
    },
    // scikit-learn 1.9.1: only libsvm has a cache.
    Library {
        name: "scikit-learn support vector machines",
        shown_as: Some("scikit-learn"),
        kind: Fitting,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Computes, code("sklearn/svm/_base.py", "_dense_fit _sparse_fit"))],
        settings: &[
            (SameAs, "scikit-learn"),
            (Algorithm, "Give the kernel a larger cache (cache_size=1000); for many rows, use LinearSVC"),
        ],
        page: "https://scikit-learn.org/stable/modules/svm.html#tips-on-practical-use",
    },
    // scikit-learn 1.9.1.
    Library {
        name: "scikit-learn gradient boosting",
        shown_as: Some("scikit-learn"),
        kind: Fitting,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Computes, code("sklearn/ensemble/_gb.py", "_fit_stages _fit_stage"))],
        settings: &[
            (SameAs, "scikit-learn"),
            (Algorithm, "For many rows, use HistGradientBoostingClassifier or HistGradientBoostingRegressor"),
        ],
        page: "https://scikit-learn.org/stable/modules/ensemble.html#histogram-based-gradient-boosting",
    },
    // scikit-learn 1.9.1: texts become matrices in Python.
    Library {
        name: "scikit-learn vectorizers",
        shown_as: Some("scikit-learn"),
        kind: Fitting,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(Computes, code("sklearn/feature_extraction/text.py", ""))],
        settings: &[
            (SameAs, "scikit-learn"),
            (
                Algorithm,
                "Vectorize once and keep the matrix; HashingVectorizer needs no fit, so processes can share the texts",
            ),
        ],
        page: "https://scikit-learn.org/stable/modules/feature_extraction.html#vectorizing-a-large-text-corpus-with-the-hashing-trick",
    },
    // scikit-learn 1.9.1: what fits several models, whatever they are.
    Library {
        name: "scikit-learn cross-validation and ensembles",
        shown_as: Some("scikit-learn"),
        kind: Fitting,
        runs: NO_LOOP,
        counters: &[],
        parts: &[(
            Computes,
            code(
                "sklearn/model_selection/_validation.py, sklearn/ensemble/_bagging.py, sklearn/ensemble/_base.py, \
                 sklearn/multiclass.py, sklearn/multioutput.py",
                "cross_validate cross_val_score cross_val_predict learning_curve validation_curve _parallel_build_estimators \
                 _fit_binary _fit_ovo_binary _fit_estimator _fit_single_estimator",
            ),
        )],
        settings: &[(SameAs, "scikit-learn"), (Threads, "Fit the models in parallel: n_jobs=-1 of what fits them")],
        page: "https://scikit-learn.org/stable/computing/parallelism.html",
    },
];
