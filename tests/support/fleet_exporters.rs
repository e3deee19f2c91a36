//! Serves the metrics of many machines on ports of this one, as `trainmon export` would on each of them. Each machine replays a bundled
//! recording in real time, again and again, with a rank, a run and GPUs of its own.
//!
//!     fleet_exporters RECORDINGS < plan.json
//!
//! It prints the port of each machine of the plan, in order, as a JSON list on one line, and ends with its standard input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a tool of the tests")]

#[path = "looped.rs"]
mod looped;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use looped::Looped;
use serde::Deserialize;
use trainmon::http::server::{self, Admission, ServedPage, Site};
use trainmon::outputs::metrics::{self, ExportedMachine, FollowedJob, JobCounters, OPEN_METRICS};
use trainmon::pipeline::Pipeline;
use trainmon::rates::frame::GpuRates;
use trainmon::sample::{ProcessRole, RankPlace, RunIdentity, Sample};

/// Samples that are replayed before the first scrape, so that each verdict is there.
const WARM_UP: usize = 24;
/// An interval of the recordings.
const INTERVAL: Duration = Duration::from_secs(1);
/// Clock of a GPU that is too hot, and its reason (nvml.h, `nvmlClocksEventReasonHwThermalSlowdown`).
const HOT: (u32, u64) = (900, 0x40);

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Planned {
    /// The recording, and which of its ranks is kept, if it has several.
    recording: String,
    #[serde(default)]
    keep: Option<usize>,
    /// Its GPU is too hot.
    #[serde(default)]
    hot: bool,
    /// No job runs there.
    #[serde(default)]
    idle: bool,
    /// Its place in the run.
    rank: u32,
    world: u32,
    /// Name and Slurm job of the run.
    run: String,
    slurm: String,
    /// It stops to answer so long after the start.
    #[serde(default)]
    down_after_s: Option<f64>,
}

/// A machine that is served.
struct Served {
    machine: Mutex<ExportedMachine>,
    down_at: Mutex<Option<Instant>>,
}

impl Site for Served {
    fn page(&self, _path: &str, accept: &str) -> Option<ServedPage> {
        if self.down_at.lock().unwrap().is_some_and(|at| Instant::now() >= at) {
            return None;
        }
        let machine = self.machine.lock().unwrap().clone();
        let (text, kind) = metrics::exposition(&machine, accept.contains(OPEN_METRICS));
        Some((text.into(), kind))
    }
}

/// Takes the other ranks of a recording away.
fn keep_rank(sample: &mut Sample, keep: usize) {
    let job = Arc::make_mut(sample.job.as_mut().unwrap());
    let ranks: Vec<u32> =
        job.processes.iter().filter(|one| one.role == ProcessRole::Rank).map(|one| one.id.pid).collect();
    let mut gone: BTreeSet<u32> =
        ranks.iter().enumerate().filter(|(at, _)| *at != keep).map(|(_, pid)| *pid).collect();
    for process in &job.processes {
        if gone.contains(&process.parent) {
            gone.insert(process.id.pid);
        }
    }
    job.processes.retain(|process| !gone.contains(&process.id.pid));
    job.sampler.processes.retain(|sampled| !gone.contains(&sampled.id.pid));
    if let Some(gpus) = &mut sample.gpus {
        Arc::make_mut(gpus).devices.retain(|gpu| !gpu.processes.iter().any(|user| gone.contains(&user.pid)));
    }
}

/// Makes a sample that of one machine.
fn place(sample: &mut Sample, at: usize, planned: &Planned) {
    let job = Arc::make_mut(sample.job.as_mut().unwrap());
    let (name, slurm_job_id) = (Some(planned.run.as_str().into()), Some(planned.slurm.as_str().into()));
    job.run = RunIdentity { name, slurm_job_id, ends_unix_s: None };
    let place = RankPlace { rank: planned.rank, world: planned.world, local_world: Some(1) };
    for process in job.processes.iter_mut().filter(|process| process.role == ProcessRole::Rank) {
        process.rank = Some(place);
    }
    for (nth, gpu) in
        sample.gpus.as_mut().map(Arc::make_mut).into_iter().flat_map(|gpus| &mut gpus.devices).enumerate()
    {
        gpu.index = nth as u32;
        gpu.uuid = Some(format!("GPU-{at:08x}-0000-4000-8000-{nth:012x}").into());
        if planned.hot {
            (gpu.sm_clock_mhz, gpu.clock_event_reasons) = (Some(HOT.0), Some(HOT.1));
        }
    }
}

/// Replays the recording of one machine.
struct Replay {
    planned: Planned,
    pipeline: Pipeline,
    counters: JobCounters,
    pid: u32,
    served: Arc<Served>,
}

impl Replay {
    fn next(&mut self, at: usize, sample: &Sample) {
        let mut sample = sample.clone();
        place(&mut sample, at, &self.planned);
        let tick = self.pipeline.push(Arc::new(sample));
        self.counters.add(&tick);
        let mut machine = self.served.machine.lock().unwrap();
        if self.planned.idle {
            let unused = |gpu: &GpuRates| GpuRates { utilization_pct: Some(0.0), attached: false, ..gpu.clone() };
            machine.gpus = tick.frame.gpus.iter().map(unused).collect();
        } else {
            let (pid, counters) = (self.pid, self.counters.clone());
            machine.jobs = vec![FollowedJob { pid, name: None, tick: Some(tick), answers: true, counters }];
        }
    }
}

fn main() {
    let folder = std::env::args().nth(1).expect("fleet_exporters RECORDINGS");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let plan: Vec<Planned> = serde_json::from_str(&line).unwrap();
    let key = |planned: &Planned| (planned.recording.clone(), planned.keep);
    let mut recordings: BTreeMap<(String, Option<usize>), Looped> = BTreeMap::new();
    for planned in &plan {
        recordings.entry(key(planned)).or_insert_with(|| {
            let change = |sample: &mut Sample| planned.keep.into_iter().for_each(|keep| keep_rank(sample, keep));
            Looped::read(&format!("{folder}/{}.tmz", planned.recording), change)
        });
    }
    let mut ports = Vec::new();
    let mut replays: Vec<Replay> = Vec::new();
    for planned in plan {
        let served = Arc::new(Served { machine: Mutex::default(), down_at: Mutex::default() });
        let header = &recordings[&key(&planned)].header;
        let (pipeline, pid) = (Pipeline::of_recording(header, None), header.pid);
        replays.push(Replay { planned, pipeline, counters: JobCounters::default(), pid, served });
    }
    let mut tick = 0;
    let mut step = |replays: &mut [Replay]| {
        let samples: BTreeMap<_, Sample> =
            recordings.iter().map(|(key, looped)| (key.clone(), looped.sample(tick))).collect();
        for (at, replay) in replays.iter_mut().enumerate() {
            let sample = &samples[&key(&replay.planned)];
            replay.next(at, sample);
        }
        tick += 1;
    };
    (0..WARM_UP).for_each(|_| step(&mut replays));
    for replay in &replays {
        let down = replay.planned.down_after_s.map(|after| Instant::now() + Duration::from_secs_f64(after));
        *replay.served.down_at.lock().unwrap() = down;
        let listener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        ports.push(listener.local_addr().unwrap().port());
        server::start(listener, Admission { token: None, tls: None }, Arc::clone(&replay.served) as Arc<dyn Site>)
            .unwrap();
    }
    println!("{}", serde_json::to_string(&ports).unwrap());
    std::thread::spawn(move || {
        std::io::stdin().lines().for_each(drop);
        std::process::exit(0);
    });
    loop {
        let next = Instant::now() + INTERVAL;
        step(&mut replays);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
