//! The texts of a trace, each kept once and numbered, with what the account needs to know of a name. Their size is bounded.

use foldhash::HashMap;
use std::sync::Arc;

use super::kernel_names::is_collective;
use trainmon_base::text::is_one_of;

/// Longest name that is kept whole, bytes: names of kernels have some thousand.
const NAME_MAX: usize = 8 << 10;
/// Most bytes of all names, and of all other texts.
const TEXT_MAX: usize = 48 << 20;

/// A name, numbered.
pub type NameId = u32;

/// What is known of a name.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct NameFacts {
    /// It is a wait for a batch in torch's loader.
    pub waits_for_batch: bool,
    /// As a call of the runtime: it waits for the GPU.
    pub synchronizes: bool,
    /// As a kernel: it is a collective.
    pub collective: bool,
    /// As a call of the runtime: it launches kernels.
    pub launches: bool,
    /// As a call of the runtime: it copies or sets memory.
    pub copies: bool,
    /// A step of the profiler.
    pub step: bool,
    /// As a function: it is code of the user's own, not of a library.
    pub users_code: bool,
    /// As a function: the call of a module of the model.
    pub module: bool,
    /// As a function: it does nothing but wait (sleeps, locks, polls).
    pub blocks: bool,
    /// As a function: it saves a state to a file, or waits until a file is on its disk.
    pub saves: bool,
    /// The optimizer's step.
    pub optimizer: bool,
    /// As an annotation or operator: a collective on the host's side.
    pub communicates: bool,
    /// A part of the backward pass.
    pub backward: bool,
    /// As an operator: it only contains what it runs, and says no more than that.
    pub wraps: bool,
    /// It compiles code.
    pub compiles: bool,
}

impl NameFacts {
    fn new(name: &str) -> Self {
        Self {
            waits_for_batch: name.starts_with("enumerate(DataLoader)")
                || name.contains("_MultiProcessingDataLoaderIter")
                || name.contains("_SingleProcessDataLoaderIter")
                || name.split_once("DataLoader").is_some_and(|(_, rest)| rest.contains("__next__")),
            synchronizes: ["Synchronize", "EventQuery", "StreamQuery"].iter().any(|word| name.contains(word)),
            collective: is_collective(name),
            launches: name.contains("aunch"),
            copies: ["emcpy", "emset"].iter().any(|word| name.contains(word)),
            step: name.starts_with("ProfilerStep"),
            users_code: is_users_code(name),
            module: name.starts_with("nn.Module: "),
            blocks: blocks(name),
            saves: name.starts_with("<built-in function fsync>")
                || SAVES.iter().any(|(file, function)| {
                    name.split_once("): ").is_some_and(|(at, name)| at.contains(file) && name == *function)
                }),
            optimizer: name.starts_with("Optimizer.step#"),
            communicates: ["nccl:", "gloo:", "mpi:", "ucc:", "c10d::"].iter().any(|begin| name.starts_with(begin)),
            backward: name.starts_with("autograd::engine::evaluate_function"),
            wraps: name.starts_with("autograd::engine::evaluate_function") || name == "CompiledFunction",
            compiles: COMPILES.iter().any(|word| name.contains(word)),
        }
    }
}

/// Parts of names under which torch compiles: the function that Dynamo calls for each frame (torch/_dynamo/convert_frame.py), and the
/// annotations of its own timing (torch/_dynamo/utils.py, since torch 2.5).
const COMPILES: [&str; 3] = ["convert_frame.py(", "(dynamo_timed)", "compile_fx.py("];

/// Functions that save a state, with their files: `torch.save`, torch.distributed.checkpoint, and the safetensors package.
const SAVES: [(&str, &str); 4] = [
    ("torch/serialization.py(", "save"),
    ("torch/distributed/checkpoint/state_dict_saver.py(", "save"),
    ("safetensors/torch.py(", "save_file"),
    ("safetensors/torch.py(", "save_model"),
];

/// Folders of installed packages and of the interpreter.
const INSTALLED: [&str; 3] = ["site-packages/", "dist-packages/", "lib/python3"];
/// Files and folders of the standard library, as tools name them.
const STANDARD: &str = "threading.py selectors.py queue.py socket.py ssl.py pathlib.py pickle.py copy.py random.py tempfile.py \
                        subprocess.py contextlib.py functools.py weakref.py abc.py enum.py typing.py inspect.py ast.py re.py \
                        traceback.py warnings.py types.py shutil.py os.py posixpath.py genericpath.py zipfile.py tarfile.py gzip.py \
                        bz2.py lzma.py struct.py string.py textwrap.py dataclasses.py operator.py heapq.py statistics.py fractions.py \
                        decimal.py runpy.py signal.py codecs.py io.py hashlib.py uuid.py datetime.py collections multiprocessing logging \
                        json urllib http importlib concurrent asyncio email encodings re unittest ctypes";

/// Whether a file is of Python's standard library, by its name as tools give it: without the folder that Python imports from.
pub fn is_of_standard_library(file: &str) -> bool {
    is_one_of(STANDARD, file.split(['/', '(']).next().unwrap_or_default())
}

/// Whether it is a function outside of torch and the standard library: `train.py(41): train_step`.
pub(crate) fn is_users_code(name: &str) -> bool {
    let Some((file, _)) = name.split_once("): ") else { return false };
    let of_torch = ["torch/", "torchvision/", "<"].iter().any(|begin| file.starts_with(begin));
    let installed = INSTALLED.iter().any(|folder| file.contains(folder));
    file.contains(".py(") && !of_torch && !installed && !is_of_standard_library(file)
}

/// Whether a built-in function does nothing but wait: `<built-in function sleep>`, `<method 'acquire' of '_thread.lock' objects>`.
pub fn blocks(name: &str) -> bool {
    let words = name.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    name.starts_with('<')
        && words.take(5).any(|word| is_one_of("sleep acquire wait poll select epoll_wait waitpid recv accept", word))
}

/// The names of a trace.
#[derive(Debug, Default)]
pub struct TraceNames {
    numbers: HashMap<Arc<str>, NameId>,
    texts: Vec<Arc<str>>,
    facts: Vec<NameFacts>,
    bytes: usize,
    /// TraceNames that were too many or too long are one.
    pub left_out: u64,
}

impl TraceNames {
    /// The number of a name.
    pub fn number(&mut self, name: &str) -> NameId {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let facts = NameFacts::new(cut(name));
        let mut kept = cut(name);
        if kept.len() < name.len() || self.bytes + name.len() > TEXT_MAX {
            self.left_out += 1;
        }
        if self.bytes + kept.len() > TEXT_MAX {
            // One name for all of the same kind, so that the account still knows what they do.
            kept = match facts {
                NameFacts { waits_for_batch: true, .. } => "enumerate(DataLoader) (name left out)",
                NameFacts { synchronizes: true, .. } => "Synchronize (name left out)",
                NameFacts { collective: true, .. } => "nccl (name left out)",
                NameFacts { launches: true, .. } => "Launch (name left out)",
                _ => "(name left out)",
            };
        }
        if let Some(number) = self.numbers.get(kept) {
            return *number;
        }
        let number = NameId::try_from(self.texts.len()).unwrap_or(NameId::MAX);
        self.bytes += kept.len() + 2 * size_of::<(Arc<str>, NameId)>();
        let kept: Arc<str> = kept.into();
        self.numbers.insert(Arc::clone(&kept), number);
        self.texts.push(kept);
        self.facts.push(facts);
        number
    }

    /// The name of a number, raw.
    pub fn text(&self, number: NameId) -> &str {
        usize::try_from(number).ok().and_then(|at| self.texts.get(at)).map_or("", |text| text)
    }

    /// What is known of it.
    pub fn facts(&self, number: NameId) -> NameFacts {
        usize::try_from(number).ok().and_then(|at| self.facts.get(at)).copied().unwrap_or_default()
    }
}

/// At most [`NAME_MAX`] bytes of a name.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}

/// Texts that belong to events beside their names, such as shapes. A text beyond the bound is left out.
#[derive(Debug, Default)]
pub struct Texts {
    numbers: HashMap<Arc<str>, u32>,
    all: Vec<Arc<str>>,
    bytes: usize,
}

impl Texts {
    /// Its number, counted from 1; 0 for what there is no room for.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.bytes += text.len() + 2 * size_of::<(Arc<str>, u32)>();
        if self.bytes > TEXT_MAX {
            return 0;
        }
        let text: Arc<str> = text.into();
        self.all.push(Arc::clone(&text));
        let number = u32::try_from(self.all.len()).unwrap_or_default();
        self.numbers.insert(text, number);
        number
    }

    /// The text of a number.
    pub fn get(&self, number: u32) -> Option<&str> {
        self.all.get(usize::try_from(number).ok()?.checked_sub(1)?).map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_do() {
        let of = NameFacts::new;
        for name in [
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "DataLoaderShard.__next__",
            "_MultiProcessingDataLoaderIter",
        ] {
            assert!(of(name).waits_for_batch, "{name}");
        }
        assert!(!of("dataloader.py(7): __next__").waits_for_batch);
        assert!(of("cudaStreamSynchronize").synchronizes && of("hipEventQuery").synchronizes);
        assert!(of("cudaLaunchKernel").launches && of("hipExtModuleLaunchKernel").launches);
        assert!(of("ncclDevKernel_AllReduce_Sum").collective && of("ProfilerStep#3").step);
    }

    #[test]
    fn names_without_end_take_bounded_memory() {
        let mut names = TraceNames::default();
        let first = names.number("first");
        for at in 0..20_000 {
            names.number(&format!("{at:05}{}", "x".repeat(NAME_MAX)));
        }
        assert!(names.bytes < TEXT_MAX + NAME_MAX && names.left_out == 20_000, "{}", names.bytes);
        assert_eq!((names.number("first"), names.text(first)), (first, "first"));
        let rest = names.number(&format!("a{}", "é".repeat(NAME_MAX)));
        assert_eq!(names.text(rest), "(name left out)");
        assert!(names.facts(names.numbers["(name left out)"]) == NameFacts::default());
        let mut texts = Texts::default();
        assert_eq!((texts.number("a"), texts.number("a")), (1, 1));
        assert_eq!(texts.number(&"b".repeat(TEXT_MAX)), 0);
        assert_eq!(texts.get(1), Some("a"));
        assert_eq!(texts.get(0), None);
    }
}
