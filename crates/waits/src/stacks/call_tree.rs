//! Which calls a thread's time belongs to: functions below the functions that called them, with how often each was seen.
//!
//! Frames that only pass calls on, and those of the standard library, are left out: their samples belong to the caller. A window
//! keeps what takes a visible part of it, so the tree of a loop is small however deep its stacks are.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use trainmon_libraries::Code;
use trainmon_libraries::code::last_part;
use trainmon_sample::StackFrame;
use trainmon_sample::stacks::{is_installed, is_user_code};

/// Most functions kept for one window, and for the sum of several.
const MOST_CALLS: usize = 96;
/// The smallest part of a window's samples that is kept.
const LEAST_VISIBLE: f64 = 0.04;

/// Functions that only pass a call on. Read in torch 2.15, functools, joblib 1.6, scikit-learn 1.9 and fastai 2.8.
const PASS_ON: &[Code] = &[
    Code::new("torch/nn/modules/module.py", "_call_impl _wrapped_call_impl __call__"),
    Code::new("torch/utils/_contextlib.py, torch/_dynamo/eval_frame.py, torch/_compile.py", ""),
    Code::new("torch/autograd/, torch/_tensor.py", ""),
    Code::new("torch/optim/optimizer.py", "wrapper _use_grad profile_hook_step"),
    Code::new("torch/optim/lr_scheduler.py", "wrapper"),
    Code::new("jax/, jaxlib/", ""),
    Code::new(
        "torch/nn/functional.py, torch/nn/modules/container.py, torch/nn/modules/linear.py, torch/nn/modules/conv.py, \
         torch/nn/modules/activation.py, torch/nn/modules/dropout.py, torch/nn/modules/normalization.py, \
         torch/nn/modules/batchnorm.py, torch/nn/modules/sparse.py, torch/nn/modules/pooling.py, torch/nn/modules/loss.py",
        "",
    ),
    Code::new("sklearn/base.py", "wrapper"),
    Code::new("sklearn/utils/_param_validation.py, sklearn/utils/parallel.py, sklearn/utils/_set_output.py", ""),
    Code::new("joblib/", ""),
    Code::new("transformers/utils/generic.py, transformers/modeling_layers.py", ""),
    Code::new("accelerate/utils/operations.py", "forward __call__"),
    Code::new("fastai/learner.py", "_with_events __call__ _call_one"),
    Code::new("fastai/callback/core.py", "__call__"),
    Code::new("site-packages/", "wrapper wrapped inner <lambda> _inner wrapped_func inner_f"),
    Code::new("dist-packages/", "wrapper wrapped inner <lambda> _inner wrapped_func inner_f"),
];

/// Installed programs that start the user's code, all of their functions: notebooks, servers, launchers. Read in ipykernel 7.4,
/// IPython 9, nbclient 0.11, uvicorn 0.54, Starlette, gunicorn 27, Flask 3.1 and grpcio 1.85.
const STARTERS: &[Code] = &[
    Code::new(
        "ipykernel_launcher.py, ipykernel/, IPython/core/, nbclient/, jupyter_client/, traitlets/, tornado/",
        "",
    ),
    Code::new("uvicorn/, starlette/, fastapi/, anyio/, gunicorn/, werkzeug/, flask/, click/, typer/", ""),
    Code::new("grpc/_server.py, torch/distributed/run.py, torch/distributed/launcher/, accelerate/commands/", ""),
];

/// A function, called from the function that is its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeCall {
    /// Index of the caller in the tree; `None` for an outermost one. A caller comes before what it calls.
    pub caller: Option<u16>,
    /// Function, as named by py-spy; raw.
    pub function: Arc<str>,
    /// Path; raw.
    pub file: Arc<str>,
    /// The line in it that was seen most; 0 if unknown.
    pub line: u32,
    /// Samples at that line, at least.
    at_line: u32,
    /// Samples in the function and in what it calls.
    pub samples: u32,
}

impl CodeCall {
    /// Whether it is the user's own code.
    pub fn is_user(&self) -> bool {
        is_user_code(&self.file)
    }

    fn is_same(&self, caller: Option<u16>, function: &str, file: &str) -> bool {
        self.caller == caller && *self.function == *function && *self.file == *file
    }

    /// Adds samples at a line. Of two lines, the one with more samples stays, less those of the other.
    fn add(&mut self, samples: u32, line: u32, at_line: u32) {
        self.samples = self.samples.saturating_add(samples);
        if line == 0 {
            return;
        }
        if self.line == line {
            self.at_line = self.at_line.saturating_add(at_line);
        } else if at_line > self.at_line {
            (self.line, self.at_line) = (line, at_line - self.at_line);
        } else {
            self.at_line -= at_line;
        }
    }
}

/// The calls of one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTree {
    /// A caller comes before what it calls.
    pub calls: Vec<CodeCall>,
    /// Samples in all.
    pub samples: u32,
}

impl CallTree {
    /// Adds the frames of a stack that say where its time goes, leaf first.
    pub(super) fn add_stack<'a>(&mut self, stack: impl DoubleEndedIterator<Item = &'a StackFrame>, samples: u32) {
        self.samples = self.samples.saturating_add(samples);
        let mut caller = None;
        for frame in stack.rev() {
            let Some(at) = self.at(caller, &frame.function, &frame.file, usize::MAX) else { return };
            if let Some(call) = self.calls.get_mut(usize::from(at)) {
                call.add(samples, frame.line, samples);
            }
            caller = Some(at);
        }
    }

    /// Adds another tree of the thread, as far as there is room.
    pub(super) fn add(&mut self, more: &Self) {
        self.samples = self.samples.saturating_add(more.samples);
        let mut places: Vec<Option<u16>> = Vec::with_capacity(more.calls.len());
        for call in &more.calls {
            let caller = call.caller.map(|at| places.get(usize::from(at)).copied().flatten());
            let place = match caller {
                // What called it found no room.
                Some(None) => None,
                caller => self.at(caller.flatten(), &call.function, &call.file, MOST_CALLS),
            };
            if let Some(known) = place.and_then(|at| self.calls.get_mut(usize::from(at))) {
                known.add(call.samples, call.line, call.at_line);
            }
            places.push(place);
        }
    }

    /// Where this call is, added if there is room.
    fn at(&mut self, caller: Option<u16>, function: &Arc<str>, file: &Arc<str>, most: usize) -> Option<u16> {
        let known = self.calls.iter().position(|call| call.is_same(caller, function, file));
        let at = match known {
            Some(at) => at,
            None if self.calls.len() < most => {
                let (function, file) = (Arc::clone(function), Arc::clone(file));
                self.calls.push(CodeCall { caller, function, file, line: 0, at_line: 0, samples: 0 });
                self.calls.len() - 1
            }
            None => return None,
        };
        u16::try_from(at).ok()
    }

    /// The tree without what takes hardly any of it.
    pub(super) fn cut(self) -> Self {
        let least = (LEAST_VISIBLE * f64::from(self.samples)).max(1.0);
        let mut cut = Self { samples: self.samples, calls: Vec::new() };
        let mut places: Vec<Option<u16>> = Vec::with_capacity(self.calls.len());
        for call in self.calls {
            let caller = call.caller.map(|at| places.get(usize::from(at)).copied().flatten());
            let is_kept = f64::from(call.samples) >= least && caller != Some(None) && cut.calls.len() < MOST_CALLS;
            places.push(if is_kept { u16::try_from(cut.calls.len()).ok() } else { None });
            if is_kept {
                cut.calls.push(CodeCall { caller: caller.flatten(), ..call });
            }
        }
        cut
    }

    /// Samples in the user's own code that these functions call.
    pub fn called_by(&self, is_caller: impl Fn(&CodeCall) -> bool) -> u32 {
        // Of each call, whether it is below such a function, and whether the user's code below that is counted.
        let mut below: Vec<(bool, bool)> = Vec::with_capacity(self.calls.len());
        let mut samples = 0_u32;
        for call in &self.calls {
            let (within, counted) =
                call.caller.and_then(|at| below.get(usize::from(at)).copied()).unwrap_or_default();
            let counts = within && !counted && call.is_user();
            samples = samples.saturating_add(if counts { call.samples } else { 0 });
            below.push((within || is_caller(call), counted || counts));
        }
        samples
    }

    /// The calls from the outermost to the innermost one that each take the largest part of their caller's time, as long as that
    /// is at least `least` samples.
    pub fn heaviest(&self, least: u32) -> Vec<&CodeCall> {
        let mut path: Vec<&CodeCall> = Vec::new();
        let mut caller = None;
        loop {
            let called = self.calls.iter().enumerate().filter(|(_, call)| call.caller == caller);
            // Of equal ones the first.
            let most = called.rev().max_by_key(|(_, call)| call.samples);
            let Some((at, call)) = most.filter(|(_, call)| call.samples >= least.max(1)) else { return path };
            path.push(call);
            caller = u16::try_from(at).ok();
        }
    }
}

/// Whether a frame says where the time goes.
pub(super) fn is_told(frame: &StackFrame) -> bool {
    const COMPREHENSIONS: [&str; 4] = ["<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"];
    let is_known = is_user_code(&frame.file) || is_installed(&frame.file);
    let is_of = |codes: &[Code]| codes.iter().any(|code| code.is_at(&frame.file, &frame.function));
    let starts = || is_installed(&frame.file) && is_of(STARTERS);
    is_known && !COMPREHENSIONS.contains(&last_part(&frame.function)) && !is_of(PASS_ON) && !starts()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(function: &str, file: &str, line: u32) -> StackFrame {
        StackFrame { function: function.into(), file: file.into(), line, text: None }
    }

    /// A tree of stacks, outermost first, all in one file of the user's except those with a path.
    fn tree(stacks: &[(&[(&str, u32)], u32)]) -> CallTree {
        let mut tree = CallTree::default();
        for (stack, samples) in stacks {
            let file = |name: &str| match name.split_once(':') {
                Some((file, function)) => (function.to_owned(), format!("/v/site-packages/{file}")),
                None => (name.to_owned(), "/home/me/train.py".to_owned()),
            };
            let frames: Vec<StackFrame> = stack
                .iter()
                .rev()
                .map(|(name, line)| {
                    let (function, file) = file(name);
                    frame(&function, &file, *line)
                })
                .collect();
            tree.add_stack(frames.iter().filter(|frame| is_told(frame)), *samples);
        }
        tree
    }

    fn names(calls: &[&CodeCall]) -> Vec<String> {
        calls.iter().map(|call| format!("{}:{} {}", call.function, call.line, call.samples)).collect()
    }

    #[test]
    fn the_heaviest_path_ends_where_the_time_divides() {
        let tree = tree(&[
            (&[("main", 5), ("x/trainer.py:train", 50), ("x/model.py:forward", 7), ("x/model.py:attend", 9)], 40),
            (&[("main", 5), ("x/trainer.py:train", 50), ("x/model.py:forward", 8)], 20),
            (&[("main", 5), ("x/trainer.py:train", 60), ("x/optimizer.py:step", 3)], 40),
        ]);
        assert_eq!(names(&tree.heaviest(25)), ["main:5 100", "train:50 100", "forward:7 60", "attend:9 40"]);
        assert_eq!(names(&tree.heaviest(50)), ["main:5 100", "train:50 100", "forward:7 60"]);
        assert_eq!(names(&tree.heaviest(101)), Vec::<String>::new());
    }

    #[test]
    fn what_only_passes_calls_on_is_no_place() {
        let stack = [
            ("main", 5),
            ("torch/nn/modules/module.py:Module._call_impl", 1),
            ("forward", 7),
            ("torch/nn/functional.py:linear", 9),
        ];
        assert_eq!(names(&tree(&[(&stack, 10)]).heaviest(1)), ["main:5 10", "forward:7 10"]);
        let mut tree = CallTree::default();
        let stack = [frame("dumps", "/usr/lib/python3.11/json/__init__.py", 3), frame("log", "/a/t.py", 4)];
        tree.add_stack(stack.iter().filter(|frame| is_told(frame)), 2);
        assert_eq!(names(&tree.heaviest(1)), ["log:4 2"]);
    }

    #[test]
    fn what_starts_the_users_code_is_no_place() {
        let stack = [
            ("ipykernel_launcher.py:<module>", 18),
            ("ipykernel/kernelbase.py:start", 1),
            ("IPython/core/interactiveshell.py:run_cell", 2),
            ("cell", 3),
            ("uvicorn/protocols/http/h11_impl.py:run_asgi", 4),
            ("starlette/routing.py:app", 5),
            ("answer", 7),
        ];
        assert_eq!(names(&tree(&[(&stack, 10)]).heaviest(1)), ["cell:3 10", "answer:7 10"]);
    }

    #[test]
    fn the_users_code_below_a_function_counts_once() {
        let tree = tree(&[
            (&[("main", 5), ("pandas/core/apply.py:apply", 1), ("streak", 7), ("longest", 9)], 30),
            (&[("main", 5), ("pandas/core/apply.py:apply", 1), ("pandas/core/series.py:sum", 2)], 10),
            (&[("main", 6), ("other", 3)], 5),
        ]);
        assert_eq!(tree.called_by(|call| &*call.function == "apply"), 30);
        assert_eq!(tree.called_by(|call| &*call.function == "sum"), 0);
    }

    #[test]
    fn what_is_seldom_seen_goes() {
        let tree = tree(&[(&[("main", 5), ("a", 1)], 99), (&[("main", 5), ("b", 2), ("c", 3)], 1)]).cut();
        assert_eq!(tree.calls.len(), 2);
        assert_eq!(tree.samples, 100);
    }

    #[test]
    fn windows_add_up() {
        let mut sum = tree(&[(&[("main", 5), ("a", 1)], 3)]);
        sum.add(&tree(&[(&[("main", 6), ("b", 2)], 5), (&[("main", 5), ("a", 1)], 4)]));
        assert_eq!(names(&sum.heaviest(1)), ["main:5 12", "a:1 7"]);
        assert_eq!(sum.samples, 12);
    }

    proptest! {
        #[test]
        fn no_caller_is_seen_less_than_what_it_calls(
            stacks in proptest::collection::vec((proptest::collection::vec((0_u8..5, 0_u32..4), 1..40), 1_u32..9), 1..60),
        ) {
            let mut sum = CallTree::default();
            for part in stacks.chunks(7) {
                let mut window = CallTree::default();
                for (stack, samples) in part {
                    let frames: Vec<StackFrame> =
                        stack.iter().map(|(name, line)| frame(&format!("f{name}"), "/home/me/a.py", *line)).collect();
                    window.add_stack(frames.iter(), *samples);
                }
                sum.add(&window.cut());
            }
            prop_assert!(sum.calls.len() <= MOST_CALLS);
            for call in &sum.calls {
                let caller = call.caller.and_then(|at| sum.calls.get(usize::from(at)));
                prop_assert!(caller.is_none_or(|caller| caller.samples >= call.samples));
                prop_assert!(call.samples <= sum.samples);
            }
        }
    }
}
