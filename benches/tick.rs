//! What one tick costs: reading the processes of a job (1, 33 and 1,000 of them) with the sampler, the host's files, its control
//! group, its disks and the other processes of the machine, from the real `/proc`.
//!
//! The jobs are sleeping children of the benchmark, so their files are real and nothing else in them moves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a benchmark")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};
use trainmon::sources::cgroup::CgroupReader;
use trainmon::sources::host::HostReader;
use trainmon::sources::job::JobReader;
use trainmon::sources::other_processes::OtherProcessesReader;
use trainmon::sources::sampler::Sampler;
use trainmon::sources::storage::StorageReader;
use trainmon::sources::{Roots, SourceOptions, gpu};

/// A shell with so many sleeping children below it, ended on drop.
struct Job {
    shell: Child,
}

impl Job {
    fn start(children: usize) -> Self {
        let script = format!(
            "i=0; while [ $i -lt {children} ]; do sleep 600 & i=$((i+1)); done; echo ready; wait; exec sleep 600"
        );
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let out = shell.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("ready");
        Self { shell }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.shell);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Eight Instinct cards with a process each, in files of a disk in memory where there is one.
fn amd(c: &mut Criterion) {
    let folder =
        tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" }).expect("a folder");
    let sys = folder.path().join("sys");
    let write = |path: String, content: &[u8]| {
        let path = sys.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        std::fs::write(path, content).expect("writable");
    };
    let mut table = vec![0; 2208];
    table[..4].copy_from_slice(&[0xa0, 0x08, 1, 7]);
    for card in 0..8_u32 {
        let device = format!("class/drm/card{card}/device");
        let uevent = format!("PCI_SLOT_NAME=0000:{:02x}:00.0\n", card + 1);
        for (name, content) in [
            ("vendor", &b"0x1002\n"[..]),
            ("uevent", uevent.as_bytes()),
            ("power/runtime_status", b"active\n"),
            ("gpu_metrics", &table),
            ("mem_info_vram_total", b"206141652992\n"),
            ("mem_info_vram_used", b"107374182400\n"),
            ("hwmon/hwmon0/power1_input", b"612000000\n"),
            ("hwmon/hwmon0/freq1_input", b"2100000000\n"),
        ] {
            write(format!("{device}/{name}"), content);
        }
        let (node, gpu_id) = (format!("class/kfd/kfd/topology/nodes/{card}"), 100 + card);
        write(format!("{node}/gpu_id"), gpu_id.to_string().as_bytes());
        write(
            format!("{node}/properties"),
            format!("drm_render_minor {}\nlocation_id {}\n", 128 + card, (card + 1) << 8).as_bytes(),
        );
        write(format!("class/kfd/kfd/proc/{}/vram_{gpu_id}", 7000 + card), b"90000000000\n");
    }
    let roots = Roots { sys, ..Roots::default() };
    let options = SourceOptions { roots, nvml_lib: Some("/nowhere/libnvidia-ml.so.1".into()), simulated_gpu: None };
    let mut gpus = gpu::open(&options).expect("eight cards");
    let mut now_ns = 0;
    c.bench_function("tick of eight AMD GPUs", |b| {
        b.iter(|| {
            now_ns += 1_000_000_000;
            gpus.read(now_ns).expect("read")
        });
    });
}

fn tick(c: &mut Criterion) {
    let roots = Roots::default();
    for processes in [1_usize, 33, 1000] {
        let job = Job::start(processes - 1);
        let mut reader = JobReader::attach(&roots.proc, job.shell.id(), false).expect("attach");
        let mut sampler = Sampler::new(&roots.proc);
        let mut now_ns = 0;
        c.bench_function(&format!("tick of a job of {processes} processes"), |b| {
            b.iter(|| {
                now_ns += 1_000_000_000;
                let mut sample = reader.read(now_ns);
                sample.sampler = sampler.take();
                sampler.follow(reader.sampler_plan());
                sample
            });
        });
        c.bench_function(&format!("round of the sampler, job of {processes} processes"), |b| {
            b.iter(|| {
                now_ns += 20_000_000;
                sampler.round(now_ns);
                sampler.take()
            });
        });
    }
    amd(c);
    let mut host = HostReader::new(&roots);
    c.bench_function("tick of the host's files", |b| b.iter(|| host.read(1).expect("host")));
    let mut cgroup = CgroupReader::for_process(&roots, std::process::id());
    c.bench_function("tick of the control group", |b| b.iter(|| cgroup.read()));
}

/// The disks and the mounts of a job's files; the descriptors and mappings of its processes are read only now and then.
fn storage(c: &mut Criterion) {
    let mut reader = StorageReader::new(&Roots::default());
    let pids = [std::process::id()];
    for (what, step_ns) in [("again within the second", 1), ("a second later", 1_000_000_000)] {
        let mut now_ns = 0;
        c.bench_function(&format!("tick of the disks, {what}"), |b| {
            b.iter(|| {
                now_ns += step_ns;
                reader.read(now_ns, &pids, false).expect("disks")
            });
        });
    }
}

/// The other processes, as they are and with 300 more.
fn other_processes(c: &mut Criterion) {
    for more in [0_usize, 300] {
        let job = (more > 0).then(|| Job::start(more));
        let mut reader = OtherProcessesReader::new(&Roots::default());
        let mut now_ns = 0;
        c.bench_function(&format!("scan of the machine's processes and {more} more"), |b| {
            b.iter(|| {
                now_ns += 1_000_000_000;
                reader.read(now_ns, &[]).expect("processes")
            });
        });
        drop(job);
    }
}

criterion_group!(benches, tick, storage, other_processes);
criterion_main!(benches);
