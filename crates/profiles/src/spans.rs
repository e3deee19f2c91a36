//! Spans of a trace, packed: what a thread of the host did, and what a GPU did.

use super::event::TracePlace;
use super::names::NameId;

/// What a span of the host is. In order: of two with equal times, the later one is within the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostKind {
    /// A Python function.
    Python,
    /// An annotation: what a program or a library calls a part of its work.
    Annotation,
    /// An operator.
    Operator,
    /// A call of the GPU's runtime or driver.
    Runtime,
}

impl HostKind {
    /// The kind of an event of this category, if it is one of the host.
    pub(crate) fn from_category(category: &str) -> Option<Self> {
        // TraceNames of all versions since 2021; `*_runtime` are those of AMD, Intel and other accelerators.
        Some(match category {
            "cpu_op" | "Operator" | "operator" => Self::Operator,
            "user_annotation" | "annotation" => Self::Annotation,
            "python_function" => Self::Python,
            "cuda_runtime"
            | "cuda_driver"
            | "Runtime"
            | "runtime"
            | "hip_runtime"
            | "xpu_runtime"
            | "mtia_runtime"
            | "privateuse1_runtime"
            | "privateuse1_driver" => Self::Runtime,
            _ => return None,
        })
    }
}

/// What a span of a GPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// Memory set.
    Set,
}

impl GpuKind {
    /// The kind of an event of this category, if it is one of a GPU.
    pub(crate) fn from_category(category: &str) -> Option<Self> {
        Some(match category {
            "kernel" | "Kernel" => Self::Kernel,
            "gpu_memcpy" | "Memcpy" | "memcpy" => Self::Copy,
            "gpu_memset" | "Memset" | "memset" => Self::Set,
            _ => return None,
        })
    }
}

/// Something that a thread of the host did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSpan {
    /// Begin, nanoseconds.
    pub start: i64,
    /// End, nanoseconds.
    pub end: i64,
    /// What it was.
    pub name: NameId,
    /// Of a call of the runtime: what ties it to the GPU's spans. Of an operator: what ties kernels to it. 0 for none.
    pub link: u32,
    /// Shapes and call stack, 0 for none: see `TraceTimeline::shapes`.
    pub shapes: u32,
    /// Its thread.
    pub lane: u16,
    /// What kind of thing.
    pub kind: HostKind,
}

/// Something that a GPU did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuSpan {
    /// Begin, nanoseconds.
    pub start: i64,
    /// End, nanoseconds.
    pub end: i64,
    /// What it was.
    pub name: NameId,
    /// What ties it to the call that started it; 0 for none.
    pub link: u32,
    /// What ties it to its operator; 0 for none.
    pub external: u32,
    /// Details, 0 for none: see `TraceTimeline::detail`.
    pub detail: u32,
    /// Its stream.
    pub lane: u16,
    /// What kind of thing.
    pub kind: GpuKind,
}

/// What is recorded of an operator's call, as raw JSON; empty where it is not recorded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Shapes<'a> {
    /// `Input Dims`.
    pub dims: &'a str,
    /// `Input type`.
    pub types: &'a str,
    /// `Input Strides`.
    pub strides: &'a str,
    /// `Concrete Inputs`.
    pub values: &'a str,
    /// `Call stack`.
    pub call_stack: &'a str,
}

/// What is recorded of a kernel, a copy or a collective.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct GpuDetail {
    /// Blocks of the grid.
    pub blocks: Option<u64>,
    /// Threads of a block.
    pub threads: Option<u64>,
    /// Blocks for each multiprocessor, thousandths.
    pub blocks_per_sm_milli: Option<u64>,
    /// Estimated occupancy, percent.
    pub occupancy_pct: Option<u64>,
    /// Bytes copied.
    pub bytes: Option<u64>,
    /// Kind of a copy by roctracer, raw.
    pub copy_kind: Box<str>,
    /// Name of a collective, raw.
    pub collective: Box<str>,
    /// Elements sent and received.
    pub elements: Option<(u64, u64)>,
    /// Type of the elements, raw.
    pub element: Box<str>,
    /// Ranks of the group, and its name.
    pub group: Option<(u64, Box<str>)>,
    /// Which ranks these are, raw.
    pub group_ranks: Box<str>,
    /// Number among the collectives of the group.
    pub sequence: Option<u64>,
}

/// A thread or a stream, as the trace names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceLane {
    /// PID, or the number of a GPU.
    pub process: TracePlace<'static>,
    /// TID, or the number of a stream.
    pub thread: TracePlace<'static>,
}

impl TraceLane {
    /// Its number, if it has one.
    pub fn number(&self) -> Option<i64> {
        match self.thread {
            TracePlace::Number(number) => Some(number),
            _ => None,
        }
    }
}
