//! `diagnose` of several traces: the ranks of one run.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::outcome::{finish, refused};
use crate::process::{text, trainmon};

/// A trace of a rank that enters each of four collectives so late, microseconds.
fn trace(folder: &Path, rank: u32, late: u32) -> String {
    trace_late(folder, rank, [late; 4])
}

fn trace_late(folder: &Path, rank: u32, late: [u32; 4]) -> String {
    let mut events = Vec::new();
    for (step, late) in (0..).zip(late) {
        let (begin, link) = (step * 31_000 + step * step * 300, step + 1);
        let enters = begin + 10_000 + late;
        events.push(format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":1,"tid":1,"ts":{begin},"dur":30500}},
               {{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{begin},"dur":{},"args":{{"device":0}}}},
               {{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":20,"ts":{enters},"dur":{},
                 "args":{{"device":0,"correlation":{link}}}}}"#,
            enters - begin,
            begin + 30_000 - enters,
        ));
    }
    let path = folder.join(format!("rank{rank}.json"));
    let head =
        format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}},"baseTimeNanoseconds":1790857026000000000"#);
    fs::write(&path, format!(r#"{{{head},"traceEvents":[{}]}}"#, events.join(","))).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn traces_of_ranks_are_put_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (trace(folder.path(), 0, 0), trace(folder.path(), 1, 6_000));
    let output = finish(trainmon(&["diagnose", &first, &second, "--json"]));
    assert!(output.status.success(), "{output:?}");
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    let across = &verdict["profile"]["across_ranks"];
    assert_eq!((&across["matched"], &across["straggler"]["rank"]), (&4.into(), &1.into()));
    assert_eq!(across["straggler"]["late_mean_ms"], 6.0);
    assert_eq!(verdict["profile"]["rank"], 1, "the account is that of the late rank");
    let page = text(&finish(trainmon(&["diagnose", &first, &second])).stdout);
    assert!(page.contains("Ranks: which waits for which in collectives"), "{page}");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" rank1.json · rank 1 of 2 "), "{page}");
    assert!(!words.contains(folder.path().to_str().unwrap()), "{page}");
    assert!(words.contains("Rank 1 enters 4 of 4 collectives last, 6.0 ms after the others"), "{page}");
    // One trace has no other ranks.
    let one: Value = serde_json::from_slice(&finish(trainmon(&["diagnose", &first, "--json"])).stdout).unwrap();
    assert_eq!(one["profile"]["across_ranks"], Value::Null);
}

#[test]
fn traces_that_are_not_of_one_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (other, empty) = (tempfile::tempdir().unwrap(), folder.path().join("empty.json"));
    fs::write(&empty, "{}").unwrap();
    let (first, twice) = (trace(folder.path(), 0, 0), trace(other.path(), 0, 0));
    let both = "are both of rank 0: give one trace of each rank";
    refused(trainmon(&["diagnose", &first, &twice]), 1, &[both]);
    refused(trainmon(&["diagnose", &first, empty.to_str().unwrap()]), 1, &["trace ", "empty.json: not a trace"]);
    // Nothing says that these two are ranks.
    let strangers = ["bert.json", "qwen.json"].map(|name| {
        let path = folder.path().join(name);
        let step = r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5}]}"#;
        fs::write(&path, step).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let compare = format!("trainmon compare {} {}", strangers[0], strangers[1]);
    refused(trainmon(&["diagnose", &strangers[0], &strangers[1]]), 1, &["do not say which rank", &compare]);
}

#[test]
fn ranks_that_are_late_in_turn_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let first = trace_late(folder.path(), 0, [15_000, 0, 15_000, 0]);
    let second = trace_late(folder.path(), 1, [0, 15_000, 0, 15_000]);
    let page = text(&finish(trainmon(&["diagnose", &first, &second, "--full"])).stdout);
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let in_turn = "are late in turn: rank 0 enters 2 of 4 collectives last, rank 1 enters 2. ";
    assert_eq!(words.matches(in_turn).count(), 2, "in the summary, and below the ranks: {page}");
    assert!(words.contains("Give all ranks batches of equal cost in each step"), "{page}");
    // One trace has no other ranks to compare it with.
    let advice = "Compare the ranks: trainmon diagnose rank*.json";
    assert!(!words.contains(advice), "{page}");
    assert!(text(&finish(trainmon(&["diagnose", &first, "--full"])).stdout).contains(advice));
}
