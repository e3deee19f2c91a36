//! The HTML of a run: what it says, that it loads nothing, and that nothing from outside becomes markup.

use std::sync::Arc;

use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::testing::{profiled, profiled_with};
use crate::testing_views::verdict;
use trainmon_diagnosis::diagnosis::verdict::Steps;
use trainmon_diagnosis::history::run::WholeRun;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_rates::frame::{GpuRates, HostRates, JobRates};
use trainmon_sample::recording::Header;
use trainmon_waits::Frame;
use trainmon_waits::frame::{RankRates, WorkerRates};
use trainmon_waits::time_split::TimeSplit;

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
            ranks: vec![RankRates { split_s, seconds_seen: 1.0, ..RankRates::default() }],
            ..Frame::default()
        };
        let shares = frame.loop_shares();
        run.push(&Tick { frame: Arc::new(frame), verdict: Arc::clone(&verdict), shares, ..Tick::default() });
    }
    run
}

/// So many seconds in which every chart has numbers, with as many digits as there are.
fn full_run(seconds: u64) -> WholeRun {
    let mut run = WholeRun::default();
    for second in 1..=seconds {
        let value = |most: f64| Some(most * (0.5 + 0.499 * (second as f64 * 0.7).sin()));
        let gpu = GpuRates {
            attached: true,
            utilization_pct: value(100.0),
            memory_used_bytes: value(8e10).map(|bytes| bytes as u64),
            memory_total_bytes: Some(80_000_000_000),
            power_w: value(700.0),
            power_limit_w: Some(700.0),
            temperature_c: value(90.0).map(|degrees| degrees as u32),
            sm_clock_mhz: value(1980.0).map(|mhz| mhz as u32),
            pcie_rx_bytes_per_s: value(2e10),
            pcie_tx_bytes_per_s: value(2e9),
            ..GpuRates::default()
        };
        let split_s = TimeSplit::from([0.3, 0.2, 0.2, 0.1, 0.2].map(|share| value(share).unwrap_or_default()));
        let host = HostRates {
            allowed_cpu_pct: value(100.0),
            net_rx_bytes_per_s: value(1e9),
            net_tx_bytes_per_s: value(1e8),
            ..HostRates::default()
        };
        let cpu_pct = value(1600.0);
        let frame = Frame {
            seconds: 1.0,
            monotonic_ns: second * 1_000_000_000,
            unix_ms: 1_770_000_000_000 + second as i64 * 1000,
            host,
            job: JobRates {
                cpu_pct,
                cpus_allowed: Some(16),
                run_delay_share: value(1.0),
                read_bytes_per_s: value(1e9),
                ..JobRates::default()
            },
            ranks: vec![RankRates { split_s, seconds_seen: 1.0, ..RankRates::default() }],
            workers: vec![WorkerRates { idle: value(1.0), ..WorkerRates::default() }],
            gpus: vec![gpu],
            ..Frame::default()
        };
        let steps = Steps { per_s: value(20.0), count: Some(second * 10), ..Steps::default() };
        let verdict = Arc::new(Verdict { steps, ..verdict() });
        let shares = frame.loop_shares();
        run.push(&Tick { frame: Arc::new(frame), verdict, shares, ..Tick::default() });
    }
    run
}

fn page(run: &WholeRun, header: &Header, note: Option<&str>) -> String {
    super::run(&RunReport {
        run,
        header,
        note: note.map(str::to_owned),
        zone: TimeZone::UTC,
        price: None,
        title: None,
    })
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
    assert!(page.contains("2026-02-02 02:40:01 to 02:41:30 UTC, 1m30s"));
    let json = page.split("id=\"numbers\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let numbers: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(numbers["edges"].as_array().unwrap().len(), 91);
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
    let page = page(&full_run(86_400), &header("python train.py"), None);
    assert_eq!(page.matches("<figure id=").count(), 10, "every chart");
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

#[test]
fn a_title_names_the_report_and_is_no_markup() {
    let (run, header) = (run(3, verdict()), header("python train.py"));
    let title = Some("ResNet <b>, 8 & 4".to_owned());
    let report = RunReport { run: &run, header: &header, note: None, zone: TimeZone::UTC, price: None, title };
    let page = super::run(&report);
    let title = "ResNet &lt;b&gt;, 8 &amp; 4";
    assert!(page.contains(&format!("<title>{title} – trainmon report</title>")), "{page}");
    assert!(page.contains(&format!("<p><strong>{title}</strong></p>")) && page.contains("<h1>DATA LOADER"));
    assert!(crate::markdown::run(&report).starts_with("# ResNet \\<b\\>, 8 \\& 4\n\nWatched for "));
}

#[test]
fn the_environment_names_the_machine_and_the_versions() {
    let mut run = run(3, verdict());
    let header = header("python train.py");
    assert!(!page(&run, &header, None).contains("<td>host</td>"));
    let text = |text: &str| Some(text.to_owned());
    let known = &mut run.environment;
    (known.host, known.cpu_model) = (text("gpu-17"), text("Intel(R) Xeon(R) 8462Y+"));
    (known.python, known.torch) = (text("3.12.4"), text("2.6.0+cu124"));
    let page = page(&run, &header, None);
    for (what, value) in
        [("host", "gpu-17"), ("CPU model", "Intel(R) Xeon(R) 8462Y+"), ("Python", "3.12.4"), ("torch", "2.6.0+cu124")]
    {
        assert!(page.contains(&format!("<td>{what}</td><td>{value}</td>")), "{what}: {page}");
    }
}

#[test]
fn a_run_of_several_days_names_the_day_wherever_it_names_a_time() {
    let mut run = run(3, verdict());
    let day_later = 86_400;
    let frame = Frame {
        seconds: 1.0,
        monotonic_ns: day_later * 1_000_000_000,
        unix_ms: 1_770_000_000_000 + day_later as i64 * 1000,
        ..Frame::default()
    };
    run.push(&Tick { frame: Arc::new(frame), verdict: Arc::new(Verdict::default()), ..Tick::default() });
    let page = page(&run, &header("python train.py"), None);
    assert!(page.contains("2026-02-02 02:40:01 to 2026-02-03 02:40:00 UTC, 4 s"), "{page}");
    assert!(page.contains("<td>02-02 02:40:00</td>") && page.contains("<td>02-03 02:39:59</td>"), "{page}");
}

#[test]
fn the_last_edge_of_the_time_axis_is_the_end_of_the_run() {
    for (ends, began, wanted) in [
        (vec![1000, 2000], Some(400), vec![0.4, 1.0, 2.0]),
        (vec![1000, 2000], Some(-5000), vec![0.0, 1.0, 2.0]),
        (vec![1000], None, vec![0.0, 1.0]),
        (vec![1000, 1000], Some(7000), vec![0.999, 1.0, 1.0]),
        (vec![], Some(1), vec![]),
    ] {
        assert_eq!(charts::edges(ends, began), wanted);
    }
}

#[test]
fn a_profile_is_drawn_and_its_tables_are_there() {
    let page = super::profile(&profiled(), Some("Eight <b>"));
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?}: {page}"));
    let order = [
        "<title>Eight &lt;b&gt; – trainmon report</title>",
        "<p>trace.json.gz · rank 1 of 8 · window 1.05 s · 6 steps of 175 ms · longest 181 ms · steps marked for the profiler</p>",
        "<h1>DATA LOADER",
        "Step 5 of 6, 175 ms",
        "GPU 0 (NVIDIA H100 80GB HBM3): 50% busy, 50% idle",
        "Calls that wait for the GPU",
        "<td>cudaStreamSynchronize in aten::item, train.py:41 (train_step)</td>",
        "<td title=\"void cutlass::Kernel2&lt;gemm_0&gt;(Params)\">gemm bf16 0</td>",
        "and 10 more",
        "40 TFLOP/s over the window of the GPU&#39;s 989 in bf16: 4% of its peak (MFU).",
        "The file ends early",
    ];
    assert!(order.map(place).is_sorted(), "{:?}", order.map(place));
    // The parts of the bar are all of the window.
    let bar = page.split("<div class=\"parts\"").nth(1).and_then(|rest| rest.split("</div>").next()).unwrap();
    let widths = bar.split("width:").skip(1).filter_map(|part| part.split('%').next()?.parse::<f64>().ok());
    assert!((widths.sum::<f64>() - 100.0).abs() < 0.1, "{bar}");
    for kind in trainmon_profiles::drawn::SliceKind::ALL {
        assert!(page.contains(&format!("<path class=\"{}\" d=\"M", kind.word())), "{kind:?}");
        assert!(STYLE.contains(&format!(".{}", kind.word())), "no color for {kind:?}");
    }
    assert!(page.contains("<title>slice of sync · in calls that wait for the GPU</title>"));
    assert!(page.contains("3 more threads and streams are not drawn"));
    for loads in ["src=", "href=", "@import", "url(", "<script"] {
        assert!(!page.contains(loads), "{loads}");
    }
}

#[test]
fn a_run_whose_verdict_has_a_profile_shows_it_beside_the_timelines() {
    let page = page(&run(90, profiled()), &header("python train.py"), None);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?}"));
    let places = ["id=\"timelines\"", "id=\"drawn\"", "Time by verdict", "GPU 0 (NVIDIA"].map(place);
    assert!(places.is_sorted(), "{places:?}");
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
            advice: vec![trainmon_diagnosis::diagnosis::verdict::Advice { title: text.clone(), why: text.clone(), ..Default::default() }],
            ..verdict()
        };
        let plain = Verdict { summary: "x".into(), command: "x".into(), ..told.clone() };
        let plain = Verdict { advice: vec![trainmon_diagnosis::diagnosis::verdict::Advice { title: "x".into(), why: "x".into(), ..Default::default() }], ..plain };
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
    fn foreign_text_of_a_profile_stays_text(text in "[ -~]{1,40}|.{1,20}", number in proptest::num::f64::ANY) {
        let pages = [profiled_with(&text, number), profiled_with("x", number)].map(|verdict| super::profile(&verdict, None));
        let [hostile, tame] = pages.map(|page| page.matches('<').count());
        // An empty name takes its slice's hint with it.
        prop_assert!(trainmon_base::text::sanitize(&text).trim().is_empty() || hostile == tame, "{} {}", hostile, tame);
        let page = super::profile(&profiled_with("x", number), None);
        prop_assert!(!page.contains("NaN") && !page.contains("inf"), "{}", elements(&page));
    }

    #[test]
    fn json_ends_no_script(text in ".{0,60}") {
        let json = script_json(&vec![format!("</script>{text}<!--")]);
        prop_assert!(!json.contains('<'));
        let back: Vec<String> = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&back[0], &format!("</script>{text}<!--"));
    }
}
