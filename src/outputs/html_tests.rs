//! The HTML of a run: what it says, that it loads nothing, and that nothing from outside becomes markup.

use std::sync::Arc;

use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::history::run::WholeRun;
use crate::outputs::testing::verdict;
use crate::pipeline::Tick;
use crate::rates::Frame;
use crate::rates::frame::{HostRates, TrainerRates};
use crate::rates::time_split::TimeSplit;
use crate::sample::recording::Header;

fn header(command: &str) -> Header {
    Header { command: command.to_owned(), pid: 1234, interval_s: 1.0, trainmon: "0.1.0".into(), ..Header::default() }
}

/// So many seconds of this verdict.
fn run(seconds: u64, verdict: Verdict) -> WholeRun {
    let verdict = Arc::new(verdict);
    let mut run = WholeRun::default();
    for second in 1..=seconds {
        let split_s = TimeSplit { input_wait: 0.6, device_sync: 0.4, ..TimeSplit::default() };
        let frame = Frame {
            seconds: 1.0,
            monotonic_ns: second * 1_000_000_000,
            unix_ms: 1_770_000_000_000 + second as i64 * 1000,
            host: HostRates { allowed_cpu_pct: Some((second % 100) as f64), ..HostRates::default() },
            trainers: vec![TrainerRates { split_s, seconds_seen: 1.0, ..TrainerRates::default() }],
            ..Frame::default()
        };
        let shares = frame.loop_shares();
        run.push(&Tick { frame: Arc::new(frame), verdict: Arc::clone(&verdict), shares, ..Tick::default() });
    }
    run
}

fn page(run: &WholeRun, header: &Header, note: Option<&str>) -> String {
    html(&RunReport { run, header, note: note.map(str::to_owned), zone: TimeZone::UTC, price: None })
}

#[test]
fn the_answer_comes_first_and_the_numbers_are_there() {
    let page = page(&run(90, verdict()), &header("python train.py"), Some("cut off after 90 samples"));
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?}"));
    let order = [
        "<h1>DATA LOADER",
        "held for 1m30s of 1m30s",
        "▶ ",
        "<ol class=\"pipeline\">",
        "Timelines",
        "<svg ",
        "Time by verdict",
    ];
    let places = order.map(place);
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("cut off after 90 samples") && page.contains("<strong>◀ limit</strong>"));
    assert!(page.contains("2026-02-02 02:40:01 UTC, 1m30s"));
    let json = page.split("id=\"numbers\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let numbers: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(numbers["times"].as_array().unwrap().len(), 90);
    let stacked = numbers["charts"].as_array().unwrap().iter().find(|chart| chart["stacked"] == true).unwrap();
    assert_eq!(stacked["series"][0]["name"], "waiting for data");
}

#[test]
fn it_loads_nothing() {
    let page = page(&run(10, verdict()), &header("python train.py"), None);
    // Licenses and comments may name addresses; nothing may fetch one.
    for loads in ["src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "http-equiv=\"refresh"] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_run_without_samples_says_so() {
    let page = page(&WholeRun::default(), &header("python train.py"), None);
    assert!(page.contains("no samples to judge") && !page.contains("<svg"));
}

#[test]
fn a_day_stays_below_a_megabyte() {
    let page = page(&run(86_400, verdict()), &header("python train.py"), None);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

/// Text outside the document's own scripts and styles.
fn elements(page: &str) -> String {
    let body = page.split("</head>").nth(1).unwrap();
    body.split("<script").next().unwrap().to_owned()
}

proptest! {
    #[test]
    fn foreign_text_stays_text(text in "[ -~]{0,40}|.{0,20}") {
        let told = Verdict {
            summary: text.clone(),
            command: text.clone(),
            advice: vec![crate::diagnosis::verdict::Advice { title: text.clone(), why: text.clone(), ..Default::default() }],
            ..verdict()
        };
        let plain = Verdict { summary: "x".into(), command: "x".into(), ..told.clone() };
        let plain = Verdict { advice: vec![crate::diagnosis::verdict::Advice { title: "x".into(), why: "x".into(), ..Default::default() }], ..plain };
        let hostile = page(&run(3, told), &header(&text), None);
        let tame = page(&run(3, plain), &header("x"), None);
        // The same elements, whatever the text.
        let tags = |page: &str| {
            let body = elements(page);
            body.split('<').skip(1).map(|tag| tag.split('>').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        prop_assert!(text.is_empty() || tags(&hostile) == tags(&tame));
        prop_assert_eq!(hostile.matches("<script").count(), tame.matches("<script").count());
    }

    #[test]
    fn json_ends_no_script(text in ".{0,60}") {
        let json = script_json(&vec![format!("</script>{text}<!--")]);
        prop_assert!(!json.contains('<'));
        let back: Vec<String> = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&back[0], &format!("</script>{text}<!--"));
    }
}
