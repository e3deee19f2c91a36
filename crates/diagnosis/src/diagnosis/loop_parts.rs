//! The parts of the loop's time under the names that people read: the five kinds of [`LoopActivity`], and instead of the fifth, as
//! far as the wait chain shows it, what the loop waits for. Screen, text, reports and docs all take them from here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::features::{Chain, ChainPath};
use trainmon_base::text::named_enum;
use trainmon_waits::taxonomy::Purpose;
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// Makes [`WaitFor`] from the list: variant, word of the JSON, and what is waited for, with an article and in one word.
macro_rules! waits_for {
    ($($(#[$doc:meta])+ $Wait:ident $key:literal $what:literal $short:literal)+) => {
        named_enum! {
            /// What the loop waits for, if that is neither data nor the GPU. Its word is that of the JSON.
            pub enum WaitFor { $($(#[$doc])+ $Wait = $key,)+ }
        }

        impl WaitFor {
            /// With its article: "a lock".
            fn what(self) -> &'static str {
                match self { $(Self::$Wait => $what,)+ }
            }

            /// One word, for legends with little room.
            pub fn short(self) -> &'static str {
                match self { $(Self::$Wait => $short,)+ }
            }
        }
    };
}

waits_for! {
    /// A lock on a file.
    Lock "lock" "a lock" "lock"
    /// Python's interpreter lock.
    InterpreterLock "interpreter-lock" "the GIL" "GIL"
    /// An answer over the network.
    Server "server" "a server" "server"
    /// Another process that works on request.
    Process "process" "another process" "process"
    /// Another thread of its process.
    Thread "thread" "another thread" "thread"
    /// The other ranks of a distributed run.
    Ranks "ranks" "other ranks" "ranks"
    /// The reader of its output.
    Reader "reader" "the reader of its output" "reader"
    /// A disk or memory.
    Disk "disk" "a disk" "disk"
    /// A sleep of its own.
    Sleep "sleep" "a sleep to end" "sleep"
    /// A request from a client.
    Request "request" "requests" "requests"
}

/// A part of the loop's time outside the first four kinds, with its name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoopWait {
    /// What it waits for.
    #[serde(rename = "for")]
    pub on: WaitFor,
    /// The process, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Share of the loop's time, 0–1.
    pub share: f64,
}

/// A part of the loop's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopPart {
    /// One of the five kinds; the fifth is what has no other name.
    Activity(LoopActivity),
    /// A wait for this, and which process if it is one.
    Wait(WaitFor, Option<u32>),
}

impl LoopPart {
    /// What the loop is doing: "waiting for a lock".
    pub fn word(self) -> Cow<'static, str> {
        match self {
            Self::Activity(activity) => activity.word().into(),
            Self::Wait(WaitFor::Sleep, _) => "sleeping".into(),
            Self::Wait(_, Some(pid)) => format!("waiting for process {pid}").into(),
            Self::Wait(on, None) => format!("waiting for {}", on.what()).into(),
        }
    }

    /// The same as a verb: "waits for a lock".
    pub fn verb(self) -> Cow<'static, str> {
        match self {
            Self::Activity(activity) => activity.verb().into(),
            Self::Wait(WaitFor::Sleep, _) => "sleeps".into(),
            Self::Wait(_, Some(pid)) => format!("waits for process {pid}").into(),
            Self::Wait(on, None) => format!("waits for {}", on.what()).into(),
        }
    }

    /// One word, for legends with little room; a process has its number.
    pub fn short(self) -> Cow<'static, str> {
        match self {
            Self::Activity(activity) => activity.short().into(),
            Self::Wait(on, Some(pid)) => format!("{} {pid}", on.short()).into(),
            Self::Wait(on, None) => on.short().into(),
        }
    }

    /// The kind of time that it is a part of.
    pub fn activity(self) -> LoopActivity {
        match self {
            Self::Activity(activity) => activity,
            Self::Wait(..) => LoopActivity::Other,
        }
    }
}

/// Parts below this are rounded to nothing, and not listed.
pub const LEAST_LISTED: f64 = 0.005;

impl Verdict {
    /// Where the loop's time went over the verdict's window, the largest part first; they add up to what was seen. Parts that
    /// would be shown as 0% are left out. Empty if nothing is known.
    pub fn loop_parts(&self) -> Vec<(LoopPart, f64)> {
        self.shares.map_or_else(Vec::new, |shares| parts(&shares, &self.waits))
    }

    /// The part of the loop's time that has the name of a wait, 0–1.
    pub fn named_waits(&self) -> f64 {
        self.waits.iter().map(|wait| wait.share).sum()
    }
}

/// The parts of a split, the fifth kind divided by what is waited for.
pub fn parts(shares: &TimeSplit, waits: &[LoopWait]) -> Vec<(LoopPart, f64)> {
    let named: f64 = waits.iter().map(|wait| wait.share).sum();
    let activities = shares.iter().map(|(activity, share)| match activity {
        LoopActivity::Other => (LoopPart::Activity(activity), share - named),
        _ => (LoopPart::Activity(activity), share),
    });
    let waits = waits.iter().map(|wait| (LoopPart::Wait(wait.on, wait.pid), wait.share));
    let mut parts: Vec<_> =
        activities.chain(waits).filter(|(_, share)| share.is_finite() && *share >= LEAST_LISTED).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

/// The waits of a chain that have a name, the longest first. They are parts of the fifth kind of the split. A wait that the
/// verdict blames was followed, while the split may have guessed: if it is longer than that kind, the other waits give way.
pub(super) fn named(shares: &mut TimeSplit, chain: &Chain, blamed: Option<Purpose>) -> Vec<LoopWait> {
    let blamed = blamed.and_then(WaitFor::of_purpose);
    let is_certain = |on: WaitFor| Some(on) == blamed || on == WaitFor::Request;
    let mut waits = WaitFor::ALL.map(|on| (on, share_of(chain, on)));
    waits.sort_by_key(|(on, _)| !is_certain(*on));
    let mut left = shares.other.max(0.0);
    let mut named = Vec::new();
    for (on, share) in waits {
        if is_certain(on) {
            let taken = take_waits(shares, share - left);
            shares.other += taken;
            left += taken;
        } else if on == WaitFor::Thread && share > left {
            // Part of it is a wait for the batches that a thread makes.
            continue;
        }
        let share = share.min(left);
        if share >= LEAST_NAMED {
            left -= share;
            named.push(LoopWait { on, pid: process_of(chain, on), share });
        }
    }
    named.sort_by(|a, b| b.share.total_cmp(&a.share));
    named
}

/// Takes a share from the waits for data, then from those for the GPU; returns how much there was.
pub(super) fn take_waits(shares: &mut TimeSplit, wanted: f64) -> f64 {
    let mut missing = wanted.max(0.0);
    for activity in [LoopActivity::InputWait, LoopActivity::DeviceSync] {
        let part = missing.min(shares[activity].max(0.0));
        shares[activity] -= part;
        missing -= part;
    }
    wanted.max(0.0) - missing
}

impl WaitFor {
    fn of_purpose(purpose: Purpose) -> Option<Self> {
        Some(match purpose {
            Purpose::FileLock => Self::Lock,
            Purpose::InterpreterLock => Self::InterpreterLock,
            Purpose::Remote => Self::Server,
            Purpose::Process => Self::Process,
            Purpose::Thread => Self::Thread,
            Purpose::Output => Self::Reader,
            Purpose::Sleep => Self::Sleep,
            Purpose::Request => Self::Request,
            Purpose::Own | Purpose::Loads | Purpose::Saves | Purpose::Batch | Purpose::Storage => return None,
            Purpose::Gpu | Purpose::Unknown => return None,
        })
    }

    /// What a path of the chain is a wait for. One that leads to another rank is a wait for that, however it gets there.
    fn of_path(way: &ChainPath, ranks: &BTreeSet<u32>) -> Option<Self> {
        let on = Self::of_purpose(way.part);
        let leads_to_rank = way.hops.iter().any(|hop| ranks.contains(&hop.pid));
        let may_be = on.is_some() || way.part == Purpose::Unknown;
        if leads_to_rank && may_be { Some(Self::Ranks) } else { on }
    }
}

fn ways_of(chain: &Chain, on: WaitFor) -> impl Iterator<Item = &ChainPath> {
    chain.ways.iter().filter(move |way| WaitFor::of_path(way, &chain.ranks) == Some(on))
}

fn share_of(chain: &Chain, on: WaitFor) -> f64 {
    ways_of(chain, on).map(|way| way.share).sum()
}

/// The one process that nearly all of such a wait ends at.
fn process_of(chain: &Chain, on: WaitFor) -> Option<u32> {
    if on != WaitFor::Process {
        return None;
    }
    let last = |way: &ChainPath| way.hops.last().filter(|hop| hop.pid != chain.process.pid).map(|hop| hop.pid);
    let most = ways_of(chain, on).max_by(|a, b| a.share.total_cmp(&b.share))?;
    let pid = last(most)?;
    let of_it: f64 = ways_of(chain, on).filter(|way| last(way) == Some(pid)).map(|way| way.share).sum();
    (of_it >= NEARLY_ALL * share_of(chain, on)).then_some(pid)
}

/// Waits with a smaller share of the loop's time stay with the other time.
const LEAST_NAMED: f64 = 0.01;
/// A process is named for a wait if this part of it ends there.
const NEARLY_ALL: f64 = 0.8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use trainmon_waits::taxonomy::End;

    fn chain(waits: &[(Purpose, f64)]) -> Chain {
        let way = |&(part, share): &(Purpose, f64)| ChainPath {
            hops: Vec::new(),
            end: End::Unknown,
            name: None,
            lock: None,
            share,
            lost: share,
            part,
        };
        Chain { ways: waits.iter().map(way).collect(), ..Chain::default() }
    }

    #[test]
    fn a_wait_has_its_name_and_the_rest_is_other() {
        let mut shares = TimeSplit { device_sync: 0.2, other: 0.8, ..TimeSplit::default() };
        let chain = chain(&[(Purpose::FileLock, 0.68), (Purpose::Unknown, 0.12), (Purpose::Gpu, 0.2)]);
        let waits = named(&mut shares, &chain, Some(Purpose::FileLock));
        let told: Vec<_> = parts(&shares, &waits).into_iter().map(|(part, share)| (part.word(), share)).collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], ("waiting for a lock".into(), 0.68));
        assert_eq!((&*told[1].0, &*told[2].0), ("waiting for the GPU", "other"));
        assert!((told[2].1 - 0.12).abs() < 1e-9);
    }

    #[test]
    fn a_blamed_wait_takes_what_the_split_had_guessed() {
        let mut shares = TimeSplit { input_wait: 0.1, host_busy: 0.3, other: 0.6, ..TimeSplit::default() };
        let waits = named(&mut shares, &chain(&[(Purpose::Process, 0.65)]), Some(Purpose::Process));
        assert_eq!(waits.first().map(|wait| wait.share), Some(0.65));
        assert!((shares.input_wait - 0.05).abs() < 1e-9 && (shares.total() - 1.0).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn a_thread_that_makes_batches_is_no_wait_of_its_own() {
        let mut shares = TimeSplit { input_wait: 0.7, other: 0.3, ..TimeSplit::default() };
        let chain = chain(&[(Purpose::Thread, 0.75), (Purpose::InterpreterLock, 0.2)]);
        let waits = named(&mut shares, &chain, None);
        let told: Vec<_> = waits.iter().map(|wait| (wait.on, wait.share)).collect();
        assert_eq!(told, [(WaitFor::InterpreterLock, 0.2)]);
        assert_eq!(shares.input_wait, 0.7);
    }

    proptest! {
        #[test]
        fn parts_add_up_whatever_the_chain_says(
            split in prop::array::uniform5(0.0f64..1.0),
            waits in prop::array::uniform12(0.0f64..1.0),
            blamed in 0usize..9,
        ) {
            const ALL: [Purpose; 12] = [
                Purpose::FileLock, Purpose::InterpreterLock, Purpose::Remote, Purpose::Process, Purpose::Thread,
                Purpose::Output, Purpose::Sleep, Purpose::Request, Purpose::Own, Purpose::Gpu, Purpose::Batch,
                Purpose::Unknown,
            ];
            let split = TimeSplit::from(split);
            prop_assume!(split.total() > 0.01);
            let mut shares = split.shares_of(split.total()).unwrap();
            let all: f64 = waits.iter().sum();
            let waits: Vec<_> = ALL.into_iter().zip(waits.map(|share| share / all.max(1.0))).collect();
            let waits = named(&mut shares, &chain(&waits), ALL.get(blamed).copied());
            prop_assert!((shares.total() - 1.0).abs() < 1e-9);
            let parts = parts(&shares, &waits);
            let sum: f64 = parts.iter().map(|(_, share)| share).sum();
            prop_assert!((sum - 1.0).abs() < 0.03, "{parts:?}");
            prop_assert!(shares.values().into_iter().all(|share| share >= -1e-9));
        }
    }
}
