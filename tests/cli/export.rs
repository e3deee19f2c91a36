//! `trainmon export`: what a scraper gets, who may ask, and the file for node_exporter.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use trainmon::http::tls;

use crate::outcome::{assert_one_line, finish, refused, wait_for};
use crate::process::{Target, installed, pause, signal, text, trainmon, two_candidates, until};

/// A running exporter, ended with the test.
pub struct Exporter {
    child: Child,
    pub address: String,
    /// What it says later.
    said: BufReader<ChildStderr>,
}

impl Exporter {
    /// Starts it at a free port.
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = trainmon(&["export", "--listen", "127.0.0.1:0", "--no-stacks"]);
        let mut child = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.split("://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("it does not say where it listens: {line}")).to_owned();
        Self { child, address, said }
    }

    /// The answer to a GET with these header lines: all of it.
    fn get(&self, path: &str, headers: &str) -> String {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        ask(stream, path, headers)
    }

    /// The metrics once they hold a line that begins so.
    fn metrics_with(&self, beginning: &str) -> String {
        let began = Instant::now();
        loop {
            let metrics = self.get("/metrics", "");
            if metrics.lines().any(|line| line.starts_with(beginning)) {
                return metrics;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "no {beginning} in {metrics}");
            pause(50);
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(mut stream: impl Read + Write, path: &str, headers: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[test]
fn a_job_is_served_until_it_ends() {
    let mut job = Target::busy();
    let mut exporter = Exporter::start(&["--pid", &job.pid(), "-i", "100ms", "--training-job", "night run"]);
    let metrics = exporter.metrics_with("trainmon_job_cpu_seconds_total");
    assert!(metrics.starts_with("HTTP/1.1 200 OK") && metrics.contains("text/plain; version=0.0.4"), "{metrics}");
    let labels = format!("pid=\"{}\",training_job=\"night run\"", job.id());
    assert!(metrics.contains(&format!("trainmon_verdict{{{labels},class=\"unknown\"}}")), "{metrics}");
    assert_eq!(value(&metrics, "trainmon_up{}"), Some(1.0));
    assert_eq!(value(&metrics, "trainmon_followed_jobs{}"), Some(1.0));
    assert!(!metrics.contains("while :"), "never the command line");
    let open = exporter.get("/metrics", "Accept: application/openmetrics-text; version=1.0.0, text/plain;q=0.5\r\n");
    assert!(
        open.contains("content-type: application/openmetrics-text; version=1.0.0") && open.ends_with("# EOF\n"),
        "{open}"
    );
    assert!(exporter.get("/", "").contains("/metrics"));
    job.end();
    assert_eq!(exporter.child.wait().unwrap().code(), Some(0), "it ends with the job that was named");
    let mut rest = String::new();
    exporter.said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn without_a_pid_all_jobs_are_served_until_a_signal() {
    let root = tempfile::tempdir().unwrap();
    two_candidates(root.path());
    let mut exporter = Exporter::start(&["--proc-root", root.path().to_str().unwrap(), "-i", "100ms"]);
    let both = exporter.metrics_with("trainmon_followed_jobs{} 2");
    assert_eq!(value(&both, "trainmon_up{}"), Some(1.0));
    exporter.metrics_with("trainmon_phase{pid=\"17\"");
    signal(exporter.child.id(), Signal::TERM);
    assert_eq!(exporter.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_time_limit_ends_it() {
    let job = Target::sleeping();
    let output = finish(trainmon(&["export", &job.pid(), "--listen", "0", "--duration", "300ms", "--no-stacks"]));
    assert_one_line(&output, 0, &["metrics at http://127.0.0.1:"]);
}

/// A certificate for 127.0.0.1 and its key, and the certificate as its own authority.
pub fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn other_machines_need_a_token_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    let token = folder.path().join("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let [certificate, key, token] = [&certificate, &key, &token].map(|path| path.to_str().unwrap());
    let job = Target::sleeping();
    for arguments in [vec!["--listen", ":0"], vec!["--listen", "0.0.0.0:0", "--token-file", token]] {
        let mut command = trainmon(&["export", "--pid", &job.pid()]);
        command.args(arguments);
        refused(command, 2, &["other machines", "--token-file", "--tls-cert", "--insecure"]);
    }
    let tls_options = ["--token-file", token, "--tls-cert", certificate, "--tls-key", key];
    let exporter = Exporter::start(&[&["--pid", &job.pid(), "--no-ptrace"][..], &tls_options].concat());
    let trusted = tls::client(&fs::read_to_string(certificate).unwrap()).unwrap();
    let get = |headers: &str| {
        let name = "127.0.0.1".try_into().unwrap();
        let client = rustls::ClientConnection::new(Arc::clone(&trusted), name).unwrap();
        let stream = TcpStream::connect(&exporter.address).unwrap();
        ask(rustls::StreamOwned::new(client, stream), "/metrics", headers)
    };
    let metrics = get(&format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(metrics.contains("trainmon_up{} 1"), "{metrics}");
    let without = get("");
    assert!(without.starts_with("HTTP/1.1 401") && !without.contains("trainmon_up"), "{without}");
    let plain = exporter.get("/metrics", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(!plain.contains("trainmon_up"), "nothing without TLS: {plain}");
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let short = folder.path().join("short");
    fs::write(&short, "secret\n").unwrap();
    let job = Target::sleeping();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _taken = std::net::TcpListener::bind(taken).unwrap();
    let taken = taken.to_string();
    let missing = folder.path().join("missing");
    let [short, missing] = [&short, &missing].map(|path| path.to_str().unwrap());
    for (arguments, code, parts) in [
        (vec!["--listen", &taken], 1, vec!["cannot listen at", "another trainmon"]),
        (vec!["--listen", "192.0.2.1:0", "--insecure"], 1, vec!["cannot listen at 192.0.2.1:0"]),
        (vec!["--listen", "example"], 2, vec!["127.0.0.1:9845"]),
        (vec!["--token-file", short], 2, vec!["no token in", "16 to 4096", "openssl rand"]),
        (vec!["--token-file", missing], 2, vec!["cannot read", "missing: no such file"]),
        (vec!["--token-file", "/"], 2, vec!["cannot read /", "directory"]),
        (vec!["--tls-cert", certificate], 2, vec!["--tls-key"]),
        (vec!["--tls-cert", key, "--tls-key", key], 1, vec!["no certificate in it"]),
        (vec!["--tls-cert", certificate, "--tls-key", certificate], 1, vec!["no private key in it"]),
        (vec!["--textfile", "metrics.txt"], 2, vec![".prom", "--textfile metrics.prom"]),
        (vec!["--textfile", "/nowhere/x.prom"], 1, vec!["metrics /nowhere/x.prom: no such folder"]),
        (vec!["-n", "3"], 2, vec!["remove -n"]),
        (vec!["--log", "x.csv"], 2, vec!["remove --log"]),
    ] {
        let mut command = trainmon(&["export", "--pid", &job.pid(), "--no-stacks"]);
        command.args(&arguments);
        refused(command, code, &parts);
    }
    refused(trainmon(&["export", "--pid", "4194303"]), 3, &["4194303"]);
}

#[test]
fn node_exporter_gets_whole_texts_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trainmon.prom");
    let job = Target::sleeping();
    let mut command = trainmon(&["export", "--pid", &job.pid(), "--no-stacks", "--textfile", file.to_str().unwrap()]);
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    until("a text", || file.exists());
    let metrics = fs::read_to_string(&file).unwrap();
    assert!(metrics.starts_with("# HELP trainmon_up ") && metrics.ends_with('\n'), "{metrics}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644, "node_exporter is another user");
    signal(child.id(), Signal::INT);
    let output = wait_for(child);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "what is no longer so is removed");
}

#[test]
fn thousands_of_scrapes_and_slow_clients_cost_little() {
    let job = Target::sleeping();
    let exporter = Exporter::start(&["--pid", &job.pid()]);
    exporter.metrics_with("trainmon_phase");
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", exporter.child.id())).unwrap().count();
    let before = descriptors();
    // Half a request each; the last ones are not even accepted yet.
    let slow: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(&exporter.address).unwrap();
            stream.write_all(b"GET /metrics HT").unwrap();
            stream
        })
        .collect();
    for _ in 0..2_000 {
        assert!(exporter.get("/metrics", "").starts_with("HTTP/1.1 200"));
    }
    drop(slow);
    until("connections are closed", || descriptors() <= before + 2);
    let peak = crate::process::peak_kib(exporter.child.id());
    assert!(peak < 64 << 10, "{peak} KiB");
}

#[test]
fn slow_clients_do_not_keep_a_scraper_out() {
    let job = Target::sleeping();
    let exporter = Exporter::start(&["--pid", &job.pid()]);
    exporter.metrics_with("trainmon_phase");
    // All places are taken by clients that go on sending, a byte at a time.
    let (address, is_over) = (exporter.address.clone(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ").unwrap();
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) && stream.write_all(b"x").is_ok() {
                    pause(100);
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let began = Instant::now();
        assert!(exporter.get("/metrics", "").starts_with("HTTP/1.1 200"));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    is_over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// Prometheus from Debian's package, ended with the test.
struct Prometheus {
    child: Child,
    address: String,
    _data: TempDir,
}

impl Prometheus {
    /// Scrapes these targets every second. `None` where it is not installed.
    fn start(targets: &[&str]) -> Option<Self> {
        let program = installed("prometheus")?;
        let data = tempfile::tempdir().unwrap();
        let assets = format!("{}/assets/prometheus", env!("CARGO_MANIFEST_DIR"));
        let config = fs::read_to_string(format!("{assets}/prometheus.yml")).unwrap();
        let config = config
            .replace("127.0.0.1:9845", &targets.join(", "))
            .replace("interval: 15s", "interval: 1s")
            .replace("- trainmon.rules.yml", &format!("- {assets}/trainmon.rules.yml"));
        let path = data.path().join("prometheus.yml");
        fs::write(&path, config).unwrap();
        // A free port, most likely still free when it binds.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let child = Command::new(program)
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { child, address, _data: data })
    }

    /// The result of a query; `None` before it answers.
    fn query(&self, query: &str) -> Option<Value> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let stream = TcpStream::connect(&self.address).ok()?;
        let answer = ask(stream, &format!("/api/v1/query?query={escaped}"), "Connection: close\r\n");
        let (head, body) = answer.split_once("\r\n\r\n")?;
        if head.starts_with("HTTP/1.1 503") {
            return None;
        }
        let from = body.find('{')?;
        let answer: Value = serde_json::Deserializer::from_str(&body[from..]).into_iter().next()?.ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        Some(answer["data"]["result"].clone())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The queries of the dashboard, with everything chosen.
fn queries() -> Vec<String> {
    let dashboard = fs::read(format!("{}/assets/grafana/trainmon.json", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    targets
        .map(|target| target["expr"].as_str().unwrap().replace("$instance", ".*").replace("$training_job", ".*"))
        .collect()
}

#[test]
fn a_real_prometheus_takes_the_metrics_the_alerts_and_the_dashboard() {
    let root = env!("CARGO_MANIFEST_DIR");
    let Some(promtool) = installed("promtool") else {
        eprintln!("skipped: promtool is not installed; tests/run.sh unpacks it");
        return;
    };
    let promtool = |arguments: &[&str], input: Option<&str>| {
        let mut command = Command::new(&promtool);
        command.args(arguments).current_dir(root).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes()).unwrap();
        let output = wait_for(child);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    };
    promtool(&["check", "config", "assets/prometheus/prometheus.yml"], None);
    promtool(&["check", "rules", "assets/prometheus/trainmon.rules.yml"], None);
    promtool(&["test", "rules", "tests/fixtures/trainmon.rules.test.yml"], None);
    let job = Target::busy();
    let exporter = Exporter::start(&["--pid", &job.pid(), "-i", "200ms"]);
    let metrics = exporter.metrics_with("trainmon_job_cpu_seconds_total");
    let (_, metrics) = metrics.split_once("\r\n\r\n").unwrap();
    assert_eq!(promtool(&["check", "metrics"], Some(metrics)), "", "no complaint of the linter");

    let prometheus = Prometheus::start(&[&exporter.address]).unwrap();
    let began = Instant::now();
    let is_there =
        || prometheus.query("trainmon_verdict == 1").is_some_and(|found| found[0]["metric"]["pid"] == job.pid());
    while !is_there() {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", prometheus.query("up"));
        pause(200);
    }
    assert_eq!(prometheus.query("up").unwrap()[0]["value"][1], "1");
    let queries = queries();
    assert!(queries.len() > 15);
    // Each of them is understood, and names metrics that exist.
    let described: String = trainmon::outputs::metrics::tables()
        .into_iter()
        .flat_map(|(_, rows)| rows)
        .map(|row| format!(" {} ", row.name))
        .collect();
    for query in &queries {
        prometheus.query(query).unwrap();
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("trainmon_")) {
            assert!(described.contains(&format!(" {name} ")), "{name} in {query}");
        }
    }
    let jobs = queries.iter().find(|query| query.contains("followed_jobs")).unwrap();
    assert_eq!(prometheus.query(jobs).unwrap()[0]["value"][1], "1");
}

#[test]
fn the_daemon_set_has_only_the_rights_that_it_needs() {
    let manifest =
        fs::read_to_string(format!("{}/assets/kubernetes/trainmon-export.yaml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for right in [
        "privileged: false",
        "drop: [ALL]",
        "add: [SYS_PTRACE, DAC_READ_SEARCH]",
        "readOnlyRootFilesystem: true",
        "automountServiceAccountToken: false",
        "allowPrivilegeEscalation: false",
    ] {
        assert!(manifest.contains(right), "{right}");
    }
    for wrong in ["hostPath", "hostNetwork", "ClusterRole", "privileged: true"] {
        assert!(!manifest.contains(wrong), "{wrong}");
    }
    let unit =
        fs::read_to_string(format!("{}/assets/systemd/trainmon-export.service", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert!(
        unit.contains("DynamicUser=yes")
            && unit.contains("CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH\n")
    );
}
