//! Questions before an action on a process: which signal, which process, and the effect on the run.

use rustix::process::Signal;

use super::order;
use crate::message::Effect;
use crate::pages::Reply;
use crate::widgets::{Confirm, Menu, MenuItem, Scene};
use trainmon_base::text::fit;
use trainmon_rates::frame::ProcessRates;
use trainmon_sample::ProcessRole;
use trainmon_views::labels;

/// Width of the command line in a question.
const COMMAND: usize = 60;

/// Message if signals are off.
const OFF: &str = "signals are off: start trainmon with --signals";

/// The signals of the menu: number, key, name, what it is for.
const SIGNALS: [(Signal, char, &str, &str); 8] = [
    (Signal::TERM, 't', "SIGTERM", "ask it to end"),
    (Signal::INT, 'i', "SIGINT", "like Ctrl-C"),
    (Signal::HUP, 'h', "SIGHUP", "like a closed terminal"),
    (Signal::KILL, 'k', "SIGKILL", "end it immediately, without cleanup"),
    (Signal::USR1, 'u', "SIGUSR1", "defined by the program"),
    (Signal::USR2, 'v', "SIGUSR2", "defined by the program"),
    (Signal::STOP, 's', "SIGSTOP", "stop it"),
    (Signal::CONT, 'c', "SIGCONT", "continue it"),
];

/// The menu of signals, or the reason why there is no menu.
pub(super) fn signal(process: Option<&ProcessRates>, scene: &Scene<'_>) -> Result<Reply, String> {
    let process = allowed(process, scene)?;
    let items = SIGNALS.iter().map(|(signal, key, name, text)| {
        let number = signal.as_raw();
        let question = format!("Send {name} ({number}) to {}? {}", whom(process), becomes(*signal, process.role));
        let choice = Reply::Confirm(Confirm { question, effect: Effect::Signal(process.id, number) });
        MenuItem { key: *key, text: format!("{number:>2} {name:<8} {text}"), choice }
    });
    let title = format!("Signal to {} {}", labels::role(process.role), process.id.pid);
    Ok(Reply::Menu(Menu { title, items: items.collect(), selected: 0 }))
}

/// The process, if an action is allowed: signals are on, and the screen shows the present.
fn allowed<'p>(process: Option<&'p ProcessRates>, scene: &Scene<'_>) -> Result<&'p ProcessRates, &'static str> {
    match scene.job {
        job if job.replay.is_some() => Err("this is a recording: its processes cannot be signaled"),
        _ if !scene.may_signal => Err(OFF),
        job if !job.is_live() => Err("this is a past moment, and the PID may have been reused: press } for live"),
        job if job.ended.is_some() => Err("the job has ended: this is its last moment"),
        _ => process.ok_or("no process is selected"),
    }
}

/// `rank 1234 “python train.py…”`.
fn whom(process: &ProcessRates) -> String {
    format!("{} {} “{}”", labels::role(process.role), process.id.pid, fit(order::command(process), COMMAND))
}

/// The effect on the run.
fn becomes(signal: Signal, role: ProcessRole) -> String {
    let how = match signal {
        Signal::STOP => {
            return "It stops until SIGCONT and keeps its memory and GPU memory. Processes that wait for it may time out."
                .to_owned();
        }
        Signal::CONT => return "It continues where it was stopped.".to_owned(),
        Signal::KILL => "It ends immediately, without cleanup",
        Signal::USR1 | Signal::USR2 => "It ends unless the program handles this signal",
        _ => "It ends",
    };
    let what = match role {
        ProcessRole::Rank => "the job loses everything since the last checkpoint",
        ProcessRole::Worker => {
            "the training loop then stops with an error, and the job loses everything since the last checkpoint"
        }
        ProcessRole::Launcher => {
            "the ranks it started end as well, and the job loses everything since the last checkpoint"
        }
        ProcessRole::Helper | ProcessRole::Other => "the job may fail without it",
    };
    format!("{how}: {what}.")
}
