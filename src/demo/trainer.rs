//! The trainer: takes batches in order from its workers and trains on the simulated device.
//!
//! Its standard input is the device's state file (a file without a name, made by the parent); its standard output is
//! a pipe that says nothing and tells it, by being closed, that the parent is gone.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::plan::{BATCH_BYTES, DATASET_BYTES, DemoPlan, PREFETCH};
use crate::cli::DemoBottleneck;
use crate::sources::simulated_device::state::name_bytes;
use crate::sources::simulated_device::{DeviceState, SimulatedGpu, monotonic_ns};

/// Trains until the parent is gone, or fails as soon as a worker dies.
pub fn run(bottleneck: DemoBottleneck, workers: Option<u8>, storage: Option<SocketAddr>) -> anyhow::Result<()> {
    super::become_part(c"demo-trainer");
    let mut plan = DemoPlan::new(bottleneck);
    plan.workers = workers.map_or(plan.workers, usize::from);
    let data = data_set()?;
    // Workers open it through our own table of descriptors; it stays open for as long as we run.
    let data_path = format!("/proc/{}/fd/{}", std::process::id(), data.as_raw_fd());
    let mut workers =
        (0..plan.workers).map(|_| Worker::start(&plan, &data_path, storage)).collect::<anyhow::Result<Vec<_>>>()?;
    let device = DeviceState {
        name: name_bytes("trainmon simulated GPU"),
        owner_memory_bytes: 6 << 30,
        power_busy_mw: plan.power_busy_mw,
        ..DeviceState::default()
    };
    let mut gpu = SimulatedGpu::create(Path::new("/proc/self/fd/0"), &[device]).context("no simulated device")?;
    let mut ends: VecDeque<u64> = VecDeque::new();
    let mut batch = vec![0; BATCH_BYTES];
    // The epoch's beginning: every worker gets its first indices, round robin.
    let count = workers.len();
    let prefetched = PREFETCH * count;
    for index in 0..prefetched {
        let Some(worker) = workers.get_mut(index % count) else { break };
        worker.request(index)?;
    }
    for step in (0..).take_while(|_| !parent_gone()) {
        let Some(worker) = workers.get_mut(step % count.max(1)) else { break };
        worker.batches.read_exact(&mut batch).context("a worker died")?;
        worker.request(prefetched + step)?;
        super::burn(plan.host, &mut batch);
        gpu.launch(plan.device).context("the simulated device is gone")?;
        ends.push_back(gpu.free_at_ns());
        // A blocking synchronisation with the end of an earlier launch.
        while ends.len() > plan.run_ahead
            && let Some(end_ns) = ends.pop_front()
        {
            std::thread::sleep(Duration::from_nanos(end_ns.saturating_sub(monotonic_ns())));
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
fn data_set() -> anyhow::Result<File> {
    // Where none can be made memory does as well.
    let in_memory = || rustix::fs::memfd_create("demo-data", rustix::fs::MemfdFlags::CLOEXEC).map(File::from);
    let mut file = tempfile::tempfile().or_else(|_| in_memory())?;
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
    Ok(file)
}

/// A worker process, and the thread that hands out its indices.
struct Worker {
    indices: Sender<u64>,
    batches: ChildStdout,
    child: Child,
}

impl Worker {
    fn start(plan: &DemoPlan, data: &str, storage: Option<SocketAddr>) -> anyhow::Result<Self> {
        let mut command = super::part_command(Path::new("/proc/self/exe"), "demo-worker");
        command.args(["--transform-us", &plan.transform.as_micros().to_string(), "--data", data]);
        if let Some(address) = storage {
            command.args(["--storage", &address.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("no worker")?;
        let mut out = child.stdin.take().context("no pipe to a worker")?;
        let batches = child.stdout.take().context("no pipe from a worker")?;
        let (indices, receive) = channel::<u64>();
        // One write for each batch, as loaders do.
        std::thread::spawn(move || receive.iter().try_for_each(|index| out.write_all(&index.to_le_bytes())));
        Ok(Self { indices, batches, child })
    }

    /// Asks for a batch.
    fn request(&self, index: usize) -> anyhow::Result<()> {
        self.indices.send(index as u64).map_err(|_| anyhow::anyhow!("a worker died"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
