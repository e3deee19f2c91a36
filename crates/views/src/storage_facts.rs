//! What the job reads, how much of it comes from storage, and other signs that storage or memory is short.

use trainmon_base::text::{fit, format};
use trainmon_rates::frame::NetRates;
use trainmon_sample::MountKind;
use trainmon_waits::Frame;

/// Below so many bytes per second the page cache is not mentioned: logs and libraries read more than that.
const LITTLE: f64 = 65_536.0;
/// If storage delivers more than this times what read calls asked for, the rest was read in another way.
const BEYOND: f64 = 1.05;
/// Less than this is nothing, percent or a second; and of bytes a second.
const LEAST_NUMBER: f64 = 0.5;
const LEAST_BYTES: f64 = 10_240.0;
/// Interfaces that move less are idle, bytes per second.
const IDLE: f64 = 1024.0;

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

/// Where what the job reads comes from, in a sentence; `None` where its counters cannot be read.
pub fn reads(frame: &Frame) -> Option<String> {
    Some(match (finite(frame.job.read_chars_per_s), finite(frame.job.read_bytes_per_s)) {
        (Some(chars), Some(bytes)) => cache(chars, bytes, frame),
        _ if frame.seconds <= 0.0 => "Rates need a second sample.".to_owned(),
        (None, Some(bytes)) => format!("The job reads {} from storage.", format::rate(Some(bytes))),
        _ => return None,
    })
}

/// Read calls against storage. They include reads on pipes and sockets, so the page cache's part is an upper bound.
fn cache(chars: f64, bytes: f64, frame: &Frame) -> String {
    let (called, stored) = (format::rate(Some(chars)), format::rate(Some(bytes)));
    // Some of these file systems count what their server sends as read from storage, others do not.
    let remote = |kind| matches!(kind, MountKind::Network | MountKind::Fuse);
    let remote = frame.storage.mounts.iter().find(|mount| remote(mount.kind));
    let note =
        remote.map_or_else(String::new, |mount| format!(" {} may be missing from both.", fit(&mount.fs_type, 16)));
    if chars < LITTLE && bytes < LITTLE {
        return format!("The job reads almost nothing: {called} with read calls, {stored} from storage.{note}");
    }
    if bytes > chars * BEYOND {
        return format!(
            "The job reads {stored} from storage, mostly through mapped files ({called} with read calls).{note}"
        );
    }
    if frame.storage.mounts.is_empty() {
        return format!(
            "The job reads {called}, of which {stored} come from storage. No data file is open: the rest is memory, pipes or sockets."
        );
    }
    let hits = format::share(Some((1.0 - bytes / chars).clamp(0.0, 1.0)));
    format!(
        "The job reads {called}: {stored} from storage, at most {hits} from memory (page cache, pipes, sockets).{note}"
    )
}

/// A number: its name, its value, from which value on it is worth a number, and how that is written.
type StorageNumber<'n> = (&'static str, Option<f64>, f64, &'n dyn Fn(f64) -> String);

/// The other numbers, each with its name; what is zero is only named.
pub fn numbers(frame: &Frame) -> (Vec<String>, Vec<&'static str>) {
    let (job, host) = (&frame.job, &frame.host);
    let (mut pieces, mut quiet) = (Vec::new(), Vec::new());
    let per_s = |value: f64| format!("{} a second", format::number(Some(value)));
    let percent = |value: f64| format!("{} of the time", format::percent(Some(value)));
    let pages = if job.refaults_per_s.is_some() { "pages read again" } else { "pages read again on this machine" };
    let pages_per_s = |value: f64| format!("{} pages/s", format::number(Some(value)));
    let bytes = |value: f64| format::rate(Some(value));
    let numbers: [StorageNumber<'_>; 8] = [
        ("read calls", job.read_calls_per_s, LEAST_NUMBER, &per_s),
        ("writes", job.write_chars_per_s, LEAST_BYTES, &bytes),
        ("writes to storage", job.write_bytes_per_s, LEAST_BYTES, &bytes),
        ("page faults that read", job.major_faults_per_s, LEAST_NUMBER, &per_s),
        (pages, job.refaults_per_s.or(host.refaults_per_s), LEAST_NUMBER, &per_s),
        ("swapped in", host.swap_in_per_s, LEAST_NUMBER, &pages_per_s),
        ("any task waits for I/O", host.psi_io_some_pct, LEAST_NUMBER, &percent),
        ("any task waits for memory", host.psi_memory_some_pct, LEAST_NUMBER, &percent),
    ];
    for (name, value, least, show) in numbers {
        match finite(value) {
            Some(value) if value < least => quiet.push(name),
            Some(value) => pieces.push(format!("{name} {}", show(value))),
            None => pieces.push(format!("{name} {}", format::UNMEASURED)),
        }
    }
    let (free, fitted) = (format::bytes(host.memory_available_bytes), format::bytes(host.memory_total_bytes));
    pieces.push(format!("memory available {free} of {fitted}"));
    if let Some(limit) = job.memory_limit_bytes {
        let used = format::bytes(job.memory_cgroup_bytes);
        pieces.push(format!("the container uses {used} of {}", format::bytes(Some(limit))));
    }
    match job.io_read_limit {
        (None, None) => quiet.push("limits on reading"),
        (bytes, ops) => {
            let bytes = bytes.map(|b| format::rate(Some(b as f64)));
            let ops = ops.map(|n| format!("{n} reads/s"));
            let both: Vec<String> = bytes.into_iter().chain(ops).collect();
            pieces.push(format!("cgroup READ LIMIT {}", both.join(", ")));
        }
    }
    (pieces, quiet)
}

/// The interfaces, the busiest first, and how many are idle.
pub fn network(frame: &Frame) -> String {
    let host = &frame.host;
    let total = |rx, tx| format!("{} in, {} out", format::mib_s(rx), format::mib_s(tx));
    let moved =
        |net: &&NetRates| finite(net.rx_bytes_per_s).unwrap_or(0.0) + finite(net.tx_bytes_per_s).unwrap_or(0.0);
    let mut busy: Vec<_> = host.net.iter().filter(|net| moved(net) >= IDLE).collect();
    busy.sort_by(|a, b| moved(b).total_cmp(&moved(a)));
    let mut pieces = vec![format!("{} MiB/s", total(host.net_rx_bytes_per_s, host.net_tx_bytes_per_s))];
    pieces.extend(
        busy.iter().map(|net| format!("{} {}", fit(&net.name, 15), total(net.rx_bytes_per_s, net.tx_bytes_per_s))),
    );
    let idle = host.net.len() - busy.len();
    if idle > 0 {
        pieces.push(format!("{idle} idle"));
    }
    pieces.join(" · ")
}
