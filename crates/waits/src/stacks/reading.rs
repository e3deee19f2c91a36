//! What a single stack says its thread was doing, by the patterns of its frames. The training loop and a worker's first
//! thread are read by different rules, see [`rank_activity`] and [`worker_activity`].

use super::patterns::{Pattern, asks_any_server, holds_stored_arrays, pattern};
use crate::taxonomy::Activity;
use trainmon_base::text::is_one_of;
use trainmon_libraries::code::{is_in, last_part};
use trainmon_sample::stacks::is_user_code;
use trainmon_sample::{FrameLocals, StackFrame};

/// A frame of a stack, with what it is known for.
pub(super) struct KnownFrame<'a> {
    pub at: usize,
    pub frame: &'a StackFrame,
    pub pattern: Pattern,
    /// Its function was seen taking steps: it is the loop, whatever its name.
    pub is_loop: bool,
    /// The model was seen to learn in its function: what it is named for is a part of it.
    pub learns: bool,
}

impl KnownFrame<'_> {
    pub(super) fn is_user(&self) -> bool {
        is_user_code(&self.frame.file)
    }

    /// Notes that its function takes steps, and whether the model learns in it.
    pub(super) fn note_steps(&mut self, learns: Option<&bool>) {
        (self.is_loop, self.learns) = (learns.is_some(), learns.is_some_and(|learns| *learns));
    }

    /// Whether its name may show what it does.
    fn may_name(&self) -> bool {
        self.is_user() && !self.is_loop
    }
}

/// Whether a stack has a frame with this pattern.
pub(super) fn has(stack: &[KnownFrame<'_>], wanted: Pattern) -> bool {
    stack.iter().any(|seen| seen.pattern == wanted)
}

/// Whether a stack is in a wait of the standard library.
pub(super) fn waits(stack: &[KnownFrame<'_>]) -> bool {
    stack.first().is_some_and(|leaf| leaf.pattern == Pattern::Wait)
}

/// Whether one of these blank-separated parts is in the text.
fn has_one_of(parts: &str, text: &str) -> bool {
    parts.split(' ').any(|part| text.contains(part))
}

/// What a training loop was doing; `stack` is leaf first.
///
/// Inside the loader the leaf tells waiting from receiving, and a `fetch` in this process means that it loads its data
/// itself. The sampler of torch's loader also runs in the loop's thread: that is the loop's own work, whatever the
/// workers do. Elsewhere the innermost known frame decides: a framework's optimizer calls the whole step as a closure,
/// so the outermost would always be the optimizer. A wait of the standard library without a known frame is for
/// something that the code does not name: a future's result, an answer over a pipe, the next event, the end of a child.
pub(super) fn rank_activity(stack: &[KnownFrame<'_>]) -> Activity {
    let has = |wanted: Pattern| has(stack, wanted);
    if let Some(fetch) = stack.iter().position(|seen| seen.pattern == Pattern::Fetch) {
        return stage(stack, fetch);
    }
    if has(Pattern::Is(Activity::LoaderStart)) {
        return Activity::LoaderStart;
    }
    if has(Pattern::NextIndex) {
        return Activity::Python;
    }
    if let Some(next) = stack.iter().position(|seen| seen.pattern == Pattern::LoaderNext) {
        // Other loaders than torch's call the user's functions here if they have no processes of their own.
        let inside = stack.get(..next).unwrap_or_default();
        let is_torch = stack.get(next).is_some_and(|next| is_in(&next.frame.file, "torch/utils/data/dataloader.py"));
        if !is_torch && !waits(stack) && inside.iter().any(KnownFrame::is_user) {
            return sample_stage(inside);
        }
        return if waits(stack) { Activity::Waiting } else { Activity::Receiving };
    }
    if has(Pattern::Is(Activity::Import)) {
        return Activity::Import;
    }
    // A queue from which the program itself reads batches, or a wait in a function named for getting them.
    let at = stack.first().map(|leaf| leaf.pattern);
    let takes = matches!(at, Some(Pattern::Wait | Pattern::Connection | Pattern::QueueGet)) || sleeps(stack);
    if takes && (has(Pattern::QueueGet) || has(Pattern::Samples) || makes_batches(stack)) {
        return Activity::QueueWait;
    }
    let innermost = || {
        stack.iter().find_map(|seen| match seen.pattern {
            Pattern::Is(activity) if !activity.is_input() => Some(activity),
            _ => None,
        })
    };
    // The model's forward passes below are those of generating.
    let known = if has(Pattern::Is(Activity::Generate)) { Some(Activity::Generate) } else { innermost() };
    let saves = || {
        writes_through(stack) || stack.iter().any(|seen| seen.may_name() && named_for_saving(&seen.frame.function))
    };
    let syncs = near_leaf(stack).any(|seen| named_for_sync(last_part(&seen.frame.function)));
    match known {
        Some(Activity::Report) | None if saves() => Activity::Checkpoint,
        Some(activity) => activity,
        // A loop that decodes media or reads arrays itself makes its batches, whatever its function is called.
        None if makes_batches(stack)
            || has(Pattern::Is(Activity::Decode))
            || reads_arrays(stack)
            || decodes(stack)
            || makes_documents(stack) =>
        {
            sample_stage(stack)
        }
        None if has(Pattern::Samples) => sample_stage(stack),
        None if syncs => Activity::Sync,
        None if takes => Activity::OtherWait,
        None if near_leaf(stack).any(|seen| copies_to_device(seen.frame)) => Activity::Copy,
        None => Activity::Python,
    }
}

/// The text of the innermost line, if it is the user's own.
fn own_line<'a>(stack: &[KnownFrame<'a>]) -> Option<&'a str> {
    stack.first().filter(|leaf| leaf.is_user()).and_then(|leaf| leaf.frame.text.as_deref())
}

/// Whether the innermost line is the user's own and waits until the disk has what was written.
fn writes_through(stack: &[KnownFrame<'_>]) -> bool {
    own_line(stack).is_some_and(|text| has_one_of("fsync( fdatasync(", text))
}

/// Whether a stack is at a line that sleeps.
pub(super) fn sleeps(stack: &[KnownFrame<'_>]) -> bool {
    let at = stack.first().map(|leaf| leaf.frame);
    at.is_some_and(|frame| is_sleep(frame.text.as_deref(), &frame.file, &frame.function))
}

/// Whether the line sleeps, like a loop that polls for something. A call whose name only ends that way, like
/// `torch.cuda._sleep`, does not count. Lines of libraries are not considered: joblib polls every 10 ms
/// (joblib/parallel.py).
pub fn is_sleep(text: Option<&str>, file: &str, function: &str) -> bool {
    let text = text.unwrap_or_default();
    let is_call = |(before, _): (&str, &str)| !before.ends_with(|last: char| last == '_' || last.is_alphanumeric());
    let joblib = || matches!(last_part(function), "_retrieve" | "retrieve");
    text.split_once("sleep(").is_some_and(is_call) || file.ends_with("/joblib/parallel.py") && joblib()
}

/// What a worker's first thread was doing; `stack` is leaf first.
pub(super) fn worker_activity(stack: &[KnownFrame<'_>]) -> Activity {
    if let Some(fetch) = stack.iter().position(|seen| seen.pattern == Pattern::Fetch) {
        return stage(stack, fetch);
    }
    let has = |wanted: Pattern| has(stack, wanted);
    if has(Pattern::Is(Activity::Import)) {
        return Activity::Import;
    }
    if has(Pattern::QueueGet) {
        return Activity::Waiting;
    }
    if has(Pattern::QueuePut) {
        return Activity::HandOver;
    }
    if has(Pattern::WorkerLoop) {
        return Activity::Python;
    }
    // Workers of other loaders: a wait is a wait for work, anything else is work.
    if waits(stack) {
        return Activity::Waiting;
    }
    sample_stage(stack)
}

/// The stage of a stack that passes through `fetch`, at index `fetch`: what it called tells the dataset from the
/// collate function.
fn stage(stack: &[KnownFrame<'_>], fetch: usize) -> Activity {
    let inside = stack.get(..fetch).unwrap_or_default();
    if collates(inside.last(), stack.get(fetch)) { Activity::Collate } else { sample_stage(inside) }
}

/// Whether `fetch` called the collate function. The text of its own line shows it, if readable. Otherwise names decide:
/// a dataset is called through special methods, so a plain function is a collate function.
fn collates(called: Option<&KnownFrame<'_>>, fetch: Option<&KnownFrame<'_>>) -> bool {
    if let Some(text) = fetch.and_then(|fetch| fetch.frame.text.as_deref()) {
        return text.contains("collate_fn(");
    }
    let Some(called) = called else { return false };
    if called.pattern == Pattern::Is(Activity::Collate) {
        return true;
    }
    let name = last_part(&called.frame.function);
    const DATA_SET: &str = "__getitem__ __getitems__ __next__ __iter__ <listcomp> <genexpr> fetch listcomp";
    !is_one_of(DATA_SET, name)
}

/// Load, decode or transform: the innermost frame known for one of them decides, by its place in a library or, for the
/// innermost function of the user's own code, by its name or the text of its line.
pub(super) fn sample_stage(inside: &[KnownFrame<'_>]) -> Activity {
    let own = inside.iter().position(KnownFrame::is_user);
    for (depth, seen) in inside.iter().enumerate() {
        if let Pattern::Is(stage @ (Activity::Decode | Activity::Load)) = seen.pattern {
            return stage;
        }
        // Functions further out call several stages: their names show no more than that.
        if own == Some(depth)
            && let Some(stage) = stage_by_words(seen.frame, depth == 0)
        {
            return stage;
        }
    }
    Activity::Transform
}

/// The stage that the user's own function is named for, or that its innermost line calls for.
fn stage_by_words(frame: &StackFrame, leaf: bool) -> Option<Activity> {
    let name = last_part(&frame.function).to_ascii_lowercase();
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let begins = |verbs: &[&str]| words.first().is_some_and(|first| verbs.contains(first));
    if words.iter().any(|word| matches!(*word, "decode" | "decoded" | "decoding" | "decompress" | "imdecode")) {
        return Some(Activity::Decode);
    }
    if begins(&["load", "read", "fetch", "download", "open", "loader", "recv", "receive"]) {
        return Some(Activity::Load);
    }
    if begins(&["transform", "augment", "preprocess", "normalize", "resize", "crop"]) {
        return Some(Activity::Transform);
    }
    let text = if leaf { frame.text.as_deref()? } else { return None };
    const DECODES: &str = "imdecode imread( decode_jpeg decode_png decode_image read_image .decode( decompress(";
    const LOADS: &str = ".read( .readinto( .readline open( np.load( np.fromfile( numpy.fromfile( fromfile( pread( preadv( \
                         .recv( .recv_into( requests. urlopen( read_bytes( os.read(";
    if has_one_of(DECODES, text) { Some(Activity::Decode) } else { has_one_of(LOADS, text).then_some(Activity::Load) }
}

/// Whether the code in this frame makes or hands out batches: what it counts are samples.
pub(crate) fn is_in_loader(frame: &FrameLocals) -> bool {
    let frame = StackFrame { function: frame.function.clone(), file: frame.file.clone(), ..StackFrame::default() };
    let seen = KnownFrame { at: 0, frame: &frame, pattern: pattern(&frame), is_loop: false, learns: false };
    let known = match seen.pattern {
        Pattern::LoaderNext | Pattern::NextIndex | Pattern::Fetch | Pattern::Samples => true,
        Pattern::Is(activity) => activity.is_input(),
        _ => false,
    };
    known || makes_batches(&[seen])
}

/// Whether the loop's own work reads data: in code that reads what is stored, or in a function of the user's that is named for it, and
/// not for a model's state.
pub(super) fn reads_data(stack: &[KnownFrame<'_>]) -> bool {
    const STATE_WORDS: &str = "state checkpoint ckpt model models weights config args";
    let named = |seen: &KnownFrame<'_>| {
        let name = last_part(&seen.frame.function).trim_start_matches('_').to_ascii_lowercase();
        let mut words = name.split('_');
        seen.may_name()
            && words.next().is_some_and(|first| is_one_of("load read fetch download", first))
            && !words.any(|word| is_one_of(STATE_WORDS, word))
    };
    let reads = |seen: &KnownFrame<'_>| {
        seen.pattern == Pattern::Is(Activity::Load) && !asks_any_server(&seen.frame.file) || named(seen)
    };
    stack.iter().any(reads)
}

/// Whether a function of torch or NumPy reads stored arrays.
fn reads_arrays(stack: &[KnownFrame<'_>]) -> bool {
    stack.iter().any(|seen| seen.pattern == Pattern::Is(Activity::Load) && holds_stored_arrays(&seen.frame.file))
}

/// Whether the innermost line is the user's own and decodes images or sound: native code leaves no frame of its own.
fn decodes(stack: &[KnownFrame<'_>]) -> bool {
    const DECODE_CALLS: &str =
        "imdecode( imread( decode_jpeg( decode_png( decode_image( read_image( decode_audio( simplejpeg.";
    own_line(stack).is_some_and(|text| has_one_of(DECODE_CALLS, text))
}

/// Whether the innermost line is the user's own and has spaCy tokenize texts to learn from: compiled code leaves no frame.
fn makes_documents(stack: &[KnownFrame<'_>]) -> bool {
    own_line(stack).is_some_and(|text| has_one_of(".make_doc( Example.from_dict(", text))
}

/// Whether this is a loader of the user's own in the training process. Iterators and datasets are called through
/// special methods; plain functions are recognized by names like `get_batch` or `load_sample`.
fn makes_batches(stack: &[KnownFrame<'_>]) -> bool {
    stack.iter().any(|seen| seen.may_name() && named_for_batches(last_part(&seen.frame.function)))
}

/// What identifies a step.
pub(super) enum Step {
    /// The model: its passes, the optimizer.
    Model {
        /// It learns: the backward pass, the optimizer.
        learns: bool,
    },
    /// A wait for the result.
    Wait,
}

/// What identifies the stack as part of a step, if anything.
pub(super) fn step_in(stack: &[KnownFrame<'_>]) -> Option<Step> {
    let learns = |activity| matches!(activity, Activity::Backward | Activity::Optimizer);
    let forward = |activity| activity == Activity::Forward;
    let waits = |activity| matches!(activity, Activity::Sync | Activity::Collective);
    let has = |wanted: fn(Activity) -> bool| {
        stack.iter().any(|seen| matches!(seen.pattern, Pattern::Is(activity) if wanted(activity)))
    };
    let syncs = || near_leaf(stack).any(|seen| named_for_sync(last_part(&seen.frame.function)));
    let learns = has(learns);
    if learns || has(forward) { Some(Step::Model { learns }) } else { (has(waits) || syncs()).then_some(Step::Wait) }
}

/// Whether a thread other than the loop's makes batches, judged by what it calls or what its functions are named for.
pub(super) fn makes_what_is_trained_on(stack: &[KnownFrame<'_>]) -> bool {
    let known = |seen: &KnownFrame<'_>| match seen.pattern {
        Pattern::Fetch | Pattern::LoaderNext | Pattern::Samples => true,
        Pattern::Is(activity) => activity.is_loading(),
        _ => {
            seen.is_user()
                && (stage_by_words(seen.frame, false).is_some() || named_for_feeding(last_part(&seen.frame.function)))
        }
    };
    makes_batches(stack) || stack.iter().any(known)
}

/// Matches `prefetch`, `producer`, `fill_queue`, `tokenize_text`, `_augment`.
fn named_for_feeding(name: &str) -> bool {
    const WORDS: &str = "prefetch prefetcher prefetching producer produce queue_thread feed fill filler loader preload preloader reader \
        batch batches batcher sample samples sampler augment augmentation tokenize tokenise tokenizer encode collate unpack \
        preprocess prepare parse data dataset";
    let name = name.trim_start_matches('_').to_ascii_lowercase();
    name.split('_').any(|word| is_one_of(WORDS, word))
}

fn named_for_batches(name: &str) -> bool {
    const CALLED: &str = "__next__ __getitem__ __getitems__ __iter__ batch batches minibatch dataloader data_loader";
    const VERBS: &str = "get next load read fetch make generate iter iterate to as build create assemble sample draw decode parse \
        tokenize tokenise encode collate";
    const THINGS: &str = "batch batches minibatch minibatches sample samples example examples dataset";
    if is_one_of(CALLED, name) {
        return true;
    }
    let name = name.trim_start_matches('_').to_ascii_lowercase();
    let mut words = name.split('_');
    words.next().is_some_and(|first| is_one_of(VERBS, first)) && words.any(|word| is_one_of(THINGS, word))
}

/// The three innermost frames of the user's own code: further out is the loop, not what it waits in.
fn near_leaf<'a, 'b>(stack: &'b [KnownFrame<'a>]) -> impl Iterator<Item = &'b KnownFrame<'a>> {
    stack.iter().filter(|seen| seen.is_user()).take(3)
}

/// Whether the user's own code moves a batch to the GPU, by the name of the function or the text of its line.
fn copies_to_device(frame: &StackFrame) -> bool {
    const COPY_NAMES: &str = "to_device to_gpu to_cuda move_to_device move_to_gpu batch_to_device copy_to_device send_to_device h2d \
        host_to_device batch_to_gpu copy_to_gpu";
    // A tensor made on the GPU from host memory, and one filled from it.
    const MAKE: &str = "tensor( asarray( array( .to(";
    let name = last_part(&frame.function).trim_start_matches('_');
    let text = frame.text.as_deref().unwrap_or_default();
    is_one_of(COPY_NAMES, name)
        || has_one_of(".cuda( .copy_( jnp.asarray(", text)
        || has_one_of(MAKE, text) && has_one_of("dev cuda gpu rank", text)
}

/// Whether the user's function is a wrapper around the wait for the GPU.
pub(super) fn named_for_sync(name: &str) -> bool {
    const SYNC_NAMES: &str =
        "synchronize sync cuda_sync cuda_synchronize gpu_sync device_sync sync_device device_synchronize";
    is_one_of(SYNC_NAMES, name.trim_start_matches('_'))
}

/// Matches `save_checkpoint`, `checkpoint`, `save_state`, `snapshot_model`, or a special method of a class that saves,
/// `Saver.__call__`.
fn named_for_saving(function: &str) -> bool {
    let name = last_part(function).to_ascii_lowercase();
    if name.starts_with("__") {
        let class = function.rsplit('.').nth(1).unwrap_or_default().to_ascii_lowercase();
        return is_one_of("saver modelsaver checkpointer checkpoint", &class) && name != "__init__";
    }
    let mut words = name.split('_').filter(|word| !word.is_empty());
    let first = words.clone().next();
    words.any(|word| matches!(word, "checkpoint" | "ckpt"))
        || matches!(first, Some("save" | "snapshot")) && has_one_of("state model weights snapshot", &name)
}
