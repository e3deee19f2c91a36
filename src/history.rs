//! Fixed-capacity rings of frames and verdict marks, with explicit gaps; [`archive`] keeps an hour of them, packed.

pub mod archive;
mod packed;
mod weight;

use std::collections::VecDeque;

use crate::diagnosis::verdict::{Class, Phase};
use crate::rates::Frame;

/// Frames kept in full: ten minutes at one a second.
pub const FRAMES: usize = 600;

/// The recent past of one job, oldest first, bounded by [`FRAMES`].
#[derive(Debug, Clone, Default)]
pub struct History {
    frames: VecDeque<Frame>,
    marks: VecDeque<Mark>,
}

/// The verdict that stood at one frame.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mark {
    /// Sequence of the frame.
    pub sequence: u64,
    /// Class.
    pub class: Class,
    /// Cause.
    pub cause: Option<&'static str>,
    /// Phase.
    pub phase: Phase,
    /// 0–1.
    pub confidence: f64,
}

impl History {
    /// Adds a frame, dropping the oldest when full.
    pub fn push(&mut self, frame: Frame) {
        if self.frames.len() >= FRAMES {
            self.frames.pop_front();
        }
        self.frames.push_back(frame);
    }

    /// Notes the verdict that stands at the latest frame.
    pub fn mark(&mut self, mark: Mark) {
        if self.marks.len() >= FRAMES {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// Frames, oldest first.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &Frame> + ExactSizeIterator + Clone {
        self.frames.iter()
    }

    /// Verdict marks, oldest first.
    pub fn marks(&self) -> impl DoubleEndedIterator<Item = &Mark> + ExactSizeIterator {
        self.marks.iter()
    }

    /// The newest frame.
    #[must_use]
    pub fn latest(&self) -> Option<&Frame> {
        self.frames.back()
    }
}
