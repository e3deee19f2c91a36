//! `trainmon demo`: a small training-like program of our own, so that the monitor can be tried anywhere. It tells the monitor
//! nothing: what is said of it is measured.
//!
//! It is no recording and no script: a trainer process takes batches in order from worker processes, which read,
//! transform and send them over pipes, and "trains" on a simulated device (asynchronous launches, blocking
//! synchronisation). It runs as processes of this same executable and is attached to by the ordinary path.
//!
//! ```text
//! trainmon demo ─┬─ demo-trainer ─┬─ demo-worker     indices → pipe → worker → pipe → trainer
//!                │                └─ demo-worker     (prefetch 2 for each worker, in-order round robin)
//!                └─ demo-storage                     only with --bottleneck io: a slow server on 127.0.0.1
//! ```
//!
//! Nothing is left behind: the device's state and the data lie in files without a name, every process dies with its
//! parent, and [`DemoJob`] ends all of them when it is dropped.

pub mod job;
pub mod plan;
pub mod storage;
pub mod trainer;
pub mod worker;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Parser;

use crate::cli::DemoBottleneck;
use crate::errors::{self, ExitCode};

pub use job::{DemoJob, start_with};

/// The demo's own processes. Not offered to people: [`crate::cli`] knows nothing of them.
#[derive(Debug, Parser)]
#[command(name = "trainmon")]
enum DemoPart {
    #[command(name = "demo-trainer")]
    Trainer {
        #[arg(long, value_enum)]
        bottleneck: DemoBottleneck,
        #[arg(long)]
        storage: Option<std::net::SocketAddr>,
        #[arg(long)]
        workers: Option<u8>,
    },
    #[command(name = "demo-worker")]
    Worker(worker::Arguments),
    #[command(name = "demo-storage")]
    Storage,
}

/// Runs a part of the demo if the arguments name one.
pub fn run_part(arguments: &[std::ffi::OsString]) -> Option<ExitCode> {
    let word = arguments.get(1)?.to_str()?;
    if !["demo-trainer", "demo-worker", "demo-storage"].contains(&word) {
        return None;
    }
    let done = DemoPart::try_parse_from(arguments).map(|part| match part {
        DemoPart::Trainer { bottleneck, storage, workers } => trainer::run(bottleneck, workers, storage),
        DemoPart::Worker(arguments) => worker::run(&arguments),
        DemoPart::Storage => storage::run(),
    });
    Some(match done {
        Ok(Ok(())) => ExitCode::DONE,
        Ok(Err(error)) => errors::report(&error),
        Err(error) => {
            crate::streams::tell(&errors::usage_line(&error, &[], &[]));
            ExitCode::USAGE
        }
    })
}

/// A command that runs the part `role` of the demo.
fn part_command(executable: &Path, role: &str) -> Command {
    let mut command = Command::new(executable);
    command.arg0("trainmon").arg(role);
    command
}

/// Dies with its parent, and is named in `ps` by what it does.
fn become_part(name: &std::ffi::CStr) {
    // Neither can fail on Linux for these arguments; without them the demo still ends through its pipes.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let _ = rustix::thread::set_name(name);
}

/// Uses the calling thread's CPU for so long, by its own CPU clock: with busy cores it takes longer, as work does.
fn burn(length: Duration, data: &mut [u8]) {
    let clock = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    };
    let start = clock();
    let mut carry = 1u8;
    while clock().saturating_sub(start) < length {
        for byte in data.iter_mut().take(16 * 1024) {
            carry = carry.wrapping_mul(31).wrapping_add(*byte);
            *byte = carry;
        }
        std::hint::black_box(carry);
    }
}
