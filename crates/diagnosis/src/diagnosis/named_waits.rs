//! What the loop waits for outside data and the GPU, by the wait chain: the names of the fifth kind of its time.

use std::collections::BTreeSet;

use super::features::{Chain, ChainPath, take_waits};
use super::loop_parts::{LoopWait, WaitFor};
use trainmon_waits::taxonomy::Purpose;
use trainmon_waits::time_split::TimeSplit;

/// The waits of a chain that have a name, the longest first. They are parts of the fifth kind of the split. A wait that the
/// verdict blames was followed, while the split may have guessed: if it is longer than that kind, the other waits give way.
pub(super) fn named(shares: &mut TimeSplit, chain: &Chain, blamed: Option<Purpose>) -> Vec<LoopWait> {
    let blamed = blamed.and_then(of_purpose);
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

fn of_purpose(purpose: Purpose) -> Option<WaitFor> {
    Some(match purpose {
        Purpose::FileLock => WaitFor::Lock,
        Purpose::InterpreterLock => WaitFor::InterpreterLock,
        Purpose::Remote => WaitFor::Server,
        Purpose::Process => WaitFor::Process,
        Purpose::Thread => WaitFor::Thread,
        Purpose::Output => WaitFor::Reader,
        Purpose::Sleep => WaitFor::Sleep,
        Purpose::Request => WaitFor::Request,
        Purpose::Own | Purpose::Loads | Purpose::Saves | Purpose::Batch | Purpose::Storage => return None,
        Purpose::Gpu | Purpose::Unknown => return None,
    })
}

/// What a path of the chain is a wait for. One that leads to another rank is a wait for that, however it gets there.
fn of_path(way: &ChainPath, ranks: &BTreeSet<u32>) -> Option<WaitFor> {
    let on = of_purpose(way.part);
    let leads_to_rank = way.hops.iter().any(|hop| ranks.contains(&hop.pid));
    let may_be = on.is_some() || way.part == Purpose::Unknown;
    if leads_to_rank && may_be { Some(WaitFor::Ranks) } else { on }
}

fn ways_of(chain: &Chain, on: WaitFor) -> impl Iterator<Item = &ChainPath> {
    chain.ways.iter().filter(move |way| of_path(way, &chain.ranks) == Some(on))
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
    (of_it >= ENDS_THERE * share_of(chain, on)).then_some(pid)
}

/// Waits with a smaller share of the loop's time stay with the other time.
const LEAST_NAMED: f64 = 0.01;
/// A process is named for a wait if this part of it ends there.
const ENDS_THERE: f64 = 0.8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::loop_parts::parts;
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
