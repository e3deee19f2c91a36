//! Ranks whose delays, clocks and collectives are known.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::ranks_account::{CollectiveKind, MatchedCollectiveRow};
use crate::read_rank;

/// 2026-01-01, nanoseconds since 1970.
const NEW_YEAR: i64 = 1_767_225_600_000_000_000;

/// A trace in the making. Times are microseconds of the run, on a clock that all ranks share; the trace has them on its own.
struct Fake {
    rank: u32,
    of: u32,
    /// By how much its clock is ahead, nanoseconds.
    ahead: i64,
    /// The time of day of its time 0, before that.
    base: i64,
    events: String,
    links: u32,
}

impl Fake {
    fn new(rank: u32, of: u32) -> Self {
        Self { rank, of, ahead: 0, base: NEW_YEAR - 1_000_000_000_000, events: String::new(), links: 0 }
    }

    fn event(&mut self, category: &str, name: &str, at: (i64, i64), place: (u32, u32), args: &str) {
        let ns = NEW_YEAR + at.0 * 1000 + self.ahead - self.base;
        let (pid, tid) = place;
        let comma = if self.events.is_empty() { "" } else { "," };
        write!(
            self.events,
            r#"{comma}{{"ph":"X","cat":"{category}","name":"{name}","ts":{}.{:03},"dur":{},"pid":{pid},"tid":{tid},"args":{{{args}}}}}"#,
            ns / 1000,
            ns % 1000,
            at.1 - at.0
        )
        .unwrap();
    }

    /// Something that the loop does.
    fn host(&mut self, category: &str, name: &str, at: (i64, i64)) {
        self.event(category, name, at, (100, 100), "");
    }

    fn kernel(&mut self, name: &str, at: (i64, i64), args: &str) {
        self.links += 1;
        let args = format!(r#""device":0,"stream":7,"correlation":{}{args}"#, self.links);
        self.event("kernel", name, at, (0, 7), &args);
    }

    /// An all-reduce of a million floats in the group of all.
    fn all_reduce(&mut self, at: (i64, i64), sequence: Option<u32>) {
        let sequence = sequence.map(|number| format!(r#","Seq":{number}"#)).unwrap_or_default();
        let args = format!(
            r#","Collective name":"allreduce","In msg nelems":1000000,"Out msg nelems":1000000,"Group size":{},"dtype":"Float","Process Group Name":"0"{sequence}"#,
            self.of
        );
        self.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)", at, &args);
    }

    fn read(self) -> (String, RankTrace) {
        let Self { rank, of, base, events, .. } = self;
        let json = format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":{of}}},"baseTimeNanoseconds":{base},"traceEvents":[{events}]}}"#
        );
        (format!("rank{rank}.json"), read_rank(json.as_bytes()).unwrap())
    }
}

/// Begins of steps that are not equally long.
fn steps(count: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..count).map(|at| (at * 100_000 + at * at * 700, (at + 1) * 100_000 + (at + 1) * (at + 1) * 700))
}

/// Four ranks with six steps each: they compute for 20 ms, rank 3 for 25 ms; then comes an all-reduce of 2 ms.
fn computing(change: impl Fn(&mut Fake)) -> Vec<(String, RankTrace)> {
    let rank = |rank: u32| {
        let mut fake = Fake::new(rank, 4);
        change(&mut fake);
        for (begin, end) in steps(6) {
            let ready = begin + if rank == 3 { 25_000 } else { 20_000 + i64::from(rank) };
            fake.host("user_annotation", &format!("ProfilerStep#{begin}"), (begin, end));
            fake.host("cuda_runtime", "cudaLaunchKernel", (begin, begin + 10));
            fake.kernel("gemm", (begin, ready), "");
            fake.all_reduce((ready, begin + 27_000), None);
        }
        fake.read()
    };
    (0..4).map(rank).collect()
}

fn close(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() <= 1e-6 + wanted.abs() * 1e-3
}

#[test]
fn the_rank_that_computes_longer_is_the_straggler() {
    let account = across(&computing(|_| ())).unwrap();
    assert_eq!((account.matched, account.unmatched, account.skewed), (6, 0, 6));
    assert_eq!(account.notes, Vec::<String>::new());
    assert_eq!((account.world_size, account.clock_scatter_us), (Some(4), Some(0.0)));
    let late = account.straggler.as_ref().unwrap();
    assert_eq!((late.index, late.rank, late.last_in, late.share), (3, 3, 6, 1.0));
    // The median of the others enters after 20.001 ms.
    assert!(close(late.late_mean_ms, 4.999) && close(late.late_ms, 6.0 * 4.999), "{late:?}");
    assert!(close(late.late_per_step_ms.unwrap(), 4.999), "{late:?}");
    assert_eq!(late.doing.len(), 1);
    assert!(late.doing[0].activity == RankActivity::Compute && close(late.doing[0].ms, 6.0 * 4.999), "{late:?}");
    assert_eq!(late.at, None);
    let words = "rank 3 enters 6 of 6 collectives last, 5.0 ms after the others in each step; meanwhile it computes";
    assert_eq!(account.straggler_words().unwrap(), words);

    let [first, _, _, last] = &account.ranks[..] else { panic!("four ranks") };
    assert!(close(first.wait_ms, 6.0 * 5.0) && close(first.exposed_wait_ms, 6.0 * 5.0), "{first:?}");
    assert!(close(first.late_ms, 0.0) && close(first.early_ms, 30.0) && first.last_in == 0, "{first:?}");
    assert!(close(last.late_ms, 30.0) && close(last.late_mean_ms, 5.0) && last.last_in == 6, "{last:?}");
    assert!(last.wait_ms == 0.0 && last.early_ms == 0.0 && close(last.last_late_ms, 6.0 * 4.999), "{last:?}");
    let window = 600.0 + 36.0 * 0.7;
    assert!(close(first.window_ms, window) && close(first.compute, 120.0 / window), "{first:?}");
    assert!(close(first.exposed, 42.0 / window) && close(account.own, 12.0 / window), "{account:?}");
    assert!(
        close(account.skew, (30.0 + 29.994 + 29.988) / 4.0 / window) && account.exposed_skew <= account.skew,
        "{account:?}"
    );

    let [row] = &account.collectives[..] else { panic!("one kind") };
    assert_eq!(
        (row.kind, row.group.as_deref(), row.group_size),
        (Some(CollectiveKind::AllReduce), Some("0"), Some(4))
    );
    assert_eq!((row.count, row.ranks, row.bytes), (6, 4, Some(4_000_000)));
    assert!(close(row.own_ms, 12.0) && close(row.own_median_us, 2000.0) && close(row.skew_ms, 30.0), "{row:?}");
    // 4 MB in 2 ms; a rank of four moves 2 × 3/4 of it.
    assert!(close(row.algorithm_gb_per_s.unwrap(), 2.0) && close(row.bus_gb_per_s.unwrap(), 3.0), "{row:?}");
}

#[test]
fn clocks_are_set_by_the_ends() {
    let ahead = [0, 1_300_000, -2_000_000, 40_000_000];
    let account = across(&computing(|fake| fake.ahead = ahead[fake.rank as usize])).unwrap();
    let offsets: Vec<f64> = account.ranks.iter().map(|row| row.clock_offset_us.unwrap()).collect();
    assert_eq!(offsets, [0.0, 1_300.0, -2_000.0, 40_000.0]);
    assert!(close(account.straggler.unwrap().late_mean_ms, 4.999));
    // Without the time of day there is no offset to tell.
    let account = across(&computing(|fake| fake.base = NEW_YEAR - i64::from(fake.rank) * 7_000_000)).unwrap();
    assert!(account.ranks.iter().all(|row| row.clock_offset_us == Some(0.0)));
    let uptime = |fake: &mut Fake| (fake.base, fake.ahead) = (0, -NEW_YEAR + i64::from(fake.rank) * 7_000_000_000);
    let account = across(&computing(uptime)).unwrap();
    assert!(account.ranks.iter().all(|row| row.clock_offset_us.is_none()));
    assert!(close(account.straggler.unwrap().late_mean_ms, 4.999));
}

#[test]
fn ranks_of_one_machine_have_one_clock() {
    let mut ranks = computing(|fake| fake.ahead = i64::from(fake.rank) * 1_000);
    for (_, rank) in &mut ranks {
        rank.host = Some("node".into());
    }
    let account = across(&ranks).unwrap();
    assert!(account.ranks.iter().all(|row| row.clock_offset_us == Some(0.0)), "{account:?}");
    // What differs by more is another machine of the same name.
    let mut ranks = computing(|fake| fake.ahead = i64::from(fake.rank) * 1_000_000_000);
    for (_, rank) in &mut ranks {
        rank.host = Some("localhost".into());
    }
    assert_eq!(across(&ranks).unwrap().ranks[3].clock_offset_us, Some(3_000_000.0));
}

#[test]
fn a_rank_that_waits_for_data_is_said_to() {
    let rank = |rank: u32| {
        let mut fake = Fake::new(rank, 2);
        for (begin, end) in steps(5) {
            let data = begin + if rank == 0 { 8_000 } else { 500 };
            fake.host("user_annotation", &format!("ProfilerStep#{begin}"), (begin, end));
            fake.host(
                "user_annotation",
                "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                (begin, data),
            );
            fake.host("cuda_runtime", "cudaLaunchKernel", (data, data + 10));
            fake.kernel("gemm", (data, data + 3_000), "");
            fake.all_reduce((data + 3_000, begin + 12_000), None);
        }
        fake.read()
    };
    let account = across(&[rank(1), rank(0)]).unwrap();
    assert_eq!(account.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), [0, 1]);
    let late = account.straggler.as_ref().unwrap();
    assert_eq!((late.index, late.rank, late.last_in), (0, 0, 5));
    assert!(close(late.late_mean_ms, 7.5), "{late:?}");
    // From 3.5 to 8 ms of each step it waits, then it computes.
    assert!(late.doing[0].activity == RankActivity::InputWait && close(late.doing[0].ms, 5.0 * 4.5), "{late:?}");
    assert!(account.straggler_words().unwrap().contains("meanwhile it waits for data"));
    // The account that is shown is the straggler's.
    let shown = side_by_side(vec![rank(1), rank(0)]).unwrap();
    assert_eq!((shown.rank, shown.file.as_deref()), (Some(0), Some("rank0.json")));
    assert_eq!(shown.across_ranks, Some(account));
}

/// Ranks that enter twelve all-reduces so late, and leave them so late, microseconds: by rank and collective.
fn late_by(of: u32, late: impl Fn(u32, i64) -> i64, ends: impl Fn(u32, i64) -> i64) -> Vec<(String, RankTrace)> {
    let rank = |rank: u32| {
        let mut fake = Fake::new(rank, of);
        for (at, (begin, end)) in (0..).zip(steps(12)) {
            fake.host("user_annotation", &format!("ProfilerStep#{begin}"), (begin, end));
            fake.host("cuda_runtime", "cudaLaunchKernel", (begin, begin + 10));
            fake.all_reduce((begin + 5_000 + late(rank, at), begin + 60_000 + ends(rank, at)), None);
        }
        fake.read()
    };
    (0..of).map(rank).collect()
}

#[test]
fn ranks_that_are_late_in_turn_are_said_to_be() {
    let in_turn = |of: u32| {
        let account =
            across(&late_by(of, |rank, at| if at % i64::from(of) == i64::from(rank) { 30_000 } else { 0 }, |_, _| 0));
        let account = account.unwrap();
        assert_eq!((account.straggler.clone(), account.skewed), (None, 12));
        account.in_turn_words().unwrap()
    };
    assert_eq!(in_turn(2), "rank 0 enters 6 of 12 collectives last, rank 1 enters 6");
    let many = "rank 0 enters 2 of 12 collectives last, rank 1 enters 2, rank 2 enters 2, and 3 others";
    assert_eq!(in_turn(6), many);
    // One that is always late, and none at all.
    let one = across(&late_by(2, |rank, _| i64::from(rank) * 30_000, |_, _| 0)).unwrap();
    assert_eq!((one.straggler.as_ref().unwrap().rank, one.in_turn_words()), (1, None));
    assert_eq!(across(&late_by(2, |_, _| 0, |_, _| 0)).unwrap().in_turn_words(), None);
}

#[test]
fn what_the_clocks_do_not_tell_apart_is_not_late() {
    // One end in four lies 2 ms from the other: 1 ms from their middle.
    let ends = |rank: u32, at: i64| if at % 4 == 0 && rank == 0 { 2_000 } else { 0 };
    let account = across(&late_by(2, |rank, at| if rank == 0 && at == 3 { 1_500 } else { 0 }, ends)).unwrap();
    assert_eq!((account.clock_scatter_us, account.skewed, account.straggler), (Some(1_000.0), 0, None));
    // What is later than that is; a mean below the clocks' agreement is not said.
    let account = across(&late_by(2, |rank, at| if rank == 0 && at == 3 { 6_000 } else { 0 }, ends)).unwrap();
    assert_eq!(account.straggler.as_ref().unwrap().rank, 0);
    let words = account.straggler_words().unwrap();
    assert!(
        words.starts_with("rank 0 enters 1 of 12 collectives last, 6.0 ms after the others on average"),
        "{words}"
    );
}

/// Two ranks with 12 collectives, of which a trace may lack some. Rank 1 enters 1 ms late.
fn partial(kept: impl Fn(u32, i64) -> bool, numbered: bool, ahead: i64) -> Vec<(String, RankTrace)> {
    let rank = |rank: u32| {
        let mut fake = Fake::new(rank, 2);
        fake.ahead = i64::from(rank) * ahead;
        for (at, (begin, end)) in (0..).zip(steps(12)) {
            fake.host("user_annotation", &format!("ProfilerStep#{begin}"), (begin, end));
            fake.host("cuda_runtime", "cudaLaunchKernel", (begin, begin + 10));
            fake.kernel("gemm", (begin, begin + 5_000), "");
            if kept(rank, at) {
                let number = numbered.then(|| u32::try_from(at).unwrap() + 40);
                fake.all_reduce((begin + 5_000 + i64::from(rank) * 1_000, begin + 9_000), number);
            }
        }
        fake.read()
    };
    vec![rank(0), rank(1)]
}

#[test]
fn collectives_without_counterpart_are_left_out() {
    // Rank 1 lacks the first three and one in the middle, rank 0 the last one.
    let kept = |rank: u32, at: i64| if rank == 1 { at > 2 && at != 7 } else { at != 11 };
    for (numbered, ahead) in [(true, 0), (false, 0), (false, 30_000_000), (false, -900_000_000)] {
        let account = across(&partial(kept, numbered, ahead)).unwrap();
        assert_eq!((account.matched, account.unmatched), (7, 5), "{numbered} {ahead}");
        let late = account.straggler.as_ref().unwrap();
        assert!(late.rank == 1 && late.last_in == 7 && close(late.late_mean_ms, 1.0), "{late:?}");
        let note = "5 of 19 collectives have no counterpart in another trace and are left out.";
        assert_eq!(account.notes, [note]);
    }
    // As many on both sides, and not the same.
    let account = across(&partial(|rank, at| at != 2 + 6 * i64::from(rank), false, 0)).unwrap();
    assert_eq!((account.matched, account.unmatched), (10, 2));
    assert!(close(account.straggler.unwrap().late_mean_ms, 1.0));
}

#[test]
fn what_is_not_of_one_run_is_refused() {
    let text = |traces: &[(String, RankTrace)]| across(traces).unwrap_err().to_string();
    let mut ranks = computing(|fake| fake.of = if fake.rank == 2 { 8 } else { 4 });
    assert_eq!(
        text(&ranks),
        "rank0.json is of a run of 4 ranks and rank2.json of one of 8: give the traces of one run"
    );
    ranks = computing(|fake| fake.rank %= 3);
    let twice = "rank0.json and rank0.json are both of rank 0: give one trace of each rank, or compare the two with trainmon compare";
    assert_eq!(text(&ranks), twice);
    // Rank 0 has collectives in the first steps only, rank 1 in the last ones.
    let apart = partial(|rank, at| if rank == 0 { at < 4 } else { at > 8 }, true, 0);
    assert_eq!(
        text(&apart),
        "no collective of rank0.json is in rank1.json: give the traces of one run over the same time, or compare two runs: \
         trainmon compare rank0.json rank1.json"
    );
    // Of two files only one has any.
    let one = partial(|rank, _| rank == 0, false, 0);
    assert!(text(&one).starts_with("no collective of rank0.json is in rank1.json"));
    // Nothing says that they are ranks.
    let mut strangers = partial(|_, _| false, false, 0);
    for ((file, rank), name) in strangers.iter_mut().zip(["bert.json", "qwen.json"]) {
        (*file, rank.account.rank, rank.account.world_size) = (name.to_owned(), None, None);
    }
    assert_eq!(
        text(&strangers),
        "bert.json and qwen.json do not say which rank they are of, and have no collective: to compare two runs: \
         trainmon compare bert.json qwen.json"
    );
    let many: Vec<(String, RankTrace)> = (0..=RANKS_MAX).map(|_| (String::new(), RankTrace::default())).collect();
    assert_eq!(text(&many), "1025 traces are too many: at most 1024 ranks are compared");
}

#[test]
fn what_is_missing_is_said() {
    let none = partial(|_, _| false, false, 0);
    let account = across(&none).unwrap();
    assert_eq!((account.matched, account.straggler.clone()), (0, None));
    assert_eq!(account.notes, ["No trace has a collective: which rank waits for which is unknown."]);
    assert!(close(account.ranks[1].compute, 60.0 / account.ranks[1].window_ms));
    let mut some = computing(|_| ());
    some.truncate(3);
    some.extend(partial(|_, _| false, false, 0).into_iter().take(1).map(|(_, mut rank)| {
        (rank.account.rank, rank.account.world_size) = (Some(9), None);
        ("other.json".to_owned(), rank)
    }));
    some.remove(2);
    let account = across(&some).unwrap();
    assert_eq!(
        account.notes,
        [
            "3 of 4 ranks have a trace: another rank may enter later than these.",
            "1 of 3 traces have no collective.",
            "Ranks that share no collective with the first one keep their own clocks: 1."
        ]
    );
    assert_eq!(account.straggler, None, "all enter within 2 µs");
}

#[test]
fn ranks_are_numbered_by_their_files() {
    assert_eq!(number_in("/data/rank3/trace_rank-12.json.gz"), Some(12));
    assert_eq!(number_in("worker7_step_12.169.pt.trace.json"), Some(7));
    assert_eq!(
        (number_in("rank.json"), number_in("trace.json"), number_in("rank-99999999999.json")),
        (None, None, None)
    );
    let named = |names: [&str; 2]| {
        let mut ranks = partial(|_, _| true, false, 0);
        for ((file, rank), name) in ranks.iter_mut().zip(names) {
            (*file, rank.account.rank) = (name.to_owned(), None);
        }
        let account = across(&ranks).unwrap();
        (account.ranks.into_iter().map(|row| (row.rank, row.file)).collect::<Vec<_>>(), account.notes)
    };
    let (ranks, notes) = named(["rank5.json", "rank2.json"]);
    assert_eq!((ranks, notes), (vec![(2, "rank2.json".to_owned()), (5, "rank5.json".to_owned())], Vec::new()));
    let (ranks, notes) = named(["b.json", "a.json"]);
    assert_eq!(ranks, [(0, "b.json".to_owned()), (1, "a.json".to_owned())]);
    assert_eq!(notes, ["Some files do not say which rank they are of: the ranks are numbered in the order given."]);
}

#[test]
fn groups_are_matched_within_themselves() {
    // Tensor parallelism in pairs, and a group over all. Rank 2 is late into its pair's collectives.
    let rank = |rank: u32| {
        let mut fake = Fake::new(rank, 4);
        fake.ahead = i64::from(rank) * 3_000_000;
        let pair = rank / 2;
        for (begin, end) in steps(4) {
            fake.host("user_annotation", &format!("ProfilerStep#{begin}"), (begin, end));
            let args = format!(
                r#","Collective name":"_allgather_base","In msg nelems":1000,"Out msg nelems":2000,"Group size":2,"dtype":"BFloat16","Process Group Name":"{}","Process Group Ranks":"[{}, {}]""#,
                pair + 1,
                pair * 2,
                pair * 2 + 1
            );
            let ready = begin + 10_000 + if rank == 2 { 4_000 } else { 0 };
            fake.kernel(
                "ncclDevKernel_AllGather_RING_LL(args)",
                (ready, begin + 15_000 + i64::from(pair) * 500),
                &args,
            );
            fake.all_reduce((begin + 20_000, begin + 22_000), None);
        }
        fake.read()
    };
    let ranks: Vec<(String, RankTrace)> = (0..4).map(rank).collect();
    let account = across(&ranks).unwrap();
    assert_eq!((account.matched, account.unmatched, account.skewed), (12, 0, 4));
    let late = account.straggler.as_ref().unwrap();
    assert!(late.rank == 2 && late.last_in == 4 && close(late.late_mean_ms, 4.0), "{late:?}");
    assert_eq!(late.doing[0].activity, RankActivity::Operator);
    let gathers: Vec<&MatchedCollectiveRow> =
        account.collectives.iter().filter(|row| row.kind == Some(CollectiveKind::AllGather)).collect();
    assert_eq!(
        gathers.iter().map(|row| (row.count, row.ranks, row.bytes)).collect::<Vec<_>>(),
        [(4, 2, Some(4000)); 2]
    );
    let bus = gathers.iter().find(|row| row.group.as_deref() == Some("1")).unwrap().bus_gb_per_s.unwrap();
    assert!(close(bus, 4000.0 / 5_000_000.0 * 0.5), "{bus}");
    // One trace of each pair: what the pairs do cannot be compared.
    let account = across(&ranks.into_iter().step_by(2).collect::<Vec<_>>()).unwrap();
    assert_eq!((account.matched, account.straggler.clone()), (4, None));
    assert_eq!(account.notes[1], "8 collectives are of groups with a single trace and are left out.");
}

#[test]
fn collectives_of_the_host_count_without_a_gpu() {
    // The loop starts the collective, which runs in a thread of Gloo's. Rank 2 sleeps for 30 ms before.
    let rank = |rank: u32| {
        let mut fake = Fake::new(rank, 3);
        for (begin, end) in steps(6) {
            let ready = begin + 10_000 + if rank == 2 { 30_000 } else { 0 };
            fake.host("user_annotation", &format!("ProfilerStep#{begin}"), (begin, end));
            fake.host("python_function", "train.py(7): step", (begin, end));
            fake.host("cpu_op", "aten::mm", (begin, begin + 10_000));
            fake.host("python_function", "<built-in function sleep>", (begin + 10_000, ready));
            fake.host("cpu_op", "c10d::allreduce_", (ready, ready + 100));
            let shapes = r#""Input Dims":[[256,256]],"Input type":["float"]"#;
            fake.event("user_annotation", "gloo:all_reduce", (ready + 100, begin + 45_000), (100, 107), shapes);
        }
        fake.read()
    };
    let account = across(&(0..3).map(rank).collect::<Vec<_>>()).unwrap();
    let late = account.straggler.as_ref().unwrap();
    assert_eq!((late.rank, late.last_in, late.at.as_deref()), (2, 6, Some("train.py:7")));
    assert!(close(late.late_per_step_ms.unwrap(), 30.0), "{late:?}");
    assert!(
        late.doing[0].activity == RankActivity::Blocked && (178.0..180.0).contains(&late.doing[0].ms),
        "{late:?}"
    );
    let words = "rank 2 enters 6 of 6 collectives last, 30.0 ms after the others in each step; meanwhile it sleeps or waits for a \
                 lock (train.py:7)";
    assert_eq!(account.straggler_words().unwrap(), words);
    assert_eq!(account.collectives[0].bytes, Some(262_144));
    assert!(
        close(account.ranks[0].exposed_wait_ms, 180.0) && close(account.ranks[0].compute, 60.0 / 625.2),
        "{account:?}"
    );
}

#[test]
fn sums_outlive_json() {
    let account = across(&computing(|_| ())).unwrap();
    let json = serde_json::to_string(&account).unwrap();
    assert_eq!(serde_json::from_str::<RanksAccount>(&json).unwrap(), account);
    assert_eq!(serde_json::from_str::<RanksAccount>("{}").unwrap(), RanksAccount::default());
}

#[test]
fn sends_and_receives_are_not_compared() {
    let mut ranks = computing(|fake| {
        let args = r#","Collective name":"send","In msg nelems":8,"Out msg nelems":0,"Group size":4,"dtype":"Float","Process Group Name":"0""#;
        fake.kernel("ncclDevKernel_SendRecv(args)", (30_000, 30_100), args);
    });
    ranks.truncate(2);
    let account = across(&ranks).unwrap();
    assert_eq!((account.matched, account.unmatched), (6, 2));
    assert_eq!(account.notes[1..], ["2 sends and receives between two ranks are not compared."]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn clocks_do_not_change_the_result(
        ahead in proptest::array::uniform4(-300_000_000_000_i64..300_000_000_000),
        bases in proptest::array::uniform4(0_i64..1_000_000_000_000),
        lost in 0_i64..6,
    ) {
        let wanted = across(&computing(|_| ())).unwrap();
        let moved = computing(|fake| {
            fake.ahead = ahead[fake.rank as usize];
            fake.base = NEW_YEAR - 400_000_000_000 - bases[fake.rank as usize];
        });
        let without_clocks = |mut account: RanksAccount| {
            account.ranks.iter_mut().for_each(|row| row.clock_offset_us = None);
            account
        };
        let offsets: Vec<f64> = across(&moved).unwrap().ranks.iter().map(|row| row.clock_offset_us.unwrap()).collect();
        prop_assert_eq!(offsets, ahead.map(|one| (one - ahead[0]) as f64 / 1e3));
        prop_assert_eq!(without_clocks(across(&moved).unwrap()), without_clocks(wanted));
        let partly = partial(|rank, at| rank == 0 || at != lost, false, ahead[1]);
        let account = across(&partly).unwrap();
        prop_assert_eq!((account.matched, account.unmatched), (11, 1));
        prop_assert!(close(account.straggler.unwrap().late_mean_ms, 1.0));
    }

    #[test]
    fn any_times_are_compared_or_refused(
        times in proptest::collection::vec((0_u32..3, any::<i64>(), any::<u64>(), 0_u8..4), 0..40),
        bases in proptest::array::uniform3(any::<i64>()),
        numbered in any::<bool>(),
    ) {
        let ranks = (0..3).map(|rank| {
            let mut events = String::new();
            for (_, ts, length, kind) in times.iter().filter(|(of, ..)| *of == rank) {
                let name = ["ncclKernel_AllReduce", "ncclKernel_Broadcast", "gemm", "ncclKernel_AllGather"][usize::from(*kind)];
                let comma = if events.is_empty() { "" } else { "," };
                let sequence = if numbered { format!(r#","Seq":{}"#, ts % 5) } else { String::new() };
                write!(events, r#"{comma}{{"ph":"X","cat":"kernel","name":"{name}","ts":{ts},"dur":{length},"pid":0,"tid":7,"args":{{"device":0,"Collective name":"{name}"{sequence}}}}}"#).unwrap();
            }
            let base = bases[rank as usize];
            let json = format!(r#"{{"distributedInfo":{{"rank":{rank}}},"baseTimeNanoseconds":{base},"traceEvents":[{events}]}}"#);
            Some((format!("{rank}"), read_rank(json.as_bytes()).ok()?))
        });
        let ranks: Vec<NamedTrace> = ranks.flatten().collect();
        let parts: usize = ranks.iter().map(|(_, rank)| rank.collectives.len()).sum();
        if let Ok(account) = across(&ranks) {
            let matched: u64 = account.ranks.iter().map(|row| row.matched).sum();
            prop_assert!(matched + account.unmatched <= parts as u64);
            prop_assert!(account.skew.is_finite() && account.own.is_finite());
            prop_assert!(account.ranks.iter().all(|row| row.wait_ms >= 0.0 && row.late_ms >= 0.0 && row.early_ms >= 0.0));
        }
    }
}
