//! What readers of stacks share: the files that tools name without their folder, and a window of stacks.

use std::collections::HashMap;
use std::sync::Arc;

use super::spans::StackTimes;
use trainmon_base::text::is_one_of;
use trainmon_profiles::is_of_standard_library;
use trainmon_sample::loop_profile::SAMPLE_MS;
use trainmon_sample::stacks::NAME;
use trainmon_sample::{StackCount, StackFrame, StackWindow, ThreadStacks};

/// Packages whose files tools name without their folder.
const PACKAGES: &str = "torch torchvision torchaudio torchdata numpy PIL cv2 pandas scipy sklearn transformers datasets \
                        accelerate lightning pytorch_lightning lightning_fabric torchmetrics tqdm wandb tensorboard timm albumentations \
                        webdataset safetensors huggingface_hub peft fsspec pyarrow h5py jax flax keras triton deepspeed";
/// A name, cut to the length that stacks keep.
pub(super) fn short(name: &str) -> Arc<str> {
    let mut end = name.len().min(NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default().into()
}

/// A frame of Python code. Tools cut the folders that Python imports from, so that a package's file looks like the user's own: the
/// folder is put back where the package is known.
pub(super) fn python_frame(function: &str, file: &str, line: u32) -> StackFrame {
    let begin = file.split('/').next().unwrap_or_default();
    let folder = match () {
        () if file.starts_with(['/', '<']) => "",
        () if is_one_of(PACKAGES, begin) => "site-packages/",
        () if is_of_standard_library(file) => "lib/python3/",
        () => "",
    };
    StackFrame { function: short(function), file: short(&format!("{folder}{file}")), line, text: None }
}

/// The stacks of an interval with their samples.
pub(super) fn window(times: &StackTimes, frame: impl Fn(u32) -> StackFrame) -> StackWindow {
    let mut window = StackWindow::default();
    let mut places: HashMap<u32, u32> = HashMap::new();
    let mut stacks = Vec::new();
    for (stack, samples) in times.samples(SAMPLE_MS * 1_000_000) {
        let frames = stack.iter().map(|number| {
            *places.entry(*number).or_insert_with(|| {
                window.frames.push(frame(*number));
                u32::try_from(window.frames.len() - 1).unwrap_or(u32::MAX)
            })
        });
        stacks.push(StackCount { frames: frames.collect(), samples });
    }
    window.threads.push(ThreadStacks { name: "MainThread".into(), tid: None, stacks });
    window
}
