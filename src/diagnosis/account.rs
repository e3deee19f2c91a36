//! One account of the loop's time: every share of it stands in one entry, with what it is for, whom it waits for, and what ends it.
//!
//! What the verdict would be by the account alone is the largest group of lost time. It is kept beside the rules' verdict until
//! the two agree everywhere; no rule reads it yet.

use serde::{Deserialize, Serialize};

use super::causes::{Cause, source};
use super::class::Class;
use super::features::{Chain, Features, Part, Way};
use super::stats::round;
use super::thresholds::LOST_WAIT;
use crate::rates::chain::paths::{Edge, End};
use crate::rates::stacks::Activity;
use crate::text::named_enum;

named_enum! {
    /// What a part of the loop's time is for.
    pub enum Purpose {
        /// A batch: waiting for it, making it, taking it over.
        Batch = "batch",
        /// The GPU's results.
        Gpu = "gpu",
        /// The other ranks.
        Collective = "collective",
        /// Saving state.
        Save = "save",
        /// Another process's answer.
        Result = "result",
        /// A lock, or the end of another thread.
        Lock = "lock",
        /// Logs, metrics, output.
        Report = "report",
        /// Forward and backward pass, optimizer.
        Model = "model",
        /// The loop's own code.
        Python = "python",
        /// Moving batches to the GPU.
        Copy = "copy",
        /// A timer of the loop's own.
        Sleep = "sleep",
        /// Somebody who asks the job for something.
        Request = "request",
        /// Not known.
        Unknown = "unknown",
    }
}

named_enum! {
    /// What ends a part of the loop's time: whoever gets more of it makes that part shorter.
    pub enum Resource {
        /// A CPU, by a thread that runs.
        Running = "running",
        /// A CPU, by a thread that queues for one.
        Queued = "queued",
        /// A CPU, by a thread that a quota pauses.
        Throttled = "throttled",
        /// A disk.
        Disk = "disk",
        /// Memory.
        Memory = "memory",
        /// An address.
        Remote = "remote",
        /// The GPU.
        Gpu = "gpu",
        /// A lock whose holder is not known.
        Lock = "lock",
        /// A timer.
        Timer = "timer",
        /// Whoever reads the loop's output.
        Reader = "reader",
        /// Not known.
        Unknown = "unknown",
    }
}

named_enum! {
    /// How an entry is known.
    pub enum Basis {
        /// The kernel and the stacks say so.
        Seen = "seen",
        /// The kernel says who is waited for, and no stack what for.
        Inferred = "inferred",
        /// Not even that.
        Guessed = "guessed",
    }
}

/// A share of the loop's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is for.
    pub purpose: Purpose,
    /// How each thread on the way is waited for; empty for the loop itself.
    pub via: Vec<Edge>,
    /// What ends it.
    pub resource: Resource,
    /// How it is known.
    pub basis: Basis,
    /// Share of the loop's time, 0–1.
    pub share: f64,
    /// Of it, with the GPU idle; all of it without a GPU.
    pub lost: f64,
}

/// The account of a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The class of the largest group of lost time.
    pub class: Class,
    /// Its cause, where the group tells it.
    #[serde(default, deserialize_with = "super::causes::known")]
    pub cause: Option<Cause>,
    /// What is lost to the group, 0–1.
    pub lost: f64,
    /// The entries, the longest first. Their shares add up to 1.
    pub entries: Vec<Entry>,
}

impl Account {
    /// Of a window; none where whom the loop waits for was not followed.
    pub(super) fn of(window: &Features) -> Option<Self> {
        let chain = window.chain.as_ref()?;
        let mut entries: Vec<Entry> = chain.ways.iter().flat_map(|way| entries(window, chain, way)).collect();
        entries.sort_by(|a, b| b.share.total_cmp(&a.share));
        let (class, cause, lost) = largest_group(window, &entries);
        for entry in &mut entries {
            (entry.share, entry.lost) = (round(entry.share, 3), round(entry.lost, 3));
        }
        Some(Self { class, cause, lost: round(lost, 3), entries })
    }
}

/// The entries of one way: by what the stacks see of the loop's own time, and by what the last thread's scheduler statistics say
/// of a CPU that it wants.
fn entries(window: &Features, chain: &Chain, way: &Way) -> Vec<Entry> {
    let via: Vec<Edge> = way.hops.iter().map(|hop| hop.by).collect();
    let basis = match () {
        () if matches!(way.part, Part::Unknown) => Basis::Guessed,
        () if !chain.exact || way.part == Part::Own && window.loop_stacks().is_none() => Basis::Inferred,
        () => Basis::Seen,
    };
    let mut all = Vec::new();
    for (purpose, of_purpose) in purposes(window, way) {
        for (resource, of_resource) in resources(window, way) {
            let part = of_purpose * of_resource;
            let entry =
                Entry { purpose, via: via.clone(), resource, basis, share: way.share * part, lost: way.lost * part };
            all.extend((part > 0.0).then_some(entry));
        }
    }
    all
}

/// What a way's time is for, in parts of 1.
fn purposes(window: &Features, way: &Way) -> Vec<(Purpose, f64)> {
    let whole = |purpose: Purpose| vec![(purpose, 1.0)];
    match way.part {
        Part::Own => own_purposes(window),
        Part::Loads | Part::Loader => whole(Purpose::Batch),
        Part::Saves => whole(Purpose::Save),
        Part::Device => whole(Purpose::Gpu),
        Part::FileLock | Part::InterpreterLock => whole(Purpose::Lock),
        Part::Output => whole(Purpose::Report),
        Part::Storage if way.end == End::Flush => whole(Purpose::Save),
        Part::Storage => whole(Purpose::Batch),
        Part::Sleep => whole(Purpose::Sleep),
        Part::Request => whole(Purpose::Request),
        Part::OwnThread | Part::Process | Part::Remote | Part::Unknown => waited_purposes(window, way),
    }
}

/// The loop's own work, as its stacks show it outside of waits and batches.
fn own_purposes(window: &Features) -> Vec<(Purpose, f64)> {
    let Some((main, stacks)) = window.main.as_ref().and_then(|main| Some((main, main.stacks.as_ref()?))) else {
        return vec![(Purpose::Unknown, 1.0)];
    };
    let part = |(activity, share)| match activity {
        Activity::Forward | Activity::Backward | Activity::Optimizer => Some((Purpose::Model, share)),
        Activity::Copy => Some((Purpose::Copy, share)),
        Activity::Report => Some((Purpose::Report, share)),
        // Most of it is a wait.
        Activity::Collective => Some((Purpose::Collective, main.runs_in_collectives())),
        Activity::Python | Activity::Graph | Activity::Import | Activity::Compile => Some((Purpose::Python, share)),
        _ => None,
    };
    let mut parts: Vec<(Purpose, f64)> = stacks.shares.iter().filter_map(part).collect();
    let total: f64 = parts.iter().map(|(_, share)| share).sum();
    if total <= 0.0 {
        return vec![(Purpose::Unknown, 1.0)];
    }
    parts.iter_mut().for_each(|(_, share)| *share /= total);
    parts
}

/// A wait for somebody is for a batch, or for state to be saved, as far as the split takes such waits for that.
fn waited_purposes(window: &Features, way: &Way) -> Vec<(Purpose, f64)> {
    let (Some(main), Some(chain)) = (&window.main, &window.chain) else { return vec![(Purpose::Unknown, 1.0)] };
    let of = |parts: &[Part]| parts.iter().map(|part| chain.share(*part)).sum::<f64>();
    let all = of(&[Part::OwnThread, Part::Process, Part::Remote, Part::Unknown]);
    let batches = main.shares.input_wait - of(&[Part::Loader, Part::Loads, Part::Storage]);
    let batches = (batches / all).clamp(0.0, 1.0);
    let saves = ((main.shares.checkpoint - chain.share(Part::Saves)) / all).clamp(0.0, 1.0 - batches);
    let other = match way.part {
        Part::OwnThread => Purpose::Lock,
        Part::Unknown => Purpose::Unknown,
        _ => Purpose::Result,
    };
    vec![(Purpose::Batch, batches), (Purpose::Save, saves), (other, 1.0 - batches - saves)]
}

/// What a way ends at, in parts of 1: a thread that wants a CPU runs, or queues for one.
fn resources(window: &Features, way: &Way) -> Vec<(Resource, f64)> {
    let whole = |resource: Resource| vec![(resource, 1.0)];
    match &way.end {
        End::Cpu => {
            let Some(main) = &window.main else { return whole(Resource::Running) };
            let delay = match way.hops.last() {
                Some(last) => main.run_delay_of(last.pid, last.tid),
                None => main.run_delay.unwrap_or(0.0),
            };
            let paused = window.cpu.throttled.unwrap_or(0.0).min(1.0);
            vec![
                (Resource::Running, 1.0 - delay),
                (Resource::Queued, delay * (1.0 - paused)),
                (Resource::Throttled, delay * paused),
            ]
        }
        End::Children => whole(Resource::Running),
        End::Disk | End::Flush => whole(Resource::Disk),
        End::Memory => whole(Resource::Memory),
        End::Device => whole(Resource::Gpu),
        End::Net(_) => whole(Resource::Remote),
        End::Lock(_) => whole(Resource::Lock),
        End::Timer => whole(Resource::Timer),
        End::Terminal => whole(Resource::Reader),
        End::Stopped | End::Loader | End::Asked | End::Unknown => whole(Resource::Unknown),
    }
}

/// The group that most is lost to, by what would have to change. Where hardly anything is lost, the GPU sets the pace.
fn largest_group(window: &Features, entries: &[Entry]) -> (Class, Option<Cause>, f64) {
    let mut groups: Vec<((Class, Option<Cause>), f64)> = Vec::new();
    for entry in entries {
        let group = group(window, entry);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, lost)) => *lost += entry.lost,
            None => groups.push((group, entry.lost)),
        }
    }
    let all: f64 = groups.iter().map(|(_, lost)| lost).sum();
    let largest = groups.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match (largest, &window.gpu) {
        (_, Some(_)) if all < LOST_WAIT => (Class::Gpu, None, all),
        (Some(((class, cause), lost)), _) => (class, cause, lost),
        (None, _) => (Class::Unknown, None, 0.0),
    }
}

/// The table: way, resource and purpose → class and cause.
fn group(window: &Features, entry: &Entry) -> (Class, Option<Cause>) {
    let by = entry.via.first().copied();
    match (entry.purpose, entry.resource) {
        (_, Resource::Throttled) => (Class::Cpu, Some(Cause::CgroupThrottled)),
        (Purpose::Lock, _) if by == Some(Edge::InterpreterLock) => (Class::Cpu, Some(Cause::GilContention)),
        (Purpose::Lock, _) if by.is_none_or(Edge::is_file_lock) => (Class::Io, Some(Cause::Lock)),
        (_, Resource::Queued) => (Class::Cpu, None),
        (Purpose::Batch, Resource::Running) if entry.via.is_empty() => {
            (Class::DataLoader, Some(Cause::InProcessLoading))
        }
        // Its workers ask another process of this machine.
        (Purpose::Batch, Resource::Running) if source::server(window).is_some() => {
            (Class::Cpu, Some(Cause::WaitsForProcess))
        }
        (Purpose::Batch, Resource::Running | Resource::Lock | Resource::Timer | Resource::Unknown) => {
            (Class::DataLoader, None)
        }
        (Purpose::Save, _) => (Class::Io, Some(Cause::CheckpointWrite)),
        (Purpose::Batch, Resource::Remote) => (Class::Io, Some(Cause::NetworkStorage)),
        (_, Resource::Memory) => (Class::Cpu, Some(Cause::MemoryPressure)),
        (_, Resource::Disk) => (Class::Io, None),
        (_, Resource::Remote) => (Class::Io, Some(Cause::RemoteService)),
        (Purpose::Result, _) => (Class::Cpu, Some(Cause::WaitsForProcess)),
        (Purpose::Lock, _) => (Class::Cpu, Some(Cause::WaitsForThread)),
        (Purpose::Report, _) if by == Some(Edge::Writes) => (Class::Io, Some(Cause::OutputBlocked)),
        (Purpose::Collective, _) => (Class::Gpu, Some(Cause::Communication)),
        (Purpose::Copy, _) => (Class::Gpu, Some(Cause::CopyBound)),
        (Purpose::Gpu, _) => (Class::Cpu, Some(Cause::HostDeviceSync)),
        (Purpose::Model, _) if window.gpu.is_none() => (Class::Cpu, Some(Cause::CpuTraining)),
        (Purpose::Model | Purpose::Python | Purpose::Report, _) => (Class::Cpu, Some(Cause::MainThread)),
        (Purpose::Sleep, _) => (Class::Cpu, Some(Cause::Sleeps)),
        (Purpose::Request, _) => (Class::Idle, None),
        (Purpose::Unknown, Resource::Running) => (Class::Cpu, None),
        (Purpose::Batch | Purpose::Unknown, _) => (Class::Unknown, None),
    }
}
