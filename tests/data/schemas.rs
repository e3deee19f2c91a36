//! Recordings stay readable: `fixtures/recordings` keeps one of each schema, written by the trainmon of its day, with what is true
//! about it here. Whoever raises the schema adds the recording before the change.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::causes::Cause;
use trainmon::pipeline::Pipeline;
use trainmon::sample::Sample;
use trainmon::sample::recording::{Header, OLDEST_SCHEMA, SCHEMA};
use trainmon::sources::recording::Recording;
use trainmon::waits::Wait;

fn kept(schema: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/recordings/schema-{schema}.tmz"))
}

fn verdict(schema: u32) -> Arc<Verdict> {
    let mut recording = Recording::open(&kept(schema)).unwrap_or_else(|error| panic!("schema {schema}: {error}"));
    assert_eq!(recording.header.schema, schema);
    let verdict = Pipeline::of_recording(&recording.header, None).last_verdict(recording.by_ref()).unwrap();
    assert_eq!(recording.note, None, "schema {schema}");
    verdict.unwrap()
}

/// Class, cause and the share of the loop's time that waits for data, as percent.
fn judged(verdict: &Verdict) -> (&str, Option<&str>, f64) {
    assert!(verdict.confidence >= 0.9, "{}", verdict.confidence);
    let waits = verdict.shares.unwrap().input_wait;
    (verdict.class.word(), verdict.cause.map(Cause::name), (waits * 100.0).round())
}

#[test]
fn each_schema_has_its_verdict() {
    for schema in OLDEST_SCHEMA..=SCHEMA {
        assert!(kept(schema).is_file(), "no recording of schema {schema} is kept");
    }
    // One forked worker computes 60 ms for each 15 ms step.
    let verdict_of_1 = verdict(1);
    assert_eq!(judged(&verdict_of_1), ("data-loader", Some("too-few-workers"), 75.0));
    let steps = verdict_of_1.steps.p50_ms.unwrap();
    assert!((60.0..65.0).contains(&steps), "{steps} ms a step");
    let busy = verdict_of_1.workers[0].busy.unwrap();
    assert!((0.97..=1.0).contains(&busy), "the worker is busy for {busy} of the time");
    // Each step appends to a journal under a lock that another job holds most of the time.
    assert_eq!(judged(&verdict(2)), ("io", Some("lock"), 0.0));
}

/// A recording of schema 1 with this lane.
fn recording_of_1(lane: &str) -> Vec<u8> {
    let header = serde_json::to_string(&Header { schema: 1, ..Header::default() }).unwrap();
    let sample = Sample { job: Some(Arc::default()), ..Sample::default() };
    let mut sample = serde_json::to_value(&sample).unwrap();
    let job = sample["job"].as_object_mut().unwrap();
    job.remove("sampler");
    job.insert("lane".to_owned(), serde_json::from_str(lane).unwrap());
    zstd::bulk::compress(format!("{header}\n{sample}\n").as_bytes(), 3).unwrap()
}

#[test]
fn every_word_of_schema_1_means_what_it_did() {
    let point = |(at, wait): (usize, &Wait)| {
        let numbers = r#""pin":null,"helper_running":null,"written_chars":null,"batches_requested":null"#;
        format!(r#"{{"at_ns":{}000000,"main":"{}",{numbers}}}"#, at + 1, wait.word())
    };
    let points: Vec<String> = Wait::ALL.iter().enumerate().map(point).collect();
    let lane = format!(
        r#"{{"trainers":[{{"id":{{"pid":7,"start_ticks":1}},"syscall":"ok","feeders":0,"points":[{}]}}],"workers":[]}}"#,
        points.join(",")
    );
    let bytes = recording_of_1(&lane);
    let sample = Recording::new(&bytes[..]).unwrap().next().unwrap().unwrap();
    let sampler = &sample.job.as_ref().unwrap().sampler;
    let seen = sampler.processes[0].threads[0].seen.iter().map(|place| &sampler.seen[*place as usize]);
    let meant: Vec<Wait> = seen.map(|seen| Wait::from_observation(seen, sampler.machine)).collect();
    assert_eq!(meant, Wait::ALL);
    assert_eq!(sampler.times().collect::<Vec<_>>(), (1..16_u64).map(|at| at * 1_000_000).collect::<Vec<_>>());
}

#[test]
fn counts_of_schema_1_become_no_more_samples_than_their_line_is_long() {
    let worker = r#"{"id":{"pid":8,"start_ticks":1},"trainer":7,"looks":[4294967295,4294967295,0,0,0,0,0,0,0,0,0,0,0,0,9],
                     "idle_looks":4294967295,"batches":3}"#;
    let bytes = recording_of_1(&format!(r#"{{"trainers":[],"workers":[{worker},{worker}]}}"#));
    let sample = Recording::new(&bytes[..]).unwrap().next().unwrap().unwrap();
    let processes = &sample.job.as_ref().unwrap().sampler.processes;
    let samples: usize = processes.iter().map(|process| process.threads[0].seen.len()).sum();
    assert!((1..4000).contains(&samples), "{samples}");
}
