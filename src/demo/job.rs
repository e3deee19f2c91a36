//! The demo as a running job: started, and ended without a trace when dropped.

use std::io::Read;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process_group};

use super::part_command;
use crate::cli::DemoBottleneck;
use crate::sources::simulated_device::StateFile;

/// How long the trainer may take to set up its device.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the trainer may take to end by itself, at most a step or two.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// A running demo. Dropping it ends all its processes and reaps them.
#[derive(Debug)]
pub struct DemoJob {
    /// The trainer: the process to attach to.
    child: Child,
    /// The file of the simulated device, as `sources::gpu::open` takes it. It has no name on any disk: the path goes
    /// through our own table of descriptors and is good for this process only, for as long as the job lives.
    pub device_path: PathBuf,
    _device: OwnedFd,
    storage: Option<Child>,
    /// The trainer ends when this is closed.
    life_line: Option<ChildStdout>,
}

/// Starts the demo from an executable of trainmon, with so many workers, or as many as the bottleneck needs.
///
/// Call it from a thread that lives as long as the job (the main thread): the kernel ends the children with the
/// thread that made them (`PR_SET_PDEATHSIG`, prctl(2)).
///
/// # Errors
/// One line: what could not be made.
pub fn start_with(executable: &Path, bottleneck: DemoBottleneck, workers: Option<u8>) -> anyhow::Result<DemoJob> {
    let device = rustix::fs::memfd_create("simulated-gpu", rustix::fs::MemfdFlags::CLOEXEC)
        .context("no memory file for the simulated device")?;
    let device_path = PathBuf::from(format!("/proc/self/fd/{}", device.as_raw_fd()));
    let mut command = part_command(executable, "demo-trainer");
    let word = bottleneck.to_possible_value().context("a bottleneck without a word")?;
    command.args(["--bottleneck", word.get_name()]);
    if let Some(workers) = workers {
        command.args(["--workers", &workers.to_string()]);
    }
    let storage = match bottleneck {
        DemoBottleneck::Io => {
            let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port on the loopback interface")?;
            command.args(["--storage", &listener.local_addr()?.to_string()]);
            let mut server = part_command(executable, "demo-storage");
            server.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            Some(server.spawn().context("the demo's storage server cannot be started")?)
        }
        _ => None,
    };
    let mut child = command
        .stdin(device.try_clone()?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("the demo's trainer cannot be started")?;
    let life_line = child.stdout.take();
    let mut job = DemoJob { child, device_path, _device: device, storage, life_line };
    job.wait_for_device()?;
    Ok(job)
}

impl DemoJob {
    /// PID of the trainer.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the trainer has set up the simulated device.
    fn wait_for_device(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while StateFile::open(&self.device_path).is_err() {
            if let Some(status) = self.child.try_wait()? {
                let mut said = String::new();
                if let Some(stderr) = self.child.stderr.take() {
                    let _ = stderr.take(4096).read_to_string(&mut said);
                }
                let said = said.trim().trim_start_matches("trainmon: ");
                anyhow::bail!("the demo's trainer ended at once ({status}): {}", crate::text::sanitise(said));
            }
            if start.elapsed() > START_TIMEOUT {
                anyhow::bail!("the demo's trainer does not come up; is the machine very busy?");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for DemoJob {
    fn drop(&mut self) {
        // First the gentle way, in which the trainer reaps its own workers.
        drop(self.life_line.take());
        let start = Instant::now();
        while start.elapsed() < END_TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            end_group(&mut self.child);
        }
        if let Some(storage) = &mut self.storage {
            end_group(storage);
        }
    }
}

/// Kills the process group of a child that has not been reaped yet, so that its number cannot be another one's.
fn end_group(child: &mut Child) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}
