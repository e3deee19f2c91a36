//! Python stacks of the job's processes, as the sampler gave them: what each thread was seen in, and how often.
//!
//! A window is some seconds of one process, sampled at random moments. Which frames mean waiting, decoding or a backward
//! pass is judged downstream.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::{Private, TextKind, Visit};
use super::{LocalsSample, ProcessId};

/// Most frames kept of one stack, the leaf's side: deeper ones begin in a framework's entry points.
pub const DEPTH: usize = 96;
/// Most different frames kept of one window.
pub const FRAMES: usize = 4096;
/// Most different stacks kept of one thread.
pub const STACKS: usize = 256;
/// Most threads kept of one window.
pub const THREADS: usize = 64;
/// Longest name or path kept, bytes.
pub const NAME: usize = 256;

/// What the sampler gave since the last tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StacksSample {
    /// Windows that ended since the last tick, oldest first.
    pub windows: Vec<StackWindow>,
    /// Readings of local variables since the last tick, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<LocalsSample>,
}

/// Some seconds of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackWindow {
    /// Which process.
    pub process: ProcessId,
    /// Frames that the stacks point into.
    pub frames: Vec<StackFrame>,
    /// Threads, in the sampler's order.
    pub threads: Vec<ThreadStacks>,
}

impl StackWindow {
    /// Whether torch's backward pass was seen (`_engine_run_backward`, torch/autograd/graph.py): only who trains runs one.
    pub fn shows_backward(&self) -> bool {
        let backward = |frame: &StackFrame| {
            &*frame.function == "_engine_run_backward" && frame.file.ends_with("torch/autograd/graph.py")
        };
        self.frames.iter().any(backward)
    }
}

impl Private for StacksSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        self.windows.iter_mut().for_each(|window| window.visit_texts(visit));
        let threads = self.locals.iter_mut().flat_map(|locals| &mut locals.threads);
        threads.flat_map(|thread| &mut thread.frames).for_each(|frame| visit(TextKind::CodeFile, &mut frame.file));
    }
}

impl Private for StackWindow {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        for frame in &mut self.frames {
            visit(TextKind::CodeFile, &mut frame.file);
            frame.text.iter_mut().for_each(|text| visit(TextKind::Prose, text));
        }
    }
}

/// One place in the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StackFrame {
    /// Function, qualified where the sampler does that (`Queue.get`); raw, may hold anything.
    pub function: Arc<str>,
    /// Path of the file as the interpreter names it; raw, may hold anything, empty where unknown.
    pub file: Arc<str>,
    /// Line, from 1; 0 where unknown.
    pub line: u32,
    /// That line of the source, trimmed, where the file could be read: for innermost frames of the user's own code, and for torch's `fetch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
}

/// One thread's stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStacks {
    /// Python's name (`MainThread`, `QueueFeederThread`), raw.
    pub name: Arc<str>,
    /// Thread ID where the sampler told it: the inner one for a process in another PID namespace.
    pub tid: Option<u32>,
    /// Different stacks, the most frequent first.
    pub stacks: Vec<StackCount>,
}

/// One stack and how often it was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackCount {
    /// Indices into the window's frames, leaf first.
    pub frames: Vec<u32>,
    /// Samples.
    pub samples: u32,
}

/// Whether a file is the user's own code: it lies outside installed packages and the standard library, and is a file at
/// all (`<frozen importlib._bootstrap>`, `<string>` and an empty path are not). Code that torch.compile generated is not
/// the user's either.
pub fn is_user_code(file: &str) -> bool {
    // A notebook's cell, of IPython before version 7 and of programs that do alike; `<frozen …>` is the interpreter's own.
    if ["<ipython-input", "<stdin>", "<cell"].iter().any(|begin| file.starts_with(begin)) {
        return true;
    }
    if file.is_empty() || file.starts_with('<') || is_installed(file) {
        return false;
    }
    let mut parent = "";
    for part in file.split('/') {
        let library = ["lib", "lib64"].contains(&parent) && is_python_folder(part);
        if library || part.starts_with("torchinductor_") {
            return false;
        }
        parent = part;
    }
    true
}

/// Whether a file belongs to an installed package.
pub fn is_installed(file: &str) -> bool {
    file.split('/').any(|part| matches!(part, "site-packages" | "dist-packages"))
}

/// `python3.11`, `python3.13t`, `python311.zip`: the standard library's place below `lib`.
fn is_python_folder(part: &str) -> bool {
    let Some(version) = part.strip_prefix("python") else { return false };
    let version = version.strip_suffix(".zip").unwrap_or(version);
    let version = version.strip_suffix('t').unwrap_or(version);
    version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(|c| c.is_ascii_digit() || c == '.')
}

#[cfg(test)]
mod tests {
    use super::is_user_code;

    #[test]
    fn user_code_lies_outside_packages_and_the_standard_library() {
        for own in [
            "/home/me/train.py",
            "train.py",
            "/workspace/lib/data.py",
            "/srv/lib/python_tools/a.py",
            "/opt/python3.11/mine.py",
        ] {
            assert!(is_user_code(own), "{own}");
        }
        for other in [
            "",
            "<string>",
            "<frozen runpy>",
            "/usr/lib/python3.11/threading.py",
            "/opt/conda/lib/python3.13t/queue.py",
            "/usr/lib64/python3.9/queue.py",
            "/usr/lib/python311.zip/queue.py",
            "/v/lib/python3.11/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3/dist-packages/numpy/core.py",
            "/tmp/torchinductor_me/ab/cab.py",
        ] {
            assert!(!is_user_code(other), "{other}");
        }
    }
}
