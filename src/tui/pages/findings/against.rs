//! What speaks against the verdict: evidence on the wrong side of its threshold, sources that no longer deliver what it
//! rests on, and the other findings.
//!
//! The diagnosis has weighed all of this already: the confidence says how much it counted. Here a person sees what there
//! was to weigh.

use ratatui::style::Style;

use super::sources::{self, Trouble};
use super::{MOST, Side, side};
use crate::diagnosis::verdict::{Class, Verdict};
use crate::text::sanitise;
use crate::tui::format;
use crate::tui::labels::{signal, verdict_name};
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::text::Text;

/// When a signal speaks against a verdict.
struct Rule {
    /// The signal's name.
    signal: &'static str,
    /// The side of its threshold that does.
    side: Side,
    /// The classes it speaks against.
    classes: &'static [Class],
    /// The causes; all where none is named.
    causes: &'static [&'static str],
    /// What it means.
    words: &'static str,
}

const LOADER: &[Class] = &[Class::DataLoader];
const NOT_LOADER: &[Class] = &[Class::Gpu, Class::Balanced];
const NOT_GPU: &[Class] = &[Class::DataLoader, Class::Io, Class::Cpu];
/// Any cause of the classes.
const ANY: &[&str] = &[];
/// Workers are slow at their own work.
const WORKERS: &[&str] = &["too-few-workers", "decode", "transform", "collate"];
/// The workers wait for their source.
const SOURCE: &[&str] = &["disk-bandwidth", "small-files", "network-storage", "page-cache-miss"];
/// The main thread is slow at its own work: other causes on the CPU let it wait for batches.
const MAIN: &[&str] = &["main-thread", "launch-bound", "host-device-sync"];

const fn rule(
    signal: &'static str,
    side: Side,
    classes: &'static [Class],
    causes: &'static [&'static str],
    words: &'static str,
) -> Rule {
    Rule { signal, side, classes, causes, words }
}

const RULES: &[Rule] = &[
    rule("input_wait", Side::Under, LOADER, ANY, "the main thread hardly waits for batches"),
    rule("input_wait", Side::Over, NOT_LOADER, ANY, "the main thread waits for batches too"),
    rule("input_wait", Side::Over, &[Class::Cpu], MAIN, "the main thread waits for batches too"),
    rule("lost_wait", Side::Under, LOADER, ANY, "the device is busy during most of the waiting"),
    rule("lost_wait", Side::Under, &[Class::Io], SOURCE, "the device is busy during most of the waiting"),
    rule("lost_wait", Side::Over, NOT_LOADER, ANY, "the device idles while batches are waited for"),
    rule("lost_wait", Side::Over, &[Class::Cpu], MAIN, "the device idles while batches are waited for"),
    rule("gpu_busy", Side::Over, NOT_GPU, ANY, "the device is busy nevertheless: little is left to gain"),
    rule("gpu_busy", Side::Under, &[Class::Gpu], &["compute-bound", "memory-bandwidth"], "the device has idle time"),
    rule("gpu_throttled", Side::Over, NOT_GPU, ANY, "the device is throttled as well"),
    rule("gpu_others", Side::Over, NOT_GPU, ANY, "other processes use the device too"),
    rule("workers_busy", Side::Under, LOADER, WORKERS, "the workers are not on a CPU all the time"),
    rule("workers_idle", Side::Over, LOADER, WORKERS, "the workers often have nothing to do"),
    rule("workers_idle", Side::Over, &[Class::Io], SOURCE, "the workers often have nothing to do"),
    rule("cpu_full", Side::Over, LOADER, &["too-few-workers"], "the CPUs are full: more workers would share them"),
    rule("cpu_full", Side::Under, &[Class::Cpu], &["cores-saturated"], "some CPU time is left over"),
    rule("main_run_delay", Side::Over, NOT_LOADER, ANY, "the main thread queues for a CPU"),
    rule("main_run_delay", Side::Over, &[Class::DataLoader, Class::Io], ANY, "the main thread queues for a CPU"),
    rule("cgroup_throttled", Side::Over, LOADER, ANY, "the CPU quota throttles the job"),
    rule("cgroup_throttled", Side::Over, NOT_LOADER, ANY, "the CPU quota throttles the job"),
    rule("disk_busy", Side::Under, &[Class::Io], &["disk-bandwidth"], "the disk has idle time"),
    rule("disk_busy", Side::Over, LOADER, ANY, "the disk is busy as well"),
    rule("disk_read_size", Side::Over, &[Class::Io], &["small-files"], "reads are not small on average"),
    rule("psi_memory", Side::Over, LOADER, ANY, "memory is short"),
    rule("psi_memory", Side::Over, NOT_LOADER, ANY, "memory is short"),
];

impl Rule {
    fn applies(&self, verdict: &Verdict) -> bool {
        let cause = verdict.cause.as_deref().unwrap_or_default();
        self.classes.contains(&verdict.class) && (self.causes.is_empty() || self.causes.contains(&cause))
    }
}

/// Adds the section.
pub fn add(page: &mut Text, verdict: &Verdict, scene: &Scene<'_>) {
    page.heading("What speaks against it, and what else was found");
    let before = page.lines.len();
    for e in verdict.evidence.iter().take(MOST) {
        let found =
            RULES.iter().find(|rule| rule.signal == e.signal && side(e) == Some(rule.side) && rule.applies(verdict));
        if let Some(rule) = found {
            let unit = sanitise(&e.unit);
            let (value, threshold) = (format::in_unit(e.value, &unit), format::in_unit(e.threshold, &unit));
            let text = format!("{} {value} is {} {threshold}: {}", signal(rule.signal), rule.side.word(), rule.words);
            page.wrapped("  against: ", 11, &text, Style::new());
        }
    }
    for Trouble { name, state, why } in sources::stale(verdict, scene) {
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let rests = if rests_on(verdict, name) {
            "the verdict rests on its old values"
        } else {
            "the verdict does without it"
        };
        page.wrapped("  source:  ", 11, &format!("{name} {state}{why}: {rests}"), page.theme.strong());
    }
    for f in verdict.other_findings.iter().take(MOST) {
        let name = verdict_name(f.class, f.cause.as_deref());
        let text = format!("{name} ({}) – {}", format::share(Some(f.confidence)), sanitise(&f.text));
        page.wrapped("  besides: ", 11, &text, Style::new());
    }
    if page.lines.len() == before {
        page.wrapped("", 2, "Nothing that was measured.", Style::new());
    }
}

/// Whether any of the verdict's numbers come from this source.
fn rests_on(verdict: &Verdict, source: &str) -> bool {
    let any = |prefixes: &[&str]| {
        verdict.evidence.iter().any(|e| prefixes.iter().any(|prefix| e.signal.starts_with(prefix)))
    };
    match source {
        "processes" => true,
        "host" => any(&["cpu_", "cgroup_", "psi_"]),
        "disks" => any(&["disk_", "io_"]),
        "GPU" => verdict.gpu_idle.is_some() || any(&["gpu_", "lost_wait", "sm_active", "pcie"]),
        "stacks" => verdict.main_thread.is_some() || verdict.workers.iter().any(|worker| worker.stages.is_some()),
        _ => false,
    }
}
