//! `trainmon run` as process 1 of a container: it watches nothing itself, but starts this executable once more to do so.
//!
//! The kernel gives every orphan to process 1, which has to collect them all. Apart from the monitor, it can do that
//! without taking away a status that another process waits for. And a monitor that crashes, in a driver's library, say, does
//! not end the container: process 1 then waits for the job.
//!
//! The same holds where this process has been made a subreaper, prctl(2).

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, child_subreaper, getpid, kill_process, wait};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use super::OWN;
use super::program::{is_from_terminal, listen};
use trainmon_base::errors::{self, ExitCode};

/// Starts the monitor and collects orphans until it has ended; gives its status. None where this process gets no orphans, or
/// the monitor cannot be started a second time: it then has to be this process.
pub fn run() -> Option<ExitCode> {
    let gets_orphans = getpid() == Pid::INIT || child_subreaper().is_ok_and(|set| set.is_some());
    if !gets_orphans {
        return None;
    }
    let wanted = [Signal::CHILD, Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2];
    let mut signals = listen(&wanted).ok()?;
    let monitor = Command::new(OWN).arg0("trainmon").args(std::env::args_os().skip(1)).spawn().ok()?;
    let monitor = Pid::from_raw(monitor.id().try_into().ok()?)?;
    Some(ExitCode(look_after(monitor, &mut signals)))
}

/// Forwards signals and collects whatever ends, until the monitor has ended: its status, 128 + N where signal N ended it.
fn look_after(monitor: Pid, signals: &mut SignalsInfo<WithOrigin>) -> u8 {
    let mut ended: Option<u8> = None;
    let mut told = false;
    loop {
        let left = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == monitor => {
                    if let Some(code) = status.exit_status() {
                        return u8::try_from(code & 0xff).unwrap_or(1);
                    }
                    ended = u8::try_from(128 + status.terminating_signal().unwrap_or_default()).ok();
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if let Some(code) = ended {
            if !left {
                return code;
            }
            if !told {
                let signal = code - 128;
                errors::note(&format!("the monitor was killed by signal {signal}; waiting for the program to end"));
                told = true;
            }
        }
        for origin in signals.wait() {
            let Some(signal) = Signal::from_named_raw(origin.signal).filter(|signal| signal.as_raw() != SIGCHLD)
            else {
                continue;
            };
            if ended.is_none() {
                // What the terminal sends, the monitor gets from there.
                if !is_from_terminal(&origin) {
                    let _ = kill_process(monitor, signal);
                }
                continue;
            }
            for orphan in children() {
                let _ = kill_process(orphan, signal);
            }
        }
    }
}

/// The processes that are children of this one.
fn children() -> Vec<Pid> {
    let own = std::process::id();
    let list = fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
