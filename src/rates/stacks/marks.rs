//! What a single frame is known for: one table of file tails and function names.
//!
//! Files are matched by their tail (`torch/utils/data/dataloader.py`), functions by the last dotted part of their name, for
//! py-spy before 0.4.3 prints `get` where later ones print `Queue.get`. Where a row's source is "seen", the frame was
//! seen in the stacks of a running program; "read" means that it was read in the package's source.

use crate::sample::StackFrame;

/// What a frame is known for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The loader's iterator in the training process.
    LoaderNext,
    /// An iterator being made or reset: the start of an epoch.
    LoaderStart,
    /// torch's `fetch`: the data set and the collate function are called from here.
    Fetch,
    /// Collating.
    Collate,
    /// The loop of a data worker.
    WorkerLoop,
    /// A queue between processes or threads: taking from it.
    QueueGet,
    /// Putting into it.
    QueuePut,
    /// The thread that pickles batches and sends them.
    QueueFeed,
    /// A wait that takes no CPU when it is the leaf.
    Wait,
    /// A connection between processes.
    Connection,
    /// Decoding a sample.
    Decode,
    /// Reading a sample.
    Load,
    /// A module's forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer or what goes with it.
    Optimizer,
    /// Waiting for the device by name.
    Sync,
    /// A collective.
    Collective,
    /// Moving a batch to the device.
    Copy,
    /// Saving state.
    Checkpoint,
    /// Compiling.
    Compile,
    /// Logging, metrics, progress bars.
    Report,
    /// A framework's evaluation loop.
    Validation,
    /// The wrapper of a function under `torch.no_grad()`.
    NoGrad,
    /// A compiled call that holds the whole step.
    Graph,
    /// Importing.
    Import,
    /// Nothing that is known.
    Nothing,
}

/// A row: file tail, functions (none: any), mark. The first that fits is taken.
type Row = (&'static str, &'static [&'static str], Mark);

/// torch/utils/data, multiprocessing and threading: seen with torch 2.15 and CPython 3.11.
const LOADER: &[Row] = &[
    (
        "torch/utils/data/dataloader.py",
        &["__iter__", "_get_iterator", "__init__", "_reset", "_shutdown_workers", "__del__"],
        Mark::LoaderStart,
    ),
    ("torch/utils/data/dataloader.py", &[], Mark::LoaderNext),
    ("torch/utils/data/_utils/fetch.py", &["fetch"], Mark::Fetch),
    ("torch/utils/data/_utils/collate.py", &[], Mark::Collate),
    ("torch/utils/data/_utils/worker.py", &["_worker_loop"], Mark::WorkerLoop),
    ("multiprocessing/queues.py", &["get"], Mark::QueueGet),
    ("multiprocessing/queues.py", &["put"], Mark::QueuePut),
    ("multiprocessing/queues.py", &["_feed"], Mark::QueueFeed),
    ("/queue.py", &["get"], Mark::QueueGet),
    ("/queue.py", &["put"], Mark::QueuePut),
    ("/selectors.py", &["select"], Mark::Wait),
    ("multiprocessing/connection.py", &["wait", "_poll"], Mark::Wait),
    ("multiprocessing/connection.py", &[], Mark::Connection),
    ("multiprocessing/popen_fork.py", &["wait", "poll"], Mark::Wait),
    ("/threading.py", &["wait", "acquire", "_wait_for_tstate_lock", "join"], Mark::Wait),
    // Other loaders. grain: seen with 0.2.18. megengine: read.
    ("megengine/data/dataloader.py", &[], Mark::LoaderNext),
    ("grain/_src/python/data_loader.py", &["__next__"], Mark::LoaderNext),
    ("dataset/transformations/prefetch.py", &["__next__"], Mark::LoaderNext),
    ("tensorflow/python/data/ops/iterator_ops.py", &["__next__", "_next_internal"], Mark::LoaderNext),
];

/// Reading and decoding samples.
const SAMPLES: &[Row] = &[
    // Pillow opens lazily: whatever needs the pixels ends in ImageFile.load. Seen.
    ("PIL/ImageFile.py", &["load", "load_read", "load_prepare", "load_end"], Mark::Decode),
    ("PIL/Image.py", &["open", "_open_core", "preinit", "init"], Mark::Load),
    ("torchvision/io/image.py", &["read_file"], Mark::Load),
    ("torchvision/io/", &[], Mark::Decode),
    ("torchcodec/", &[], Mark::Decode),
    ("torchaudio/", &["load"], Mark::Decode),
    ("datasets/features/image.py", &[], Mark::Decode),
    ("datasets/features/audio.py", &[], Mark::Decode),
    ("datasets/features/video.py", &[], Mark::Decode),
    ("datasets/features/features.py", &["decode_example", "decode_nested_example", "decode_batch"], Mark::Decode),
    ("soundfile.py", &[], Mark::Decode),
    ("librosa/core/audio.py", &[], Mark::Decode),
    ("imageio/", &[], Mark::Decode),
    ("skimage/io/", &[], Mark::Decode),
    ("decord/", &[], Mark::Decode),
    ("/av/", &[], Mark::Decode),
    ("/gzip.py", &[], Mark::Load),
    ("/bz2.py", &[], Mark::Load),
    ("/lzma.py", &[], Mark::Load),
    ("/zipfile.py", &[], Mark::Load),
    ("/zipfile/__init__.py", &[], Mark::Load),
    ("/tarfile.py", &[], Mark::Load),
    ("/pathlib.py", &["open", "read_bytes", "read_text", "stat", "exists"], Mark::Load),
    ("/pathlib/__init__.py", &["open", "read_bytes", "read_text", "stat", "exists"], Mark::Load),
    ("/socket.py", &[], Mark::Load),
    ("/ssl.py", &[], Mark::Load),
    ("http/client.py", &[], Mark::Load),
    ("urllib/request.py", &[], Mark::Load),
    ("requests/", &[], Mark::Load),
    ("urllib3/", &[], Mark::Load),
    ("botocore/", &[], Mark::Load),
    ("boto3/", &[], Mark::Load),
    ("s3fs/", &[], Mark::Load),
    ("gcsfs/", &[], Mark::Load),
    ("fsspec/", &[], Mark::Load),
    ("aiohttp/", &[], Mark::Load),
    ("numpy/lib/npyio.py", &[], Mark::Load),
    ("numpy/lib/_npyio_impl.py", &[], Mark::Load),
    ("numpy/lib/format.py", &[], Mark::Load),
    ("numpy/lib/_format_impl.py", &[], Mark::Load),
    ("numpy/_core/memmap.py", &[], Mark::Load),
    ("h5py/", &[], Mark::Load),
    ("zarr/", &[], Mark::Load),
    ("lmdb/", &[], Mark::Load),
    ("pyarrow/", &[], Mark::Load),
    ("pandas/io/", &[], Mark::Load),
    ("datasets/table.py", &[], Mark::Load),
    (
        "datasets/formatting/formatting.py",
        &["query_table", "_query_table", "_query_table_with_indices_mapping"],
        Mark::Load,
    ),
    ("torch/serialization.py", &["load", "_load", "_legacy_load", "load_tensor", "persistent_load"], Mark::Load),
    ("safetensors/", &["load_file", "safe_open"], Mark::Load),
];

/// The training loop. torch: seen with 2.15; frameworks: see the read-me of the workloads.
const LOOP: &[Row] = &[
    ("torch/nn/modules/module.py", &["_call_impl", "_wrapped_call_impl"], Mark::Forward),
    ("torch/nn/functional.py", &[], Mark::Forward),
    ("torch/autograd/graph.py", &["_engine_run_backward"], Mark::Backward),
    ("torch/_tensor.py", &["backward"], Mark::Backward),
    ("torch/autograd/__init__.py", &["backward", "grad"], Mark::Backward),
    ("torch/amp/grad_scaler.py", &["_maybe_opt_step"], Mark::Sync),
    ("torch/amp/grad_scaler.py", &[], Mark::Optimizer),
    ("torch/optim/", &[], Mark::Optimizer),
    ("torch/nn/utils/clip_grad.py", &[], Mark::Optimizer),
    ("torch/cuda/__init__.py", &["synchronize"], Mark::Sync),
    ("torch/cuda/streams.py", &["synchronize", "wait"], Mark::Sync),
    ("torch/accelerator/__init__.py", &["synchronize"], Mark::Sync),
    ("jax/_src/array.py", &["block_until_ready", "_value", "__array__", "__float__"], Mark::Sync),
    ("jax/_src/api.py", &["block_until_ready"], Mark::Sync),
    (
        "torch/distributed/distributed_c10d.py",
        &["init_process_group", "destroy_process_group", "new_group"],
        Mark::Nothing,
    ),
    ("torch/distributed/distributed_c10d.py", &[], Mark::Collective),
    ("torch/distributed/_functional_collectives.py", &[], Mark::Collective),
    ("strategies/strategy.py", &["batch_to_device"], Mark::Copy),
    ("fabric/utilities/apply_func.py", &["move_data_to_device", "batch_to"], Mark::Copy),
    ("jax/_src/api.py", &["device_put"], Mark::Copy),
    ("accelerate/utils/operations.py", &["send_to_device"], Mark::Copy),
    ("transformers/trainer.py", &["_prepare_inputs", "_prepare_input"], Mark::Copy),
    ("torch/utils/data/_utils/pin_memory.py", &[], Mark::Copy),
    ("torch/serialization.py", &[], Mark::Checkpoint),
    ("torch/distributed/checkpoint/", &[], Mark::Checkpoint),
    ("safetensors/", &["save_file", "save"], Mark::Checkpoint),
    ("transformers/trainer.py", &["_save_checkpoint", "save_model", "_save"], Mark::Checkpoint),
    ("transformers/modeling_utils.py", &["save_pretrained"], Mark::Checkpoint),
    ("accelerate/accelerator.py", &["save_state", "save_model"], Mark::Checkpoint),
    ("accelerate/checkpointing.py", &[], Mark::Checkpoint),
    ("transformers/trainer_utils.py", &["rotate_checkpoints"], Mark::Checkpoint),
    ("keras/src/saving/", &[], Mark::Checkpoint),
    ("callbacks/model_checkpoint.py", &[], Mark::Checkpoint),
    ("torch/_dynamo/convert_frame.py", &[], Mark::Compile),
    ("torch/_dynamo/symbolic_convert.py", &[], Mark::Compile),
    ("torch/_dynamo/output_graph.py", &[], Mark::Compile),
    (
        "torch/_inductor/",
        &["compile_fx", "compile_fx_inner", "codegen_and_compile", "compile_to_module"],
        Mark::Compile,
    ),
    ("torch/_inductor/async_compile.py", &[], Mark::Compile),
    ("torch/_inductor/codecache.py", &[], Mark::Compile),
    ("jax/_src/compiler.py", &[], Mark::Compile),
    ("logging/__init__.py", &[], Mark::Report),
    ("torch/utils/tensorboard/", &[], Mark::Report),
    ("tensorboardX/", &[], Mark::Report),
    ("tensorboard/", &[], Mark::Report),
    ("wandb/", &[], Mark::Report),
    ("mlflow/", &[], Mark::Report),
    ("tqdm/", &[], Mark::Report),
    ("rich/", &[], Mark::Report),
    ("torchmetrics/", &[], Mark::Report),
    ("sklearn/metrics/", &[], Mark::Report),
    ("matplotlib/", &[], Mark::Report),
    ("logger_connector/", &[], Mark::Report),
    ("trainer/call.py", &["_call_callback_hooks"], Mark::Report),
    ("transformers/trainer_callback.py", &[], Mark::Report),
    ("keras/src/callbacks/", &[], Mark::Report),
    ("loops/evaluation_loop.py", &[], Mark::Validation),
    (
        "transformers/trainer.py",
        &["evaluate", "evaluation_loop", "prediction_loop", "prediction_step"],
        Mark::Validation,
    ),
    ("keras/src/backend/tensorflow/trainer.py", &["evaluate"], Mark::Validation),
    ("torch/utils/_contextlib.py", &["no_grad", "inference_mode", "decorate_context"], Mark::NoGrad),
    // Keras on TensorFlow runs the whole step, the fetching of its batch included, in one compiled call.
    ("tensorflow/python/eager/execute.py", &["quick_execute"], Mark::Graph),
    ("<frozen importlib._bootstrap>", &["_find_and_load", "_load_unlocked", "_find_and_load_unlocked"], Mark::Import),
];

/// The frame's mark.
pub(super) fn mark(frame: &StackFrame) -> Mark {
    let function = last_part(&frame.function);
    let fits = |(tail, functions, _): &&Row| {
        in_file(&frame.file, tail) && (functions.is_empty() || functions.contains(&function))
    };
    [LOADER, SAMPLES, LOOP].into_iter().flatten().find(fits).map_or(Mark::Nothing, |(_, _, mark)| *mark)
}

/// The function's own name: `Queue.get` → `get`, `f.<locals>.g` → `g`.
pub(super) fn last_part(function: &str) -> &str {
    function.rsplit('.').next().unwrap_or(function)
}

/// Whether the path ends with the tail, or lies under it where the tail is a folder.
fn in_file(file: &str, tail: &str) -> bool {
    if !tail.ends_with('/') {
        return file.strip_suffix(tail).is_some_and(|before| {
            before.is_empty() || before.ends_with('/') || tail.starts_with('/') || tail.starts_with('<')
        });
    }
    let bare = tail.trim_start_matches('/');
    file.match_indices(bare).any(|(at, _)| at == 0 || file.as_bytes().get(at - 1) == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str, function: &str) -> Mark {
        mark(&StackFrame { file: file.into(), function: function.into(), ..StackFrame::default() })
    }

    #[test]
    fn both_namings_and_any_prefix() {
        let file = "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py";
        assert_eq!(of(file, "_MultiProcessingDataLoaderIter._try_get_data"), Mark::LoaderNext);
        assert_eq!(of(file, "_try_get_data"), Mark::LoaderNext);
        assert_eq!(of(file, "DataLoader.__iter__"), Mark::LoaderStart);
        assert_eq!(of("torch/utils/data/_utils/fetch.py", "fetch"), Mark::Fetch);
        assert_eq!(of("/usr/lib/python3.11/multiprocessing/queues.py", "Queue.get"), Mark::QueueGet);
        assert_eq!(of("/usr/lib/python3.11/queue.py", "get"), Mark::QueueGet);
    }

    #[test]
    fn a_tail_matches_whole_parts_only() {
        assert_eq!(of("/home/me/mytorch/optim/sgd.py", "step"), Mark::Nothing);
        assert_eq!(of("/home/me/torch/optim/sgd.py", "step"), Mark::Optimizer);
        assert_eq!(of("/home/me/my_wandb/x.py", "log"), Mark::Nothing);
        assert_eq!(of("/x/site-packages/wandb/sdk/run.py", "log"), Mark::Report);
        assert_eq!(of("/home/me/task_queue.py", "get"), Mark::Nothing);
        assert_eq!(of("", ""), Mark::Nothing);
    }

    #[test]
    fn saving_and_loading_live_in_one_file() {
        let file = "/x/torch/serialization.py";
        assert_eq!(of(file, "load"), Mark::Load);
        assert_eq!(of(file, "save"), Mark::Checkpoint);
        assert_eq!(of(file, "_save"), Mark::Checkpoint);
    }
}
