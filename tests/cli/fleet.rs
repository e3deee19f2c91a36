//! `fleet`: what it makes of what Prometheus answers, and of whatever else may be at its address.

use std::net::TcpListener;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::export::{Exporter, certificate};
use crate::outcome::{assert_one_line, refused};
use crate::process::{Target, text, trainmon};
use crate::prometheus::{Reply, Server, answered, fake, http, run_of, series, vector};

/// The fake closes each connection after an answer, so fleet connects for each query.
fn fleet(url: &str, more: &[&str]) -> Output {
    let mut words = vec!["fleet", "--prometheus", url];
    words.extend(more);
    trainmon(&words).output().unwrap()
}

#[test]
fn the_late_rank_and_its_cause_are_named() {
    let url = fake(run_of(8));
    let output = fleet(&url, &["--price", "$2"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let table = text(&output.stdout);
    for part in [
        "1 late rank · 1 run · 8 ranks · 8 machines · 8 GPUs, without work 50% of the time ($8.00 an hour)",
        "llama · 8 ranks",
        "Rank 7 on node-7 is late: IO · ",
        "The others wait 70% of the time, it waits 10%.",
        "LATE · IO",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let output = fleet(&url, &["--json", "--job", "llama"]);
    let fleet_json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &fleet_json["runs"][0];
    assert_eq!(
        (&run["late"]["kind"], &run["late"]["ranks"], &run["cause"]),
        (&json!("rank"), &json!([7]), &json!("network-storage"))
    );
    assert_eq!((&fleet_json["unix_s"], &fleet_json["window_s"]), (&json!(1_700_000_000.5), &json!(300.0)));
    assert_eq!(fleet_json["runs"][0]["ranks"][7]["marks"], json!(["LATE"]));
    assert_one_line(&fleet(&url, &["--job", "opt"]), 1, &["no run is called `opt`", "llama"]);
}

#[test]
fn whatever_else_answers_is_one_line() {
    let cases: [(&str, Server); 11] = [
        ("not the API of Prometheus", |_| http("404 Not Found", "text/html", "<html>no</html>")),
        ("not the API of Prometheus", |_| http("500 Internal Server Error", "text/plain", "oops")),
        ("not that of Prometheus", |_| http("200 OK", "text/html", "<html>hello</html>")),
        ("Prometheus says: too many queries", |_| {
            http("503 Service Unavailable", "application/json", r#"{"status":"error","error":"too many queries"}"#)
        }),
        ("--token-file", |_| http("401 Unauthorized", "text/plain", "")),
        ("redirects to https://other", |_| {
            Reply::Bytes(b"HTTP/1.1 302 Found\r\nLocation: https://other\x1b[2J\r\n\r\n".to_vec())
        }),
        ("the connection broke", |_| Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec())),
        ("the connection broke", |_| Reply::Bytes(Vec::new())),
        ("the connection broke", |_| Reply::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())),
        ("not that of Prometheus", |_| {
            answered(
                &json!({ "status": "success", "data": { "resultType": "vector", "result": [{ "metric": { "rank": 7 }, "value": [1, "1"] }] } }),
            )
        }),
        ("no metrics of trainmon", |_| answered(&vector(&[]))),
    ];
    for (part, reply) in cases {
        let url = fake(reply);
        // A header with a control character is no HTTP.
        let part = if part.starts_with("redirects") { "the connection broke" } else { part };
        let fixed = if part.starts_with("no metrics") {
            "trainmon export"
        } else {
            "cannot ask Prometheus at http://127.0.0.1:"
        };
        let output = fleet(&url, &[]);
        assert_one_line(&output, 1, &[part, fixed]);
        assert!(output.stdout.is_empty() && !text(&output.stderr).contains('\u{1b}'));
    }
    let redirects = fake(|_| Reply::Bytes(b"HTTP/1.1 302 Found\r\nLocation: https://other/\r\n\r\n".to_vec()));
    assert_one_line(&fleet(&redirects, &[]), 1, &["redirects to https://other/: give that URL"]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_one_line(&fleet(&format!("http://{closed}"), &[]), 1, &["cannot connect", "refused"]);
}

#[test]
fn a_server_that_takes_for_ever_is_not_waited_for() {
    for (reply, part) in
        [((|_| Reply::Slow) as Server, "no answer within 5 s"), (|_| Reply::Endless, "longer than 32 MiB")]
    {
        let begun = Instant::now();
        assert_one_line(&fleet(&fake(reply), &[]), 1, &[part]);
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }
}

#[test]
fn ten_thousand_ranks_are_one_table() {
    let begun = Instant::now();
    let output = fleet(&fake(run_of(10_000)), &[]);
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("Rank 9999 on node-9999 is late"), "{}", text(&output.stderr));
    assert!(table.lines().count() > 10_000 && begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn labels_steer_no_terminal_and_numbers_are_used_once() {
    let url = fake(|query| {
        let labels = |rank: &str, instance: &str| json!({ "job": "\u{1b}[2J", "instance": instance, "pid": "7", "training_job": "a\u{1b}]0;x\u{7}\nb", "rank": rank });
        let both = |value: f64| {
            answered(&vector(&[
                series(labels("0", "a\u{202e}:1"), value),
                series(labels("0", "b\r:1"), f64::NAN),
                series(labels("0", "b\r:1"), value),
            ]))
        };
        match query {
            _ if query.contains("rank_blocked") => both(0.5),
            _ if query.contains("verdict_confidence") => both(1.0),
            _ if query.contains("step_duration") => both(f64::MAX),
            _ if query.contains("rank_world_size") => both(-3.0),
            _ => answered(&vector(&[])),
        }
    });
    let output = fleet(&url, &[]);
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("number used twice"), "{output:?}");
    assert!(table.contains("The late rank cannot be named"), "{table}");
    assert!(table.chars().all(|c| c == '\n' || !c.is_control()) && !table.contains('\u{202e}'), "{table:?}");
    assert!(fleet(&url, &["--json"]).status.success());
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef").unwrap();
    let file = file.to_str().unwrap();
    for (words, part) in [
        (vec!["--prometheus", "prom:9090"], "`prom:9090` is not a URL"),
        (vec!["--prometheus", "http://me:secret@prom"], "--token-file"),
        (vec!["--prometheus", "http://prom", "--token-file", file], "without TLS"),
        (vec!["--prometheus", "http://prom", "--window", "1s"], "10s to 24h"),
        (vec!["--prometheus", "http://prom", "--interval", "1s"], "--interval 5s"),
        (vec!["--prometheus", "http://prom", "--pid", "1"], "remove --pid"),
        (vec!["--prometheus", "https://prom", "--ca-file", file], "no certificate in it"),
        (vec!["--prometheus", "https://prom", "--ca-file", "/nonexistent"], "cannot read /nonexistent"),
        (vec![], "--prometheus"),
    ] {
        let mut all = vec!["fleet"];
        all.extend(&words);
        let output = trainmon(&all).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains(part) && said.lines().count() == 1 && !said.contains("secret"), "{words:?}: {said}");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}");
    }
    refused(trainmon(&["fleet", "--prometheus", "http://prom", "--log", "-"]), 2, &["remove --log"]);
}

/// The server is `trainmon export`, which is no Prometheus but speaks TLS and wants the token: what it answers shows how far it got.
#[test]
fn tls_and_the_token_are_right_or_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (own, key) = certificate(folder.path());
    let [token, other] = ["token", "other"].map(|name| folder.path().join(name));
    std::fs::write(&token, "0123456789abcdef").unwrap();
    std::fs::write(&other, "fedcba9876543210").unwrap();
    let [own, key, token, other] = [&own, &key, &token, &other].map(|path| path.to_str().unwrap());
    let job = Target::sleeping();
    let exporter =
        Exporter::start(&["--pid", &job.pid(), "--token-file", token, "--tls-cert", own, "--tls-key", key]);
    let url = format!("https://{}", exporter.address);
    let asked = |more: &[&str]| fleet(&url, more);
    assert_one_line(&asked(&["--ca-file", own, "--token-file", token]), 1, &["HTTP status 405", "/api/v1"]);
    assert_one_line(&asked(&["--ca-file", own, "--token-file", other]), 1, &["401", "--token-file"]);
    assert_one_line(&asked(&["--ca-file", own]), 1, &["401", "--token-file"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let (stranger, _) = certificate(elsewhere.path());
    assert_one_line(&asked(&["--ca-file", stranger.to_str().unwrap()]), 1, &["no TLS connection", "--ca-file"]);
    assert_one_line(&fleet(&url.replace("https", "http"), &[]), 1, &["the connection broke"]);
}
