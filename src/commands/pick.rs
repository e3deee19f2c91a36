//! Which process to attach to when no PID is given: the list of those that may be training, best first.
//!
//! The list and the choice are pure; only [`target`] looks at the machine and asks the person. The live screen asks with
//! a screen of its own ([`super::pick_screen`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, IsTerminal, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::config::Settings;
use crate::errors::Failure;
use crate::sources::processes::{self, Listed};
use crate::text::sanitise;
use crate::tui::jobs::Candidate;

/// Those of the processes that may be training, best first: GPU users by memory held, then Python with data workers,
/// then Python with a machine-learning library, the youngest first. Of a tree only the topmost one is listed:
/// attaching to it takes in everything that it has started.
///
/// `gpu` holds device memory by PID; `own` (trainmon itself) is left out.
#[must_use]
pub fn candidates(
    processes: &[Listed],
    gpu: &BTreeMap<u32, u64>,
    own: u32,
    mut library: impl FnMut(u32) -> Option<String>,
) -> Vec<Candidate> {
    let workers = processes::data_workers(processes);
    let mut found: BTreeMap<u32, Candidate> = BTreeMap::new();
    for process in processes.iter().filter(|process| process.pid != own) {
        let part = processes::is_part(process);
        let python = processes::is_python(process);
        let memory = gpu.get(&process.pid).copied();
        let below = workers.get(&process.pid).copied().filter(|_| python).unwrap_or(0);
        let library = if python && !part { library(process.pid) } else { None };
        if !part && (memory.is_some() || below > 0 || library.is_some()) {
            found.insert(
                process.pid,
                Candidate {
                    pid: process.pid,
                    command: if process.command.is_empty() { process.comm.clone() } else { process.command.clone() },
                    gpu_memory_bytes: memory,
                    workers: below,
                    library,
                    age_s: process.age_s,
                    ..Candidate::default()
                },
            );
        }
    }
    let mut list = topmost(found, processes);
    list.sort_by_key(|candidate| {
        (
            std::cmp::Reverse(candidate.gpu_memory_bytes.map(|bytes| bytes.saturating_add(1))),
            std::cmp::Reverse(candidate.workers > 0),
            candidate.age_s.unwrap_or(u64::MAX),
            candidate.pid,
        )
    });
    list
}

/// Folds candidates below another candidate into it.
fn topmost(mut found: BTreeMap<u32, Candidate>, processes: &[Listed]) -> Vec<Candidate> {
    let parents: BTreeMap<u32, u32> = processes.iter().map(|process| (process.pid, process.parent)).collect();
    let all: BTreeSet<u32> = found.keys().copied().collect();
    for &pid in &all {
        let mut at = pid;
        let mut top = None;
        for _ in 0..64 {
            match parents.get(&at) {
                Some(&parent) if parent > 0 => at = parent,
                _ => break,
            }
            if at != pid && all.contains(&at) {
                top = Some(at);
            }
        }
        if let Some(top) = top
            && let Some(below) = found.remove(&pid)
            && let Some(top) = found.get_mut(&top)
            && let Some(memory) = below.gpu_memory_bytes
        {
            top.gpu_memory_bytes = Some(top.gpu_memory_bytes.unwrap_or(0).saturating_add(memory));
        }
    }
    found.into_values().collect()
}

/// The list for a person, numbered from 1, each line at most `width` columns wide.
#[must_use]
pub fn lines(list: &[Candidate], width: usize) -> Vec<String> {
    let digits = list.iter().map(|candidate| candidate.pid.to_string().len()).max().unwrap_or(1);
    list.iter()
        .enumerate()
        .map(|(position, candidate)| {
            let mut facts = candidate.facts();
            if let Some(age) = candidate.age_s {
                facts.push(format!("for {}", age_words(age)));
            }
            let command = sanitise(&candidate.command);
            let line = format!("{:>3}) {:>digits$}  {}  {command}", position + 1, candidate.pid, facts.join(", "));
            cut(&line, width)
        })
        .collect()
}

/// A time in its two largest units.
fn age_words(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The text cut to so many columns.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(3);
    let mut short = String::new();
    for c in text.chars() {
        let columns = c.width().unwrap_or(0);
        if columns > room {
            break;
        }
        room -= columns;
        short.push(c);
    }
    short + "..."
}

/// What a person answered to the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This PID.
    Pid(u32),
    /// None of them.
    Quit,
    /// Ask again, with this line.
    Again(String),
}

/// Reads an answer: nothing for the first, a number of the list, a PID of the list, or q.
#[must_use]
pub fn answer(list: &[Candidate], text: &str) -> Answer {
    let text = text.trim();
    if text.is_empty() {
        return list.first().map_or(Answer::Quit, |candidate| Answer::Pid(candidate.pid));
    }
    if text.eq_ignore_ascii_case("q") {
        return Answer::Quit;
    }
    let number = text.parse::<usize>().ok();
    let by_place = number.and_then(|number| list.get(number.checked_sub(1)?));
    let by_pid = || list.iter().find(|candidate| Some(candidate.pid as usize) == number);
    match by_place.or_else(by_pid) {
        Some(candidate) => Answer::Pid(candidate.pid),
        None => Answer::Again(format!("a number from 1 to {}, Enter for the first, q to quit", list.len())),
    }
}

/// The PID that needs no question: the one given, or the only candidate, which is named on standard error.
///
/// # Errors
/// The candidates, where there is not exactly one; or standard error cannot be written.
pub fn certain(settings: &Settings) -> std::io::Result<Result<u32, Vec<Candidate>>> {
    if let Some(pid) = settings.call.pid {
        return Ok(Ok(pid));
    }
    let list = find(settings, &gpu_users(settings));
    let [only] = list.as_slice() else { return Ok(Err(list)) };
    let line = lines(&list, 200).concat();
    writeln!(std::io::stderr(), "trainmon: attaching to the only candidate:{}", line.trim_start())?;
    Ok(Ok(only.pid))
}

/// The PID to attach to: the one given, the only candidate, or the one chosen at the terminal.
///
/// # Errors
/// A usage failure when there is none, or several and nobody to ask.
pub fn target(settings: &Settings) -> anyhow::Result<u32> {
    let list = match certain(settings)? {
        Ok(pid) => return Ok(pid),
        Err(list) => list,
    };
    let mut err = std::io::stderr();
    match list.as_slice() {
        [] => Err(Failure::usage("no training process found; give one with --pid (or try trainmon demo)").into()),
        _ if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => ask(&list),
        _ => {
            for line in lines(&list, 120) {
                writeln!(err, "{line}")?;
            }
            Err(Failure::usage("several processes may be training; give one with --pid").into())
        }
    }
}

/// The candidates on this machine.
#[must_use]
pub fn find(settings: &Settings, gpu: &BTreeMap<u32, u64>) -> Vec<Candidate> {
    let root = &settings.proc_root;
    candidates(&processes::list(root), gpu, std::process::id(), |pid| processes::library(root, pid))
}

/// Device memory by PID. A driver that hangs must not keep the list from being shown.
fn gpu_users(settings: &Settings) -> BTreeMap<u32, u64> {
    let nvml_lib = settings.nvml_lib.clone();
    let read = move || {
        let mut reader = crate::sources::gpu::open(nvml_lib.as_deref(), None).ok()?;
        reader.read(crate::sources::simulated_device::monotonic_ns()).ok()
    };
    let sample = super::within(std::time::Duration::from_secs(2), "gpu-users", read).flatten();
    let mut users = BTreeMap::new();
    for process in sample.iter().flat_map(|sample| &sample.devices).flat_map(|device| &device.processes) {
        *users.entry(process.pid).or_insert(0) += process.memory_bytes.unwrap_or(0);
    }
    users
}

/// That a person has left the question, or the screen that asks it, without an answer.
pub fn nothing_chosen() -> Failure {
    Failure::usage("nothing chosen; give a process with --pid")
}

fn ask(list: &[Candidate]) -> anyhow::Result<u32> {
    let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
    let mut out = std::io::stdout().lock();
    writeln!(out, "These processes may be training:")?;
    for line in lines(list, width.max(20)) {
        writeln!(out, "{line}")?;
    }
    loop {
        write!(out, "Attach to which? [1] ")?;
        out.flush()?;
        let mut text = String::new();
        if std::io::stdin().lock().read_line(&mut text)? == 0 {
            return Err(nothing_chosen().into());
        }
        match answer(list, &text) {
            Answer::Pid(pid) => return Ok(pid),
            Answer::Quit => return Err(nothing_chosen().into()),
            Answer::Again(line) => writeln!(out, "{line}")?,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, comm: &str, command: &str) -> Listed {
        Listed {
            pid,
            parent,
            comm: comm.to_owned(),
            command: command.to_owned(),
            age_s: Some(90),
            ..Listed::default()
        }
    }

    fn host() -> Vec<Listed> {
        vec![
            process(1, 0, "systemd", "/sbin/init"),
            process(10, 1, "python", "/usr/bin/python3 train.py"),
            process(11, 10, "pt_data_worker", "/usr/bin/python3 train.py"),
            process(12, 10, "pt_data_worker", "/usr/bin/python3 train.py"),
            process(20, 1, "torchrun", "python3.12 torchrun x.py"),
            process(21, 20, "python", "python3.12 -u x.py"),
            process(30, 1, "python3", "python3 web.py"),
            process(60, 1, "python", "python -c from multiprocessing.forkserver import main"),
            process(61, 60, "pt_data_worker", "python -c from multiprocessing.forkserver import main"),
            process(70, 1, "python", "python jupyter-lab"),
            process(71, 70, "python", "python kernel"),
            process(72, 71, "python", "python -c from multiprocessing.forkserver import main"),
            process(73, 72, "pt_data_worker", "python -c from multiprocessing.forkserver import main"),
            process(40, 1, "llama-server", "llama-server -m x"),
            process(50, 1, "trainmon", "trainmon"),
        ]
    }

    fn library(pid: u32) -> Option<String> {
        [10, 11, 20, 21].contains(&pid).then(|| "libtorch_cpu.so".to_owned())
    }

    #[test]
    fn gpu_users_first_then_workers_then_libraries() {
        let gpu = BTreeMap::from([(40, 5 << 30), (50, 1)]);
        let pids = |gpu: &BTreeMap<u32, u64>| -> Vec<u32> {
            candidates(&host(), gpu, 50, library).iter().map(|candidate| candidate.pid).collect()
        };
        assert_eq!(pids(&gpu), [40, 10, 71, 20]);
        assert_eq!(pids(&BTreeMap::from([(21, 1 << 30)])), [20, 10, 71]);
        assert_eq!(pids(&BTreeMap::new()), [10, 71, 20]);
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let ring = [process(2, 3, "python", "python a"), process(3, 2, "python", "python b")];
        assert!(candidates(&ring, &BTreeMap::new(), 1, |_| Some("libtorch.so".to_owned())).len() <= 2);
    }

    #[test]
    fn answers() {
        let list = candidates(&host(), &BTreeMap::new(), 50, library);
        assert_eq!(answer(&list, "\n"), Answer::Pid(10));
        assert_eq!(answer(&list, " 2\n"), Answer::Pid(71));
        assert_eq!(answer(&list, "10"), Answer::Pid(10));
        assert_eq!(answer(&list, "q"), Answer::Quit);
        for bad in ["0", "4", "-1", "x", "99999999999999999999999"] {
            assert!(matches!(answer(&list, bad), Answer::Again(_)), "{bad}");
        }
    }

    #[test]
    fn lines_fit_and_are_safe() {
        let hostile = Candidate {
            pid: 5,
            command: "python \u{1b}[2J\nx 日本語日本語".repeat(9),
            gpu_memory_bytes: Some(3 << 29),
            workers: 1,
            library: Some("libtorch_cpu.so".to_owned()),
            age_s: Some(90_000),
            ..Candidate::default()
        };
        let lines = lines(&[hostile], 60);
        assert!(lines[0].starts_with("  1) 5  GPU 1.5 GiB, 1 worker, torch, for 1 d 1 h  python"), "{lines:?}");
        assert!(lines[0].width() <= 60 && !lines[0].contains(['\u{1b}', '\n']));
    }
}
