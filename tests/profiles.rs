//! Traces of known situations: what the account and the verdict must say of each. tests/fixtures/profiles/make.py writes them, with
//! what is expected in the same file.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainmon::diagnosis::profiled;
use trainmon::diagnosis::verdict::{Context, Verdict};
use trainmon::profiles;
use trainmon::profiles::account::ProfileAccount;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/profiles")
}

fn verdict(path: &Path) -> Verdict {
    let account = profiles::read(BufReader::new(File::open(path).unwrap())).unwrap();
    profiled::verdict(account, &Context::default())
}

#[test]
fn each_situation_is_named() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    for path in paths {
        seen += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let expected: Value = serde_json::from_reader(File::open(&path).unwrap()).unwrap();
        let verdict = verdict(&path);
        for (key, value) in expected["expected"].as_object().unwrap() {
            if let Err(found) = holds(key, value, &verdict) {
                wrong.push(format!("{name}: {key}: {value} expected, found {found}; {}", verdict.summary));
            }
        }
        let parts = verdict.profile.as_deref().map_or(1.0, sum_of_parts);
        assert!((parts - 1.0).abs() < 1e-6, "{name}: busy and idle add up to {parts}");
    }
    assert!(wrong.is_empty() && seen >= 20, "{seen} files\n{}", wrong.join("\n"));
}

/// Whether the verdict has what is expected; else what it has.
fn holds(key: &str, expected: &Value, verdict: &Verdict) -> Result<(), String> {
    let profile = verdict.profile.as_deref().unwrap();
    let launches = profile.launches.unwrap_or_default();
    let sync = profile.syncs.first();
    let found = match key {
        "class" => Value::from(verdict.class.word()),
        "phase" => verdict.phase.word().into(),
        "gpu" => Value::from(!profile.devices.is_empty()),
        "most_sure" => {
            let most = expected.as_f64().unwrap();
            return if verdict.confidence <= most { Ok(()) } else { Err(verdict.confidence.to_string()) };
        }
        "says" => {
            let has = verdict.summary.contains(expected.as_str().unwrap());
            return if has { Ok(()) } else { Err("the summary".to_owned()) };
        }
        "cause" => verdict.cause.map_or(Value::Null, |cause| cause.name().into()),
        "first" => {
            let title = verdict.advice.first().map_or("", |advice| advice.title.as_str());
            return if title.starts_with(expected.as_str().unwrap()) { Ok(()) } else { Err(title.to_owned()) };
        }
        "at" => {
            let name = verdict.culprits.first().map_or("", |culprit| culprit.name.as_str());
            return if name.contains(expected.as_str().unwrap()) { Ok(()) } else { Err(name.to_owned()) };
        }
        "busy" => {
            let busy = profile.devices[0].busy;
            return if (busy - expected.as_f64().unwrap()).abs() < 0.005 { Ok(()) } else { Err(busy.to_string()) };
        }
        "sync" => sync.and_then(|sync| sync.operator.clone()).map_or(Value::Null, Value::from),
        "per_step" => return close(sync.and_then(|sync| sync.per_step).unwrap_or_default(), expected),
        "graph_kernels" => launches.graph_kernels.into(),
        "calls_per_step" => return close(launches.calls_per_step, expected),
        other => panic!("nothing is known of {other}"),
    };
    if found == *expected { Ok(()) } else { Err(found.to_string()) }
}

fn close(found: f64, expected: &Value) -> Result<(), String> {
    let expected = expected.as_f64().unwrap();
    if (found - expected).abs() < 1e-9 { Ok(()) } else { Err(found.to_string()) }
}

fn sum_of_parts(profile: &ProfileAccount) -> f64 {
    let Some(gpu) = profile.devices.first() else {
        let of = profile.of_loop.unwrap();
        let waits = of.input_wait + of.sync + of.collective + of.blocked + of.saving + of.in_copies;
        return waits + of.launch + of.operator + of.annotation + of.python + of.nothing;
    };
    gpu.busy + gpu.idle_by.iter().map(|(_, share)| share).sum::<f64>()
}

#[test]
fn a_file_that_is_cut_off_is_said_first_and_is_never_sure() {
    // Without a GPU, nothing says that there is none.
    for (name, class) in [("small-kernels", "cpu"), ("annotated", "unknown"), ("saves-on-host", "io")] {
        let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        let account = profiles::read(&text.as_bytes()[..text.len() * 9 / 10]).unwrap();
        let verdict = profiled::verdict(account, &Context::default());
        assert!(verdict.summary.starts_with("The file ends early"), "{}", verdict.summary);
        assert!(verdict.confidence <= 0.75 && !verdict.is_healthy(), "{}", verdict.confidence);
        assert_eq!(verdict.class.word(), class, "{}", verdict.summary);
        assert!(verdict.not_seen.iter().any(|what| what.why.contains("ends early")), "{:?}", verdict.not_seen);
    }
}
