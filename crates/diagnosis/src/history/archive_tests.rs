//! Whatever is pushed is kept within the limits, found again and given back.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use trainmon_profiles::account::KernelRow;
use trainmon_rates::frame::ProcessRates;

/// One tick of a made-up run.
#[derive(Debug, Clone)]
struct MadeUpTick {
    /// How far the clock moves; it may go backwards.
    by_ns: i64,
    /// Share of that time which the frame covers.
    covers: f64,
    gap: bool,
    processes: usize,
    value: f64,
    verdict: (usize, Option<u8>),
}

fn tick() -> impl Strategy<Value = MadeUpTick> {
    let by_ns = prop_oneof![20 => 100_000_000..20_000_000_000i64, 2 => Just(0i64), 1 => any::<i64>()];
    let verdict = (0..3usize, option::of(0..2u8));
    let covers = prop_oneof![4 => Just(1.0), 1 => 0.0..1.0f64, 1 => Just(f64::NAN)];
    // What an f32 can hold, short of where rounding makes it infinite; NaN and the infinities among them.
    let value = any::<f32>().prop_map(|v| f64::from(if v.abs() > 1e38 { v / 16.0 } else { v }));
    (by_ns, covers, any::<bool>(), 0..20usize, value, verdict).prop_map(
        |(by_ns, covers, gap, processes, value, verdict)| MadeUpTick {
            by_ns,
            covers,
            gap,
            processes,
            value,
            verdict,
        },
    )
}

/// What was pushed: the frame, and the verdict that stood at it.
type Pushed = (Arc<Frame>, Arc<Verdict>);

fn run(archive: &mut Archive, ticks: &[MadeUpTick], mut after_each: impl FnMut(&Archive)) -> Vec<Pushed> {
    let mut now = 1_000_000_000_000u64;
    let mut pushed = Vec::new();
    for (n, tick) in ticks.iter().enumerate() {
        now = now.saturating_add_signed(tick.by_ns);
        let processes =
            ProcessRates { cpu_pct: Some(tick.value), command: "x".repeat(50).into(), ..Default::default() };
        let frame = Frame {
            sequence: n as u64,
            monotonic_ns: now,
            seconds: tick.by_ns.max(0) as f64 / 1e9 * tick.covers,
            gap: tick.gap,
            state: 'S',
            own_cpu_pct: Some(tick.value),
            processes: vec![processes; tick.processes],
            ..Frame::default()
        };
        let (class, cause) = tick.verdict;
        let cause = cause.map(|c| Cause::ALL[usize::from(c) % Cause::ALL.len()]);
        let verdict = Arc::new(Verdict { class: Class::ALL[class], cause, ..Verdict::default() });
        let frame = Arc::new(frame);
        archive.push(Arc::clone(&frame), Arc::clone(&verdict), now);
        after_each(archive);
        pushed.push((frame, verdict));
    }
    pushed
}

/// Positions at which class or cause differ from those of the moment before.
fn changes(pushed: &[Pushed]) -> Vec<u64> {
    let differ = |n: &usize| {
        let (before, after) = (&pushed[n - 1].1, &pushed[*n].1);
        before.class != after.class || before.cause != after.cause
    };
    (1..pushed.len()).filter(differ).map(|n| n as u64).collect()
}

fn json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap()
}

/// The same but for the digits of floats that packing rounds away.
fn near(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() || y.is_f64() => match (x.as_f64(), y.as_f64()) {
            (Some(x), Some(y)) => (x - y).abs() <= y.abs() * 2e-5 + 1e-35,
            _ => false,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| near(a, b)))
        }
        _ => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_comes_is_kept_within_the_limits_and_given_back(
        ticks in vec(tick(), 1..150), span_s in 0..600u64, bytes in 0..400_000usize,
    ) {
        let limits = Limits { span: Duration::from_secs(span_s), bytes };
        let mut archive = Archive::new(limits);
        let pushed = run(&mut archive, &ticks, |archive| {
            assert!(archive.bytes() <= bytes || archive.len() == 1, "{} bytes", archive.bytes());
            let ids: Vec<u64> = archive.stamps.iter().map(|s| s.id.0).collect();
            assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            let now = archive.last().unwrap().monotonic_ns;
            let newest = archive.series.back().copied().unwrap_or_default();
            let series = archive.stamps.iter().filter(|s| s.id >= newest);
            assert!(series.clone().is_sorted_by_key(|s| s.monotonic_ns));
            let old = series.filter(|s| u128::from(now - s.monotonic_ns) > limits.span.as_nanos()).count();
            assert!(old < BLOCK, "{old} are too old");
        });
        let first = archive.first().unwrap().id.0;
        prop_assert_eq!(archive.last().unwrap().id.0 + 1, pushed.len() as u64);
        let changes: Vec<u64> = changes(&pushed).into_iter().filter(|id| *id >= first).collect();
        for (n, (frame, verdict)) in pushed.iter().enumerate() {
            let id = MomentId(n as u64);
            prop_assert_eq!(archive.stamp(id).is_some(), id.0 >= first);
            let Some(moment) = archive.load(id) else {
                prop_assert!(id.0 < first);
                continue;
            };
            prop_assert!(near(&json(&*moment.frame), &json(&**frame)));
            prop_assert!(near(&json(&*moment.verdict), &json(&**verdict)));
            prop_assert_eq!((moment.id, moment.since_ns), (id, frame.monotonic_ns));
            let stamp = archive.stamp(id).unwrap();
            prop_assert_eq!((stamp.monotonic_ns, stamp.gap), (frame.monotonic_ns, frame.gap));
            prop_assert_eq!(stamp.class, verdict.class);
            prop_assert_eq!(stamp.cause, verdict.cause);
            let next = changes.iter().find(|c| **c > id.0);
            prop_assert_eq!(archive.change(id, true), next.map(|c| MomentId(*c)));
            let before = changes.iter().rev().find(|c| **c < id.0);
            prop_assert_eq!(archive.change(id, false), before.map(|c| MomentId(*c)));
        }
    }

    #[test]
    fn a_time_finds_the_moment_that_holds_it_or_the_nearest(ticks in vec(tick(), 1..60), at in any::<f64>()) {
        let mut archive = Archive::new(Limits::default());
        run(&mut archive, &ticks, |_| {});
        let newest = archive.series.back().copied().unwrap_or_default();
        let series: Vec<&Stamp> = archive.stamps.iter().filter(|s| s.id >= newest).collect();
        let (from, to) = (series[0].monotonic_ns, series[series.len() - 1].monotonic_ns);
        let inside = from + ((to - from) as f64 * at.fract().abs().min(1.0)) as u64;
        for ns in [inside, from, to, 0, u64::MAX] {
            let found = archive.stamp(archive.at(ns).unwrap()).unwrap();
            let holds = |s: &&&Stamp| {
                let length = (s.seconds.max(0.0) * 1e9) as u64;
                s.monotonic_ns.saturating_sub(length) < ns && ns <= s.monotonic_ns
            };
            let nearest = series.iter().map(|s| s.monotonic_ns.abs_diff(ns)).min().unwrap();
            match series.iter().find(holds) {
                Some(holder) => prop_assert_eq!(found.monotonic_ns, holder.monotonic_ns),
                None => prop_assert_eq!(found.monotonic_ns.abs_diff(ns), nearest),
            }
        }
    }

    #[test]
    fn steps_stay_inside(ticks in vec(tick(), 1..60), id in any::<u64>(), by in any::<i64>()) {
        let mut archive = Archive::new(Limits { bytes: 20_000, ..Limits::default() });
        run(&mut archive, &ticks, |_| {});
        for id in [MomentId(id), archive.last().unwrap().id] {
            for by in [by, -1, 1] {
                let stepped = archive.step(id, by).unwrap();
                prop_assert!(archive.stamp(stepped).is_some());
            }
        }
    }
}

#[test]
fn nothing_is_found_in_an_archive_of_nothing() {
    let archive = Archive::new(Limits::default());
    assert!(
        archive.is_empty() && archive.latest().is_none() && archive.first().is_none() && archive.last().is_none()
    );
    assert!(archive.at(7).is_none() && archive.step(MomentId(0), 1).is_none());
    assert!(archive.change(MomentId(0), true).is_none() && archive.load(MomentId(0)).is_none());
}

#[test]
fn an_hour_at_ten_a_second_fits_and_an_hourly_moment_too() {
    let step = |ns: u64, count: u64| {
        let mut archive = Archive::new(Limits::default());
        for n in 0..count {
            let frame = Frame { monotonic_ns: n * ns, seconds: ns as f64 / 1e9, ..Frame::default() };
            archive.push(frame.into(), Arc::default(), 0);
        }
        archive
    };
    let fast = step(100_000_000, 40_000);
    assert!((36_001..36_001 + BLOCK).contains(&fast.len()), "{}", fast.len());
    let slow = step(3_600_000_000_000, 100);
    assert!((2..=1 + BLOCK).contains(&slow.len()), "{}", slow.len());
}

#[test]
fn a_damaged_block_gives_nothing() {
    let mut archive = Archive::new(Limits::default());
    for n in 0..60u64 {
        archive.push(Frame { sequence: n, monotonic_ns: n, ..Frame::default() }.into(), Arc::default(), 0);
    }
    let whole = archive.blocks[0].packed.clone();
    let end = *archive.blocks[0].ends.last().unwrap();
    for ends in [vec![], vec![9, 3, end]] {
        let block = Block { ends, packed: whole.clone() };
        for place in 0..3 {
            assert!(block.load(place, MomentId(0)).is_none());
        }
    }
    let mut broken = whole;
    broken.truncate(7);
    assert!(Block { ends: vec![end], packed: broken }.load(0, MomentId(0)).is_none());
}

#[test]
fn times_are_looked_up_in_the_series_of_a_moment() {
    let mut archive = Archive::new(Limits::default());
    // Two boots: the clock of the first is far ahead of that of the second.
    for second in (1000..1010).chain(5..15) {
        let frame = Frame { monotonic_ns: second * 1_000_000_000, seconds: 1.0, ..Frame::default() };
        archive.push(frame.into(), Arc::default(), 0);
    }
    let at = |id: u64, second: u64| archive.near(MomentId(id), second * 1_000_000_000).unwrap().0;
    assert_eq!([at(4, 1002), at(4, 0), at(4, 9999)], [2, 0, 9]);
    assert_eq!([at(12, 8), at(12, 0), at(12, 9999)], [13, 10, 19]);
    assert_eq!(archive.at(9_999_000_000_000), archive.last().map(|last| last.id));
}

#[test]
fn the_account_of_a_profile_is_kept_once_and_found_at_each_moment_after_it() {
    let account = |window_ms: f64| {
        let row = KernelRow { name: "x".repeat(4000), ..KernelRow::default() };
        Arc::new(ProfileAccount { window_ms, kernels: vec![row], ..ProfileAccount::default() })
    };
    let filled = |accounts: &[(u64, Arc<ProfileAccount>)], until: u64| {
        let mut archive = Archive::new(Limits::default());
        for second in 0..until {
            let frame = Frame { monotonic_ns: second * 1_000_000_000, ..Frame::default() };
            let profile = accounts.iter().rev().find(|(from, _)| *from <= second).map(|(_, one)| Arc::clone(one));
            archive.push(frame.into(), Verdict { profile, ..Verdict::default() }.into(), 0);
        }
        archive
    };
    let archive = filled(&[(20, account(1.0)), (100, account(2.0))], 200);
    let of =
        |second| archive.load(MomentId(second)).unwrap().verdict.profile.as_ref().map(|account| account.window_ms);
    assert_eq!(
        [0, 19, 20, 99, 100, 198, 199].map(of),
        [None, None, Some(1.0), Some(1.0), Some(2.0), Some(2.0), Some(2.0)]
    );
    assert!(archive.bytes() < filled(&[], 200).bytes() + 500, "not in the blocks");
    // Of many, the newest stay.
    let many: Vec<_> = (0..100).map(|nth| (nth, account(nth as f64))).collect();
    let archive = filled(&many, 101);
    let kept = (0..100).filter(|second| archive.load(MomentId(*second)).unwrap().verdict.profile.is_some());
    assert_eq!(kept.collect::<Vec<_>>(), (100 - ACCOUNTS as u64..100).collect::<Vec<_>>());
}
