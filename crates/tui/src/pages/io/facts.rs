//! What the job reads, how much of it comes from storage, and other signs that storage or memory is short.

use ratatui::style::Style;

use super::cause;
use crate::format;
use crate::widgets::{Scene, Text};
use trainmon_base::text::fit;
use trainmon_diagnosis::diagnosis::verdict::Subject;
use trainmon_rates::frame::NetRates;
use trainmon_sample::MountKind;
use trainmon_waits::Frame;

/// Below so many bytes per second the page cache is not mentioned: logs and libraries read more than that.
const LITTLE: f64 = 65_536.0;
/// If storage delivers more than this times what read calls asked for, the rest was read in another way.
const BEYOND: f64 = 1.05;
/// Interfaces that move less are idle, bytes per second.
const IDLE: f64 = 1024.0;

/// Adds the sentence about the page cache, and the other numbers below it.
pub fn add(text: &mut Text, frame: &Frame, scene: &Scene<'_>) {
    let (job, theme) = (&frame.job, scene.theme);
    match (finite(job.read_chars_per_s), finite(job.read_bytes_per_s)) {
        (Some(chars), Some(bytes)) => text.wrapped("", 0, &cache(chars, bytes, frame), theme.strong()),
        _ if frame.seconds <= 0.0 => text.wrapped("", 0, "Rates need a second sample.", Style::new()),
        (None, Some(bytes)) => {
            let reads = format!("The job reads {} from storage.", format::rate(Some(bytes)));
            text.wrapped("", 0, &reads, theme.strong());
        }
        _ => {
            let told = scene.not_seen(Subject::Io);
            let why = told.map_or("cannot read its counters", |missing| cause(&missing.why));
            let fix = told.and_then(|missing| missing.fix.as_deref());
            text.missing(&format!("Cannot tell what the job reads: {why}."), fix);
        }
    }
    let pieces: Vec<_> = pieces(frame).into_iter().map(|piece| (piece, Style::new())).collect();
    text.pieces(" · ", &pieces);
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
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
        return format!("The job reads almost nothing: {called} through read calls, {stored} from storage.{note}");
    }
    if bytes > chars * BEYOND {
        return format!(
            "{stored} from storage, {called} through read calls: files are mapped, or read ahead of their use.{note}"
        );
    }
    if frame.storage.mounts.is_empty() {
        return format!(
            "{called} through read calls, {stored} from storage. No open data file: the rest is page cache, pipes or \
             sockets."
        );
    }
    let hits = format::share(Some((1.0 - bytes / chars).clamp(0.0, 1.0)));
    format!(
        "{called} through read calls, {stored} from storage: at most {hits} from the page cache (read calls on pipes \
         and sockets count too).{note}"
    )
}

/// The other numbers, each with its name.
fn pieces(frame: &Frame) -> Vec<String> {
    let (job, host) = (&frame.job, &frame.host);
    let per_s = |value: Option<f64>| format!("{}/s", format::number(value));
    let mut pieces = Vec::new();
    // If the counters cannot be read, the sentence above says so for all of them.
    if job.read_chars_per_s.is_some() || job.write_bytes_per_s.is_some() {
        pieces.push(format!("read calls {}", per_s(job.read_calls_per_s)));
        let (calls, storage) = (format::rate(job.write_chars_per_s), format::rate(job.write_bytes_per_s));
        pieces.push(format!("written {calls} (to storage {storage})"));
    }
    pieces.push(format!("major faults {}", per_s(job.major_faults_per_s)));
    pieces.push(match job.refaults_per_s {
        Some(pages) => format!("pages read again {}", per_s(Some(pages))),
        None => format!("pages read again {} (host)", per_s(host.refaults_per_s)),
    });
    let (free, fitted) = (format::bytes(host.memory_available_bytes), format::bytes(host.memory_total_bytes));
    pieces.push(format!("memory available {free} of {fitted}"));
    let (io, memory) = (format::percent(host.psi_io_some_pct), format::percent(host.psi_memory_some_pct));
    pieces.push(format!("pressure: io {io}, memory {memory}"));
    if let Some(swap) = finite(host.swap_in_per_s).filter(|pages| *pages >= 0.5) {
        pieces.push(format!("swapped in {} pages/s", format::number(Some(swap))));
    }
    if let Some(limit) = job.memory_limit_bytes {
        let used = format::bytes(job.memory_cgroup_bytes);
        pieces.push(format!("cgroup memory {used} of {}", format::bytes(Some(limit))));
    }
    match job.io_read_limit {
        (None, None) => pieces.push("no read limit".to_owned()),
        (bytes, ops) => {
            let bytes = bytes.map(|b| format::rate(Some(b as f64)));
            let ops = ops.map(|n| format!("{n} reads/s"));
            let both: Vec<String> = bytes.into_iter().chain(ops).collect();
            pieces.push(format!("cgroup READ LIMIT {}", both.join(", ")));
        }
    }
    pieces
}

/// Adds the interfaces on one line, the busiest first, and how many are idle.
pub fn network(text: &mut Text, frame: &Frame) {
    let host = &frame.host;
    let total = |rx, tx| format!("in {} out {}", format::mib_s(rx), format::mib_s(tx));
    let moved =
        |net: &&NetRates| finite(net.rx_bytes_per_s).unwrap_or(0.0) + finite(net.tx_bytes_per_s).unwrap_or(0.0);
    let mut busy: Vec<_> = host.net.iter().filter(|net| moved(net) >= IDLE).collect();
    busy.sort_by(|a, b| moved(b).total_cmp(&moved(a)));
    let mut pieces = vec![format!("all {} MiB/s", total(host.net_rx_bytes_per_s, host.net_tx_bytes_per_s))];
    pieces.extend(
        busy.iter().map(|net| format!("{} {}", fit(&net.name, 15), total(net.rx_bytes_per_s, net.tx_bytes_per_s))),
    );
    let idle = host.net.len() - busy.len();
    if idle > 0 {
        pieces.push(format!("{idle} idle"));
    }
    let line = fit(&pieces.join(" · "), text.width.saturating_sub(9));
    text.spans([("Network  ".to_owned(), text.theme.strong()), (line, Style::new())]);
}
