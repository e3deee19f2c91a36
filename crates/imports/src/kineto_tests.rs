use proptest::prelude::*;

use super::*;
use trainmon_sample::StackCount;

/// A step of 100 ms: 60 ms for a batch, 15 ms in operators with 5 ms of them in a call that waits for the GPU, 10 ms backward in
/// another thread, 5 ms optimizer; two kernels of 25 ms together.
fn step(number: u64) -> String {
    let at = |ms: u64| 1_000_000 + number * 100_000 + ms * 1000;
    let span = |cat: &str, name: &str, tid: &str, begin: u64, ms: u64| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":7,"tid":{tid},"ts":{}.5,"dur":{}}},"#,
            at(begin),
            ms * 1000
        )
    };
    [
        span("cpu_op", "aten::conv2d", "7", 60, 15),
        span("cpu_op", "aten::convolution", "7", 62, 10),
        span("cuda_runtime", "cudaStreamSynchronize", "7", 64, 5),
        span("user_annotation", &format!("ProfilerStep#{number}"), "7", 0, 100),
        span("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "7", 0, 60),
        span("cpu_op", "autograd::engine::evaluate_function: AddBackward0", "9", 80, 10),
        span("user_annotation", "Optimizer.step#SGD.step", "7", 95, 5),
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":"stream 7","ts":{},"dur":25000,"args":{{"device":0,"grid":[1,2]}}}},"#,
            at(65)
        ),
        format!(r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":8,"ts":{},"dur":10000,"args":{{"device":0}}}},"#, at(70)),
    ]
    .concat()
}

fn trace(steps: u64) -> String {
    let events: String = (0..steps).rev().map(step).collect();
    format!(
        r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"NVIDIA H100","totalGlobalMem":85017493504,"x":[]}}],
        "traceEvents":[{events} {{"name":"end","ph":"i"}}],"baseTimeNanoseconds":1790857026000000000,"more":{{"a":[1]}}}}"#
    )
}

fn of(text: impl AsRef<[u8]>) -> Result<Imported, ImportError> {
    read(text.as_ref())
}

fn stacks(profile: &ProfileSample) -> &[StackCount] {
    &profile.stacks.threads[0].stacks
}

/// Share of the samples with this function innermost.
fn share(imported: &Imported, function: &str) -> f64 {
    let (mut own, mut all) = (0, 0);
    for profile in imported.readings.iter().filter_map(|reading| reading.profile.as_ref()) {
        for stack in stacks(profile) {
            all += stack.samples;
            let leaf = &profile.stacks.frames[stack.frames[0] as usize];
            own += if &*leaf.function == function { stack.samples } else { 0 };
        }
    }
    f64::from(own) / f64::from(all)
}

#[test]
fn the_loops_time_and_steps_are_those_of_the_trace() {
    let imported = of(trace(40)).unwrap();
    assert_eq!((imported.pid, imported.interval_ms, imported.readings.len()), (Some(7), 200, 20));
    let shares = [(NEXT_BATCH, 0.60), (SYNCHRONIZE, 0.05), (OWN_WORK, 0.15), (NOTHING_RECORDED, 0.20)];
    for (function, expected) in shares {
        let found = share(&imported, function);
        assert!((found - expected).abs() < 0.005, "{function}: {found}");
    }
    let account = imported.account.as_ref().unwrap();
    let of_loop = account.of_loop.unwrap();
    assert!((of_loop.input_wait - 0.6).abs() < 1e-9 && (of_loop.sync - 0.05).abs() < 1e-9, "{of_loop:?}");
    let steps: u64 = imported.readings.iter().map(|reading| reading.profile.as_ref().unwrap().steps.unwrap()).sum();
    assert_eq!((steps, account.steps), (40, 40));
    let first = &imported.readings[0];
    let profile = first.profile.as_ref().unwrap();
    assert!((profile.seconds - 0.2).abs() < 1e-6 && (profile.step_lengths_s[0] - 0.1).abs() < 1e-6);
    assert_eq!(profile.step_lengths_s.len(), 2);
    assert_eq!(first.unix_ms, 1_790_857_026_000 + 1200);
    let gpu = &first.gpus[0];
    assert_eq!((gpu.utilization_pct, gpu.name.as_deref()), (Some(25), Some("NVIDIA H100")));
    let points: Vec<u32> = gpu.utilization_points.iter().map(|point| point.pct).collect();
    // From 65 to 90 ms of each 100, less half a microsecond.
    assert_eq!(points, [0, 0, 0, 75, 50, 0, 0, 0, 75, 50]);
    let operator = |stack: &&StackCount| {
        stack.frames.iter().any(|frame| &*profile.stacks.frames[*frame as usize].function == "aten::conv2d")
    };
    let in_operator: u32 = stacks(profile).iter().filter(operator).map(|stack| stack.samples).sum();
    assert_eq!(in_operator, 20, "10 ms beside the call that waits, of each of two steps");
}

#[test]
fn times_since_1970_are_not_counted_twice() {
    let text = trace(3).replace("\"ts\":1", "\"ts\":1790857026001").replace("\"ts\":2", "\"ts\":1790857026002");
    let imported = of(text).unwrap();
    assert_eq!(imported.readings.last().unwrap().unix_ms, 1_790_857_026_001_300);
}

#[test]
fn without_steps_of_the_profiler_a_batch_is_a_step() {
    let text = trace(40).replace("ProfilerStep#", "my step ");
    let imported = of(text).unwrap();
    let steps: u64 = imported.readings.iter().map(|reading| reading.profile.as_ref().unwrap().steps.unwrap()).sum();
    assert_eq!(steps, 39, "between 40 batches");
    assert!((share(&imported, NEXT_BATCH) - 0.60).abs() < 0.01);
}

#[test]
fn batches_of_the_loops_own_and_waits_in_python_are_told_apart() {
    let span = |cat: &str, name: &str, begin: u64, length: u64| {
        format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":7,"tid":7,"ts":{begin},"dur":{length}}}"#)
    };
    let text = [
        span("python_function", "train.py(57): main", 0, 1_000_000),
        span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 400_000),
        span("python_function", "torch/utils/data/dataloader.py(733): __next__", 0, 400_000),
        span("python_function", "<built-in function len>", 500_000, 100_000),
        span("python_function", "<built-in function sleep>", 700_000, 300_000),
        span("cpu_op", "aten::add", 450_000, 10),
    ];
    let imported = of(format!("[{}]", text.join(","))).unwrap();
    for (function, expected) in [(MAKE_BATCH, 0.4), (BLOCKED, 0.3), (OWN_WORK, 0.3), (NEXT_BATCH, 0.0)] {
        let found = share(&imported, function);
        assert!((found - expected).abs() < 0.01, "{function}: {found}");
    }
    let frames = &imported.readings[0].profile.as_ref().unwrap().stacks.frames;
    let main = frames.iter().find(|frame| &*frame.function == "main").unwrap();
    assert_eq!((&*main.file, main.line), ("train.py", 57));
    assert!(imported.readings[0].gpus.is_empty());
}

#[test]
fn a_trace_that_ends_early_gives_what_it_has_and_others_are_one_line() {
    let whole = trace(3);
    let cut = of(&whole[..whole.len() / 2]).unwrap();
    assert_eq!(cut.account.unwrap().steps, 2);
    assert!(cut.notes.iter().any(|note| note.contains("ends early")), "{:?}", cut.notes);
    for (text, part) in [
        ("{}", "traceEvents"),
        (r#"{"traceEvents":[]}"#, "no operator"),
        (r#"{"traceEvents":[{"ph":"X","ts":{}}]}"#, "no operator"),
        (r#"{"traceEvents":7}"#, "traceEvents"),
        (&format!("{{\"a\":{}}}", "[".repeat(100_000)), "traceEvents"),
    ] {
        let error = of(text).unwrap_err().to_string();
        assert!(error.contains(part) && error.lines().count() == 1 && error.len() < 300, "{error}");
    }
}

proptest! {
    #[test]
    fn any_events_are_read_or_refused(
        events in proptest::collection::vec(("[Xsi]", "(cpu_op|kernel|user_annotation)", -1e18..1e18_f64, -1e18..1e18_f64, any::<i64>()), 0..20),
        text in "\\PC*",
    ) {
        let event = |(ph, cat, ts, dur, pid): &(String, String, f64, f64, i64)| {
            format!(r#"{{"ph":"{ph}","cat":"{cat}","name":"enumerate(DataLoader)#__next__","pid":{pid},"ts":{ts},"dur":{dur}}}"#)
        };
        let list: Vec<String> = events.iter().map(event).collect();
        if let Ok(imported) = of(format!("[{}]", list.join(","))) {
            prop_assert!((1..=5001).contains(&imported.readings.len()));
            for reading in &imported.readings {
                let pct = |gpu: &GpuReading| gpu.utilization_pct.unwrap_or_default();
                prop_assert!(reading.gpus.iter().all(|gpu| pct(gpu) <= 100));
            }
        }
        let _ = of(text);
    }
}
