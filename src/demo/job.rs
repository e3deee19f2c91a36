//! The demo as a running job: started, and ended without a trace when dropped.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use super::plan::DemoPlan;
use super::python;
use crate::cli::DemoBottleneck;
use trainmon_sources::simulated_gpu::{SimulatedGpu, SimulatedGpuState, StateFile};

/// The programs of the job.
const PROGRAMS: [(&str, &str); 4] = [
    ("train.py", include_str!("../../assets/demo/train.py")),
    ("job.py", include_str!("../../assets/demo/job.py")),
    ("simulated_gpu.py", include_str!("../../assets/demo/simulated_gpu.py")),
    ("storage_server.py", include_str!("../../assets/demo/storage_server.py")),
];
/// How long the job may take to make its images and start its workers.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the job may take to end when asked to.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A running demo. Dropping it ends all its processes, reaps them and removes its folder.
#[derive(Debug)]
pub struct DemoJob {
    /// The training process: the one to attach to.
    child: Child,
    /// The file of the simulated GPU, as `sources::gpu::open` takes it. It has no name on any disk: the path goes
    /// through our own table of descriptors and is good for this process only, for as long as the job lives.
    pub device_path: PathBuf,
    _device: OwnedFd,
    storage: Option<Child>,
    /// Removed when the processes have ended: fields are dropped after the job itself.
    _folder: TempDir,
}

impl DemoJob {
    /// Starts the demo with this Python and this many workers, or as many as the bottleneck needs.
    ///
    /// Call it from a thread that lives as long as the job (the process's first thread): the kernel ends the children with the
    /// thread that made them (`PR_SET_PDEATHSIG`, prctl(2)).
    ///
    /// # Errors
    /// One line: what failed.
    pub fn start(python: &Path, bottleneck: DemoBottleneck, workers: Option<u8>) -> anyhow::Result<Self> {
        let plan = DemoPlan::new(bottleneck);
        let folder = tempfile::Builder::new().prefix("trainmon-demo-").tempdir().context("cannot make a folder")?;
        for (name, text) in PROGRAMS {
            fs::write(folder.path().join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        let device = rustix::fs::memfd_create("simulated-gpu", rustix::fs::MemfdFlags::CLOEXEC)
            .context("cannot make a memory file for the simulated GPU")?;
        let device_path = PathBuf::from(format!("/proc/self/fd/{}", device.as_raw_fd()));
        let state = SimulatedGpuState {
            owner_memory_bytes: 6 << 30,
            power_busy_mw: plan.power_busy_mw,
            ..SimulatedGpuState::default()
        };
        SimulatedGpu::create(&device_path, &[state]).context("cannot make the simulated GPU")?;
        let mut command = python::command(python, folder.path(), "train.py");
        command.args(plan.arguments(workers));
        let storage = match plan.storage_delay {
            Some(delay) => {
                let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on 127.0.0.1")?;
                command.args(["--storage", &listener.local_addr()?.to_string()]);
                let mut server = python::command(python, folder.path(), "storage_server.py");
                server.arg(delay.as_secs_f64().to_string()).stdin(OwnedFd::from(listener));
                server.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
                Some(server.spawn().context("cannot start the demo's storage server")?)
            }
            None => None,
        };
        command.stdin(device.try_clone()?).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let started = command.spawn().with_context(|| format!("cannot run {}", python.display()));
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                storage.into_iter().for_each(|mut server| end_group(&mut server));
                return Err(error);
            }
        };
        let mut job = Self { child, device_path, _device: device, storage, _folder: folder };
        job.wait_until_it_trains()?;
        Ok(job)
    }

    /// PID of the training process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the training process has made its workers and taken the simulated GPU.
    fn wait_until_it_trains(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.owns_gpu() {
            if let Some(status) = self.child.try_wait()? {
                let mut said = String::new();
                if let Some(stderr) = self.child.stderr.take() {
                    let _ = stderr.take(4096).read_to_string(&mut said);
                }
                let said = said.trim().lines().next_back().unwrap_or("it printed no error");
                anyhow::bail!(
                    "the demo's train.py ended at once ({status}): {}",
                    trainmon_base::text::sanitize(said)
                );
            }
            if begun.elapsed() > START_TIMEOUT {
                anyhow::bail!(
                    "the demo did not start within {} s: is the machine very busy?",
                    START_TIMEOUT.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn owns_gpu(&self) -> bool {
        let state = StateFile::open(&self.device_path).and_then(|file| file.read(0));
        state.is_ok_and(|state| state.is_some_and(|state| state.owner() == Some(self.pid())))
    }
}

impl Drop for DemoJob {
    fn drop(&mut self) {
        // First the gentle way, in which the training process reaps its own workers.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < END_TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
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
