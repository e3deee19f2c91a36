//! What the account of a trace is computed from, each part once.

use super::gpu_time::{self, GpuTime};
use super::host_time::{HostTime, python_of};
use super::names::NameId;
use super::places::{self, UserPlace, shown};
use super::scope::Scope;
use super::threads::ThreadWalk;
use super::timeline::{GpuKind, GpuSpan, TraceTimeline};

/// A timeline, and what is found in it.
#[derive(Debug)]
pub struct AccountParts<'a> {
    pub timeline: &'a TraceTimeline,
    pub scope: Scope,
    pub host: HostTime,
    /// The GPUs, the one with most kernels first.
    pub gpus: Vec<GpuTime>,
}

impl<'a> AccountParts<'a> {
    /// Of a timeline; `None` if nothing in it lasts.
    pub fn new(timeline: &'a TraceTimeline) -> Option<Self> {
        let scope = Scope::find(timeline)?;
        let host = HostTime::new(timeline, &scope);
        let gpus = gpu_time::gpus(timeline, &scope, &host);
        Some(Self { timeline, scope, host, gpus })
    }

    /// The spans of a GPU in the window, in the order of their begins.
    pub fn spans(&self, gpu: &GpuTime) -> impl Iterator<Item = &'a GpuSpan> {
        gpu_time::spans(gpu.index, self.timeline, self.scope.window)
    }

    /// Its kernels.
    pub fn kernels(&self, gpu: &GpuTime) -> impl Iterator<Item = &'a GpuSpan> {
        self.spans(gpu).filter(|span| span.kind == GpuKind::Kernel)
    }

    /// Its collectives, or its other kernels.
    pub(crate) fn kernels_that(&self, are_collectives: bool, gpu: &GpuTime) -> impl Iterator<Item = &'a GpuSpan> {
        let names = &self.timeline.names;
        self.kernels(gpu).filter(move |span| names.facts(span.name).collective == are_collectives)
    }

    /// A name, raw.
    pub fn text(&self, name: NameId) -> &'a str {
        self.timeline.names.text(name)
    }

    /// A name as it is told.
    pub fn shown(&self, name: NameId) -> String {
        shown(self.text(name))
    }

    /// Follows the spans of a thread.
    pub fn walk(&self, lane: u16) -> ThreadWalk<'a> {
        ThreadWalk::new(self.timeline.of_thread(lane), &self.timeline.names)
    }

    /// Follows the loop's Python functions, where they are filed under another thread than this one of the loop.
    pub fn python_of(&self, lane: u16) -> Option<ThreadWalk<'a>> {
        python_of(self.timeline, &self.scope, lane)
    }

    /// Where in the user's code something is: by its function, or by the call stack beside an operator.
    pub fn place(&self, function: Option<NameId>, shapes: u32) -> Option<UserPlace> {
        let by_function = function.and_then(|function| places::of_function(self.text(function)));
        by_function.or_else(|| places::of_call_stack(self.timeline.call_stack(shapes)))
    }
}
