use std::sync::Arc;

use proptest::prelude::*;

use super::counters::Counters;
use super::loop_variable::LoopVariable;
use trainmon_sample::{
    FrameLocals, JobSample, LocalsSample, ProcessId, ProcessSample, Sample, StacksSample, ThreadLocals,
};

const TRAINER: ProcessId = ProcessId { pid: 7, start_ticks: 1 };

fn frame(function: &str, numbers: &[(&str, i64)]) -> FrameLocals {
    let numbers = numbers.iter().map(|(name, value)| ((*name).into(), *value)).collect();
    FrameLocals { function: function.into(), file: "/home/me/train.py".into(), numbers }
}

fn thread(tid: u32, frames: Vec<FrameLocals>) -> ThreadLocals {
    ThreadLocals { tid: Some(tid), is_main: tid == TRAINER.pid, frames }
}

fn sample(ms: u64, threads: Vec<ThreadLocals>) -> Sample {
    let locals = vec![LocalsSample { process: TRAINER, began_ns: ms * 1_000_000, threads }];
    let process = ProcessSample { id: TRAINER, ..ProcessSample::default() };
    Sample {
        stacks: Some(Arc::new(StacksSample { windows: Vec::new(), locals })),
        job: Some(Arc::new(JobSample { processes: vec![process], ..JobSample::default() })),
        ..Sample::default()
    }
}

/// Moments of readings: before and after windows of a second, milliseconds.
fn moments(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|at| at / 2 * 1110 + at % 2 * 1040)
}

fn turns(seconds: f64, per_s: f64) -> i64 {
    (seconds * per_s) as i64
}

/// Every number that is handed on, with the name of its variable, and the thread it is of.
fn handed_on(sample: &Sample) -> Vec<(Option<u32>, String, i64)> {
    let threads = sample.stacks.iter().flat_map(|stacks| &stacks.locals).flat_map(|read| &read.threads);
    let numbers = threads.flat_map(|thread| {
        thread
            .frames
            .iter()
            .flat_map(|frame| &frame.numbers)
            .map(|(name, value)| (thread.tid, name.to_string(), *value))
    });
    numbers.collect()
}

/// Takes what a sample holds of the rank, whose loop runs in this thread.
fn take(variable: &mut LoopVariable, sample: &Sample, loop_tid: u32) {
    let reads = sample.stacks.iter().flat_map(|stacks| &stacks.locals);
    reads.for_each(|read| variable.take(read, loop_tid));
}

/// Gives the same readings with and without the filter to what counts steps, and compares after each.
fn compared(
    count: u64,
    loop_tid: u32,
    threads: impl Fn(f64) -> Vec<ThreadLocals>,
) -> Vec<(Option<u32>, String, i64)> {
    let (mut counters, mut of_all, mut of_counters) =
        (Counters::default(), LoopVariable::default(), LoopVariable::default());
    let mut all = Vec::new();
    for ms in moments(count) {
        let given = sample(ms, threads(ms as f64 / 1000.0));
        let mut filtered = given.clone();
        counters.filter(&mut filtered);
        take(&mut of_all, &given, loop_tid);
        take(&mut of_counters, &filtered, loop_tid);
        let now_ns = ms * 1_000_000;
        assert_eq!(of_counters.steps(now_ns), of_all.steps(now_ns), "after {ms} ms");
        all.extend(handed_on(&filtered));
    }
    all
}

#[test]
fn only_counters_are_handed_on_and_steps_appear_no_later() {
    let all = compared(20, 7, |s| {
        let secrets = [
            ("pin", 1234),
            ("card_number", 4_111_111_111_111_111),
            ("step", turns(s, 19.8)),
            ("total", 5000),
            ("one_time_code", (turns(s, 37.0) * 7919 + 13) % 1_000_000),
            ("started_ns", 50_000_000 * turns(s, 19.8)),
            ("tokens", 32 * turns(s, 19.8)),
        ];
        let elsewhere = vec![frame("serve", &[("account", 77_441), ("polls", turns(s, 11.3))])];
        vec![
            thread(
                7,
                vec![frame("<module>", &[("year", 1984)]), frame("train", &secrets), frame("inner", &[("salt", 99)])],
            ),
            thread(9, elsewhere),
            thread(11, vec![frame("wait", &[("key", 31_337)])]),
        ]
    });
    assert!(!all.is_empty());
    for (tid, name, value) in &all {
        assert!(matches!((*tid, name.as_str()), (Some(7), "step") | (Some(9), "polls")), "{tid:?} {name} = {value}");
    }
    let steps = all.iter().filter(|(_, name, _)| name == "step").count();
    assert!(steps >= 20, "the readings before are handed on too, once for each counter: {steps}");
}

#[test]
fn the_same_steps_of_loops_of_many_kinds() {
    let one = |tid, numbers: &[(&str, i64)]| vec![thread(tid, vec![frame("main", numbers)])];
    compared(24, 7, |s| one(7, &[("n", turns(s % 2.0, 25.0))]));
    compared(24, 7, |s| one(7, &[("step", turns(s.min(4.0), 20.0)), ("x", 5)]));
    compared(60, 7, |s| one(7, &[("step", turns((s - 12.0).max(0.0), 3.1)), ("y", 5)]));
    compared(24, 7, |s| {
        one(7, &[("step", if (4.6..5.4).contains(&s) { 94_930_505_027_001 } else { turns(s, 30.0) })])
    });
    compared(24, 9, |s| [one(7, &[("polls", turns(s, 50.0))]), one(9, &[("step", turns(s, 12.0))])].concat());
    // An inner counter is found first, then the loop's own, which is slower.
    compared(40, 7, |s| {
        vec![thread(7, vec![frame("train", &[("i", turns(s, 0.9))]), frame("get", &[("index", turns(s, 80.0))])])]
    });
    // The loop is called late, and by then again.
    compared(60, 7, |s| {
        let called = (s % 20.0 > 8.0).then(|| frame("train", &[("i", turns(s % 20.0, 7.0))]));
        vec![thread(7, [Some(frame("main", &[("seed", 42)])), called].into_iter().flatten().collect())]
    });
}

#[test]
fn numbers_that_do_not_count_are_never_handed_on() {
    let none = |what: &str, number: &dyn Fn(f64) -> i64| {
        let all = compared(40, 7, |s| vec![thread(7, vec![frame("main", &[("x", number(s))])])]);
        assert_eq!(all, [], "{what}");
    };
    none("it stands still", &|_| 5);
    none("it falls", &|s| 1000 - turns(s, 20.0));
    none("it rises too fast", &|s| turns(s, 5000.0));
    none("it rose once", &|s| i64::from(s > 4.0));
    none("card numbers", &|s| 4_111_111_111_111_111 + turns(s, 20.0));
    none("codes", &|s| (turns(s, 1.0) * 7919 + 13) % 10_000);
}

#[test]
fn a_counter_whose_call_is_over_hands_on_nothing_that_comes_in_its_place() {
    let mut counters = Counters::default();
    for ms in moments(200) {
        let s = ms as f64 / 1000.0;
        let function = if s < 20.0 { "train" } else { "ask" };
        let numbers = if s < 20.0 { [("n", turns(s, 9.0))] } else { [("n", 4711)] };
        let mut sample = sample(ms, vec![thread(7, vec![frame(function, &numbers)])]);
        counters.filter(&mut sample);
        assert!(handed_on(&sample).iter().all(|(.., value)| *value != 4711), "after {s} s");
    }
}

#[test]
fn processes_that_have_ended_are_forgotten_and_hostile_readings_stay_small() {
    let mut counters = Counters::default();
    let names: Vec<String> = (0..64).map(|at| format!("n{at}")).collect();
    for ms in moments(40) {
        let numbers: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), ms as i64 / 100)).collect();
        let threads = (7..23).map(|tid| thread(tid, (0..48).map(|at| frame(&format!("f{at}"), &numbers)).collect()));
        let mut sample = sample(ms, threads.collect());
        counters.filter(&mut sample);
        let each = sample.stacks.iter().flat_map(|stacks| &stacks.locals);
        assert!(
            each.map(|read| read.threads.iter().flat_map(|t| &t.frames).map(|f| f.numbers.len()).sum::<usize>())
                .all(|n| n <= 1024)
        );
    }
    let mut ended = sample(90_000, Vec::new());
    ended.job = Some(Arc::new(JobSample::default()));
    ended.stacks = None;
    counters.filter(&mut ended);
    assert_eq!(format!("{counters:?}"), format!("{:?}", Counters::default()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_handed_on_was_read_and_counts_alike(
        values in prop::collection::vec(prop::collection::vec(prop_oneof![0..50_i64, 0..2000_i64], 3), 1..40),
        steps in prop::collection::vec(0..9_i64, 40),
    ) {
        let mut counters = Counters::default();
        let mut step = 0;
        let (mut of_all, mut of_counters) = (LoopVariable::default(), LoopVariable::default());
        for ((ms, values), by) in moments(40).zip(&values).zip(&steps) {
            step += by;
            let numbers = [("a", values[0]), ("b", values[1]), ("step", step)];
            let given = sample(ms, vec![thread(7, vec![frame("main", &numbers), frame("inner", &[("c", values[2])])])]);
            let mut filtered = given.clone();
            counters.filter(&mut filtered);
            take(&mut of_all, &given, 7);
            take(&mut of_counters, &filtered, 7);
            prop_assert_eq!(of_counters.steps(ms * 1_000_000), of_all.steps(ms * 1_000_000));
        }
    }
}
