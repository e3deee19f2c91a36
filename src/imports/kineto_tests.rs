use std::io::Cursor;

use proptest::prelude::*;

use super::*;

/// A step of 100 ms: 60 ms for a batch, 20 ms forward with a gap of 5 ms, 10 ms backward in another thread, 5 ms optimizer.
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
        format!(r#"{{"ph":"s","id":9,"pid":7,"tid":7,"ts":{}.5,"cat":"fwdbwd","name":"fwdbwd"}},"#, at(62)),
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
        "traceEvents":[{} {{"name":"end","ph":"i","args":null}}],"baseTimeNanoseconds":1790857026000000000,"more":{{"a":[1]}}}}"#,
        events.replace(",\"args\":null", "")
    )
    .replace(",\"args\":null", "")
}

fn of(text: impl AsRef<[u8]>) -> Result<Imported, ImportError> {
    read(&mut ImportInput { file: Cursor::new(text.as_ref()) })
}

/// Share of the samples with this function innermost.
fn share(imported: &Imported, function: &str) -> f64 {
    let (mut own, mut all) = (0, 0);
    for profile in imported.readings.iter().filter_map(|reading| reading.profile.as_ref()) {
        for stack in &profile.stacks.threads[0].stacks {
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
    let shares = [
        ("next_batch", 0.60),
        ("aten::conv2d", 0.05),
        ("aten::convolution", 0.05),
        ("cudaStreamSynchronize", 0.05),
        ("backward", 0.10),
        ("optimizer", 0.05),
        ("nothing_recorded", 0.10),
    ];
    for (function, expected) in shares {
        let found = share(&imported, function);
        assert!((found - expected).abs() < 0.005, "{function}: {found}");
    }
    let steps: u64 = imported.readings.iter().map(|reading| reading.profile.as_ref().unwrap().steps.unwrap()).sum();
    assert_eq!(steps, 40);
    let first = &imported.readings[0];
    let profile = first.profile.as_ref().unwrap();
    assert!((profile.seconds - 0.2).abs() < 1e-6 && (profile.step_lengths_s[0] - 0.1).abs() < 1e-6);
    assert_eq!(first.unix_ms, 1_790_857_026_000 + 1200);
    let gpu = &first.gpus[0];
    assert_eq!(
        (gpu.utilization_pct, gpu.name.as_deref(), gpu.utilization_points.len()),
        (Some(25), Some("NVIDIA H100"), 10)
    );
    let forward = |stack: &crate::sample::StackCount| {
        stack.frames.iter().any(|frame| &*profile.stacks.frames[*frame as usize].function == "forward")
    };
    let in_forward: u32 =
        profile.stacks.threads[0].stacks.iter().filter(|stack| forward(stack)).map(|stack| stack.samples).sum();
    assert_eq!(in_forward, 30, "15 ms of each of two steps");
}

#[test]
fn without_steps_of_the_profiler_a_batch_is_a_step() {
    let text = trace(40).replace("ProfilerStep#", "my step ");
    let imported = of(text).unwrap();
    let steps: u64 = imported.readings.iter().map(|reading| reading.profile.as_ref().unwrap().steps.unwrap()).sum();
    assert_eq!(steps, 39, "between 40 batches");
    assert!((share(&imported, "next_batch") - 0.60).abs() < 0.01);
}

#[test]
fn packed_traces_and_bare_lists_are_read_too() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, trace(3).as_bytes()).unwrap();
    assert_eq!(of(packed.finish().unwrap()).unwrap().pid, Some(7));
    let list = format!("[{}]", step(0).trim_end_matches(','));
    assert_eq!(of(list).unwrap().readings.len(), 1);
}

#[test]
fn python_functions_are_frames_and_waits_in_them_are_seen() {
    let span = |name: &str, begin: u64, length: u64| {
        format!(
            r#"{{"ph":"X","cat":"python_function","name":"{name}","pid":7,"tid":7,"ts":{begin},"dur":{length}}},"#
        )
    };
    let text = [
        span("train.py(57): main", 0, 1_000_000),
        span("torch/utils/data/dataloader.py(733): __next__", 0, 400_000),
        span("selectors.py(415): select", 0, 400_000),
        span("<built-in method poll of select.poll object at 0x7f>", 0, 400_000),
        span("<built-in function len>", 500_000, 100_000),
        span("<built-in function sleep>", 700_000, 300_000),
        r#"{"ph":"X","cat":"cpu_op","name":"aten::add","pid":7,"tid":7,"ts":450000,"dur":10}"#.to_owned(),
    ];
    let imported = of(format!("[{}]", text.concat())).unwrap();
    assert!((share(&imported, "blocked") - 0.7).abs() < 0.01 && (share(&imported, "main") - 0.3).abs() < 0.01);
    let frames = &imported.readings[0].profile.as_ref().unwrap().stacks.frames;
    assert!(
        frames
            .iter()
            .any(|frame| &*frame.file == "site-packages/torch/utils/data/dataloader.py" && frame.line == 733)
    );
}

#[test]
fn what_is_no_trace_is_one_line() {
    let whole = trace(2);
    let event =
        |at: &str| format!(r#"{{"ph":"X","cat":"cpu_op","name":"aten::add","pid":7,"tid":7,"ts":{at},"dur":10}}"#);
    let damaged = format!("[{},{}]", event("-1e300"), event("1152921504606846976"));
    for (text, part) in [
        (&*damaged, "times are damaged"),
        ("{}", "no traceEvents"),
        (r#"{"traceEvents":[]}"#, "no operator"),
        (r#"{"traceEvents":[{"ph":"X","ts":{}}]}"#, "not a trace"),
        (r#"{"traceEvents":7}"#, "not a trace"),
        (&whole[..whole.len() / 2], "cut off"),
        (&format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20)), "no traceEvents"),
        (&format!("{{\"a\":{}}}", "[".repeat(100_000)), "not a trace"),
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
            prop_assert!(imported.readings.len() as u64 <= MOST_INTERVALS + 1);
        }
        let _ = of(text);
    }
}
