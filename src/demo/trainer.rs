//! The trainer: takes batches in order from its workers and trains on the simulated device.
//!
//! Its standard input is the device's state file (a file without a name, made by the parent); its standard output is
//! a pipe that says nothing and tells it, by being closed, that the parent is gone.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::plan::{BATCH_BYTES, DATASET_BYTES, PREFETCH, Plan};
use crate::cli::Bottleneck;
use crate::sources::simulated_device::state::name_bytes;
use crate::sources::simulated_device::{DeviceState, SimulatedGpu, sleep_until};

/// Trains until the parent is gone.
///
/// # Errors
/// When the device's file, the data set or a worker cannot be made, or a worker dies.
pub fn run(bottleneck: Bottleneck, workers: Option<u8>, storage: Option<SocketAddr>) -> anyhow::Result<()> {
    super::become_part(c"demo-trainer");
    let mut plan = Plan::of(bottleneck);
    plan.workers = workers.map_or(plan.workers, usize::from);
    let data = data_set()?;
    // Started before the threads that feed them, so that no worker inherits another one's pipes.
    let workers =
        (0..plan.workers).map(|_| Worker::start(&plan, &data.path, storage)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut gpu = SimulatedGpu::create(
        Path::new("/proc/self/fd/0"),
        &[DeviceState {
            name: name_bytes("trainmon simulated GPU"),
            owner_memory_bytes: 6 << 30,
            power_busy_mw: plan.power_busy_mw,
            ..DeviceState::default()
        }],
    )
    .context("no simulated device")?;
    let mut workers: Vec<Fed> = workers.into_iter().map(Worker::feed).collect::<anyhow::Result<_>>()?;
    let mut ends: VecDeque<u64> = VecDeque::new();
    let mut batch = vec![0; BATCH_BYTES];
    let mut next = 0u64;
    // The epoch's beginning: every worker gets its first indices, round robin.
    for _ in 0..PREFETCH {
        for worker in &mut workers {
            worker.ask(next)?;
            next += 1;
        }
    }
    let mut turn = 0;
    while !parent_gone() {
        let count = workers.len();
        let Some(worker) = workers.get_mut(turn % count.max(1)) else { break };
        worker.batches.read_exact(&mut batch).context("a worker died")?;
        worker.ask(next)?;
        next += 1;
        turn += 1;
        super::burn(plan.host, &mut batch);
        gpu.launch(plan.device).context("the simulated device is gone")?;
        ends.push_back(gpu.free_at_ns());
        while ends.len() > plan.run_ahead {
            if let Some(end) = ends.pop_front() {
                sleep_until(end);
            }
        }
    }
    Ok(())
}

/// Whether the reader of our standard output is gone.
fn parent_gone() -> bool {
    let out = io::stdout();
    let mut files = [PollFd::from_borrowed_fd(out.as_fd(), PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut files, Some(&now)), Ok(1..)) && files.iter().any(|file| !file.revents().is_empty())
}

/// The data set, in a file without a name: nothing is left on the disk, however this ends.
struct DataSet {
    path: PathBuf,
    _file: File,
}

fn data_set() -> anyhow::Result<DataSet> {
    let folder = std::env::temp_dir();
    let unnamed = File::options()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(OFlags::TMPFILE.bits().cast_signed())
        .open(&folder);
    let mut file = match unnamed {
        Ok(file) => file,
        // Some file systems know no unnamed files (O_TMPFILE in open(2)): memory does as well.
        Err(_) => File::from(rustix::fs::memfd_create("demo-data", rustix::fs::MemfdFlags::CLOEXEC)?),
    };
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..DATASET_BYTES / block.len() as u64 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block).context("no room for the demo's data set of 16 MiB in the temporary folder")?;
    }
    // Workers open it through our own table of descriptors; it stays open for as long as we run.
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&file)));
    Ok(DataSet { path, _file: file })
}

/// A worker process that has not been fed yet.
struct Worker(Child);

impl Worker {
    fn start(plan: &Plan, data: &Path, storage: Option<SocketAddr>) -> anyhow::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("trainmon")
            .arg("demo-worker")
            .args(["--transform-us", &plan.transform.as_micros().to_string()])
            .arg("--data")
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(address) = storage {
            command.args(["--storage", &address.to_string()]);
        }
        Ok(Self(command.spawn().context("no worker")?))
    }

    /// Starts the thread that hands out indices: one write for each batch, as loaders do.
    fn feed(mut self) -> anyhow::Result<Fed> {
        let mut out = self.0.stdin.take().context("no pipe to a worker")?;
        let batches = self.0.stdout.take().context("no pipe from a worker")?;
        let (indices, receive) = channel::<u64>();
        std::thread::spawn(move || {
            for index in receive {
                if out.write_all(&index.to_le_bytes()).is_err() {
                    return;
                }
            }
        });
        Ok(Fed { indices, batches, child: self.0 })
    }
}

/// A worker at work.
struct Fed {
    indices: Sender<u64>,
    batches: ChildStdout,
    child: Child,
}

impl Fed {
    fn ask(&mut self, index: u64) -> anyhow::Result<()> {
        self.indices.send(index).map_err(|_| anyhow::anyhow!("a worker died"))
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
