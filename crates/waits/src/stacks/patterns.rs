//! What a single frame is known for: one table of path endings and function names.
//!
//! Files are matched by the end of their path (`torch/utils/data/dataloader.py`), functions by the last dotted part of
//! their name, because py-spy before 0.4.3 prints `get` where later versions print `Queue.get`. "Seen" as a row's
//! source means that the frame appeared in the stacks of a running program; "read" means that it was read in the
//! package's source.

use Pattern::Is;

use crate::taxonomy::Activity::{self, *};
use trainmon_base::text::is_one_of;
use trainmon_libraries::code::{is_in, last_part};
use trainmon_libraries::{Library, LibraryPart};
use trainmon_sample::StackFrame;
use trainmon_sample::loop_profile::TRACE_FILE;

/// What a frame is known for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Doing this, unless a frame further in says otherwise.
    Is(Activity),
    /// The loader's iterator in the training process.
    LoaderNext,
    /// torch's iterator asks its sampler for the indices of the next batch.
    NextIndex,
    /// torch's `fetch`, which calls the dataset and the collate function.
    Fetch,
    /// A library that hands out samples, called from here: everything below makes them.
    Samples,
    /// The loop of a worker.
    WorkerLoop,
    /// Taking from a queue between processes or threads.
    QueueGet,
    /// Putting into one.
    QueuePut,
    /// The thread that pickles batches and sends them.
    QueueFeed,
    /// A wait that takes no CPU time if it is the leaf.
    Wait,
    /// A connection between processes.
    Connection,
    /// A framework's evaluation loop.
    Validation,
    /// The wrapper of a function under `torch.no_grad()`.
    NoGrad,
    /// Nothing known.
    Nothing,
}

/// A row: what a frame is known for if it is in one of these files (separated by commas) and in one of these functions
/// (separated by blanks; empty: any). The first matching row counts.
type PatternRow = (Pattern, &'static str, &'static str);

/// torch/utils/data, multiprocessing and threading: seen with torch 2.15 and CPython 3.11.
const LOADER: &[PatternRow] = &[
    (
        Is(LoaderStart),
        "torch/utils/data/dataloader.py",
        "__iter__ _get_iterator __init__ _reset _shutdown_workers __del__",
    ),
    (Pattern::NextIndex, "torch/utils/data/dataloader.py", "_next_index"),
    (Pattern::LoaderNext, "torch/utils/data/dataloader.py", ""),
    (Pattern::Fetch, "torch/utils/data/_utils/fetch.py", "fetch"),
    (Is(Collate), "torch/utils/data/_utils/collate.py", ""),
    (Pattern::WorkerLoop, "torch/utils/data/_utils/worker.py", "_worker_loop"),
    (Pattern::QueueGet, "multiprocessing/queues.py, /queue.py", "get"),
    (Pattern::QueuePut, "multiprocessing/queues.py, /queue.py", "put"),
    (Pattern::QueueFeed, "multiprocessing/queues.py", "_feed"),
    (Pattern::Wait, "/selectors.py", "select"),
    (Pattern::Wait, "multiprocessing/connection.py", "wait _poll"),
    // A server that waits for a connection has nothing to do.
    (Pattern::Wait, "/socket.py, multiprocessing/connection.py", "accept"),
    (Pattern::Connection, "multiprocessing/connection.py", ""),
    (Pattern::Wait, "multiprocessing/popen_fork.py", "wait poll"),
    (Pattern::Wait, "/threading.py", "wait acquire _wait_for_tstate_lock join"),
    // What another tool recorded, not code: see `sample::loop_profile`.
    (Pattern::Wait, TRACE_FILE, "next_batch"),
    (Pattern::LoaderNext, TRACE_FILE, "data_loader"),
    (Pattern::Fetch, TRACE_FILE, "make_batch"),
    (Is(Sync), TRACE_FILE, "synchronize"),
    (Is(Collective), TRACE_FILE, "collective"),
    (Is(Checkpoint), TRACE_FILE, "saving"),
    (Is(OtherWait), TRACE_FILE, "blocked nothing_recorded"),
    (Is(Python), TRACE_FILE, "own_work"),
    // Other loaders. grain: seen with 0.2.18. megengine: read.
    (Pattern::LoaderNext, "megengine/data/dataloader.py", ""),
    (Pattern::LoaderNext, "grain/_src/python/data_loader.py, dataset/transformations/prefetch.py", "__next__"),
    (Pattern::LoaderNext, "tensorflow/python/data/ops/iterator_ops.py", "__next__ _next_internal"),
];

/// Libraries from which a loop takes samples in its own process, outside torch's loader. datasets, webdataset,
/// torchdata: seen; the others: read, by their package layout.
const HAND_OUT: &[PatternRow] = &[
    (Pattern::Samples, "datasets/arrow_dataset.py", "__getitem__ __getitems__ _getitem __iter__ iter"),
    (
        Pattern::Samples,
        "datasets/iterable_dataset.py, webdataset/, torchdata/nodes/, torch/utils/data/datapipes/, litdata/, ffcv/loader/, \
         streaming/base/, torch_geometric/loader/, dgl/dataloading/, grain/_src/python/, tensorflow_datasets/",
        "",
    ),
    // Python functions in a data set of TensorFlow: py_function, numpy_function, from_generator. Seen.
    (Pattern::Samples, "tensorflow/python/ops/script_ops.py", ""),
];

/// Reading and decoding samples.
const READ_AND_DECODE: &[PatternRow] = &[
    // Pillow opens lazily: whatever needs the pixels ends in ImageFile.load. Seen.
    (Is(Decode), "PIL/ImageFile.py", "load load_read load_prepare load_end"),
    (Is(Load), "PIL/Image.py", "open _open_core preinit init"),
    // It copies what `load` has decoded.
    (Is(Decode), "PIL/Image.py", "convert draft"),
    (Is(Load), "torchvision/io/image.py", "read_file"),
    (Is(Decode), "torchaudio/", "load"),
    (Is(Decode), "datasets/features/features.py", "decode_example decode_nested_example decode_batch"),
    (
        Is(Decode),
        "torchvision/io/, torchcodec/, datasets/features/image.py, datasets/features/audio.py, \
         datasets/features/video.py, soundfile.py, librosa/core/audio.py, imageio/, skimage/io/, decord/, /av/",
        "",
    ),
    (Is(Load), "/pathlib.py, /pathlib/__init__.py", "open read_bytes read_text stat exists"),
    (Is(Load), "datasets/formatting/formatting.py", "query_table _query_table _query_table_with_indices_mapping"),
    (Is(Load), "torch/serialization.py", "load _load _legacy_load load_tensor persistent_load"),
    (Is(Load), "safetensors/", "load_file safe_open"),
    (
        Is(Load),
        "/gzip.py, /bz2.py, /lzma.py, /zipfile.py, /zipfile/__init__.py, /tarfile.py, /socket.py, /ssl.py, \
         http/client.py, urllib/request.py, requests/, urllib3/, botocore/, boto3/, s3fs/, gcsfs/, fsspec/, aiohttp/, \
         numpy/lib/npyio.py, numpy/lib/_npyio_impl.py, numpy/lib/format.py, numpy/lib/_format_impl.py, \
         numpy/_core/memmap.py, h5py/, zarr/, lmdb/, pyarrow/, pandas/io/, datasets/table.py",
        "",
    ),
];

/// The training loop. torch: seen with 2.15; frameworks: see the README of the workloads.
const LOOP: &[PatternRow] = &[
    (Is(Forward), "torch/nn/modules/module.py", "_call_impl _wrapped_call_impl"),
    (Is(Forward), "torch/nn/functional.py", ""),
    (Is(Backward), "torch/autograd/graph.py", "_engine_run_backward"),
    (Is(Backward), "torch/_tensor.py", "backward"),
    (Is(Backward), "torch/autograd/__init__.py", "backward grad"),
    (Is(Sync), "torch/amp/grad_scaler.py", "_maybe_opt_step"),
    (Is(Optimizer), "torch/amp/grad_scaler.py, torch/optim/, torch/nn/utils/clip_grad.py", ""),
    (Is(Sync), "torch/cuda/__init__.py, torch/accelerator/__init__.py", "synchronize"),
    (Is(Sync), "torch/cuda/streams.py", "synchronize wait"),
    (Is(Sync), "jax/_src/array.py", "block_until_ready _value __array__ __float__"),
    (Is(Sync), "jax/_src/api.py", "block_until_ready"),
    (Pattern::Nothing, "torch/distributed/distributed_c10d.py", "init_process_group destroy_process_group new_group"),
    (Is(Collective), "torch/distributed/distributed_c10d.py, torch/distributed/_functional_collectives.py", ""),
    (Is(Copy), "jax/_src/api.py", "device_put"),
    (Is(Copy), "torch/utils/data/_utils/pin_memory.py", ""),
    (Is(Checkpoint), "safetensors/", "save_file save"),
    (Is(Checkpoint), "torch/distributed/checkpoint/", ""),
    // Most other functions in this file serve loading as well.
    (Is(Checkpoint), "torch/serialization.py", "save _save _legacy_save"),
    (
        Is(Compile),
        "torch/_dynamo/convert_frame.py, torch/_dynamo/symbolic_convert.py, torch/_dynamo/output_graph.py, \
         torch/_inductor/async_compile.py, torch/_inductor/codecache.py, jax/_src/compiler.py",
        "",
    ),
    (Is(Compile), "torch/_inductor/", "compile_fx compile_fx_inner codegen_and_compile compile_to_module"),
    (
        Is(Report),
        "logging/__init__.py, torch/utils/tensorboard/, tensorboardX/, tensorboard/, wandb/, mlflow/, tqdm/, rich/, \
         torchmetrics/, sklearn/metrics/, matplotlib/",
        "",
    ),
    (Pattern::NoGrad, "torch/utils/_contextlib.py", "no_grad inference_mode decorate_context"),
    // Keras on TensorFlow runs the whole step, including fetching its batch, in one compiled call.
    (Is(Graph), "tensorflow/python/eager/execute.py", "quick_execute"),
    (Is(Import), "<frozen importlib._bootstrap>", "_find_and_load _load_unlocked _find_and_load_unlocked"),
];

/// The frame's pattern.
pub(super) fn pattern(frame: &StackFrame) -> Pattern {
    let function = last_part(&frame.function);
    let fits = |(_, files, functions): &&PatternRow| {
        (functions.is_empty() || is_one_of(functions, function))
            && files.split(", ").any(|tail| is_in(&frame.file, tail))
    };
    [LOADER, READ_AND_DECODE, LOOP, HAND_OUT]
        .into_iter()
        .flatten()
        .find(fits)
        .map(|(pattern, ..)| *pattern)
        .or_else(|| Some(of_part(Library::part(&frame.file, &frame.function)?)))
        .unwrap_or(Pattern::Nothing)
}

/// What a function of a library in the table does.
fn of_part(part: LibraryPart) -> Pattern {
    match part {
        LibraryPart::Forward => Is(Forward),
        LibraryPart::Optimizer => Is(Optimizer),
        LibraryPart::Fit => Is(Fit),
        LibraryPart::Generate => Is(Generate),
        LibraryPart::Environment => Is(Environment),
        LibraryPart::EnvironmentWait | LibraryPart::TaskWait => Is(OtherWait),
        LibraryPart::Samples => Pattern::Samples,
        LibraryPart::Batches => Pattern::LoaderNext,
        // What it calls decides.
        LibraryPart::EachRow | LibraryPart::Computes => Pattern::Nothing,
        LibraryPart::Copy => Is(Copy),
        LibraryPart::Checkpoint => Is(Checkpoint),
        LibraryPart::Report => Is(Report),
        LibraryPart::Validation => Pattern::Validation,
    }
}

/// Whether the loading code in this file reads stored arrays: a loop that does this at each step reads its data, unlike
/// with other reading.
pub(super) fn holds_stored_arrays(file: &str) -> bool {
    const ARRAY_FILES: &str = "torch/serialization.py, numpy/lib/npyio.py, numpy/lib/_npyio_impl.py, safetensors/";
    ARRAY_FILES.split(", ").any(|tail| is_in(file, tail))
}

/// Whether the code in this file asks any server: for data, for a reward, or to take a metric.
pub(super) fn asks_any_server(file: &str) -> bool {
    const CLIENTS: &str = "/socket.py, /ssl.py, http/client.py, urllib/request.py, requests/, urllib3/, aiohttp/";
    CLIENTS.split(", ").any(|tail| is_in(file, tail))
}

/// Whether the frame belongs to torch's mixed precision, or its line enters it: `with torch.autocast("cuda"):`. Read in torch
/// 2.15; Lightning, Accelerate and Hugging Face's Trainer call these.
pub(super) fn in_mixed_precision(frame: &StackFrame) -> bool {
    const FILES: &str = "torch/amp/autocast_mode.py, torch/amp/grad_scaler.py, torch/cuda/amp/autocast_mode.py, \
                         torch/cuda/amp/grad_scaler.py, plugins/precision/amp.py";
    let enters = |text: &str| text.contains("autocast(");
    FILES.split(", ").any(|tail| is_in(&frame.file, tail)) || frame.text.as_deref().is_some_and(enters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern_of(file: &str, function: &str) -> Pattern {
        pattern(&StackFrame { file: file.into(), function: function.into(), ..StackFrame::default() })
    }

    #[test]
    fn both_namings_and_any_prefix() {
        let file = "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py";
        assert_eq!(pattern_of(file, "_MultiProcessingDataLoaderIter._try_get_data"), Pattern::LoaderNext);
        assert_eq!(pattern_of(file, "_try_get_data"), Pattern::LoaderNext);
        assert_eq!(pattern_of(file, "DataLoader.__iter__"), Pattern::Is(Activity::LoaderStart));
        assert_eq!(pattern_of("torch/utils/data/_utils/fetch.py", "fetch"), Pattern::Fetch);
        assert_eq!(pattern_of("/usr/lib/python3.11/multiprocessing/queues.py", "Queue.get"), Pattern::QueueGet);
        assert_eq!(pattern_of("/usr/lib/python3.11/queue.py", "get"), Pattern::QueueGet);
    }

    #[test]
    fn a_tail_matches_whole_parts_only() {
        assert_eq!(pattern_of("/home/me/mytorch/optim/sgd.py", "step"), Pattern::Nothing);
        assert_eq!(pattern_of("/home/me/torch/optim/sgd.py", "step"), Pattern::Is(Activity::Optimizer));
        assert_eq!(pattern_of("/home/me/my_wandb/x.py", "log"), Pattern::Nothing);
        assert_eq!(pattern_of("/x/site-packages/wandb/sdk/run.py", "log"), Pattern::Is(Activity::Report));
        assert_eq!(pattern_of("/home/me/task_queue.py", "get"), Pattern::Nothing);
        assert_eq!(pattern_of("", ""), Pattern::Nothing);
    }

    #[test]
    fn saving_and_loading_live_in_one_file() {
        let file = "/x/torch/serialization.py";
        assert_eq!(pattern_of(file, "load"), Pattern::Is(Activity::Load));
        assert_eq!(pattern_of(file, "save"), Pattern::Is(Activity::Checkpoint));
        assert_eq!(pattern_of(file, "_save"), Pattern::Is(Activity::Checkpoint));
    }
}
