//! Readings of one or several files → samples, on one clock. Every sample has what the files said in the interval before it; where
//! they said nothing, it says so.

use std::sync::Arc;

use super::{ImportError, ImportFormat, Imported, ProcessReading, TICKS_PER_S, ToolReading};
use trainmon_profiles::account::ProfileAccount;
use trainmon_sample::{
    BlockDevice, CpuTimes, GpuReading, GpuSample, HostSample, JobSample, NetInterface, ProcessId, ProcessRole,
    ProcessSample, ProfileSample, Sample, SourceState, SourceStatus, StorageSample, UtilizationPoint,
};

/// Most samples of a recording: a day of one a second.
const SAMPLES: i64 = 100_000;
/// The clock of an imported recording begins here, nanoseconds: no machine's first second.
const BEGIN_NS: u64 = 1_000_000_000;

/// What the files together are about.
#[derive(Debug, Default)]
pub struct Merge {
    /// The process, if a file names one.
    pub pid: Option<u32>,
    /// Its command as far as a file shows it.
    pub command: Option<String>,
    /// Indexes of the GPUs.
    pub gpus: Vec<u32>,
    /// Time from one sample to the next, milliseconds.
    pub interval_ms: u64,
    /// When the first reading began, milliseconds since 1970.
    pub began_ms: i64,
    account: Option<Arc<ProfileAccount>>,
    ticks: Vec<i64>,
    files: Vec<Vec<ToolReading>>,
    states: States,
}

/// Which parts some file has.
#[derive(Debug, Default)]
struct States {
    gpus: bool,
    host: bool,
    disks: bool,
    process: bool,
    profile: bool,
}

impl Merge {
    /// Puts files on one clock.
    ///
    /// # Errors
    /// Files that have no time in common, or no times; too long a time.
    pub fn new(mut files: Vec<(ImportFormat, Imported)>) -> Result<Self, ImportError> {
        if let ([_, _, ..], Some((format, _))) = (&*files, files.iter().find(|(_, file)| file.timeless)) {
            let word = format.word();
            return Err(ImportError::Bad(format!("the {word} file has no times, so it can only be imported alone")));
        }
        let mut accounts = files.iter_mut().filter_map(|(_, file)| file.account.take());
        let account = accounts.next().map(Arc::new);
        if accounts.next().is_some() {
            return Err(ImportError::Bad("more than one trace of torch.profiler: import one, or compare ranks with `trainmon diagnose TRACE TRACE`".to_owned()));
        }
        drop(accounts);
        let ranges: Vec<(i64, i64)> = files
            .iter()
            .filter_map(|(_, file)| Some((file.readings.first()?.unix_ms, file.readings.last()?.unix_ms)))
            .collect();
        let first = ranges.iter().map(|(first, _)| *first).min().unwrap_or_default();
        let last = ranges.iter().map(|(_, last)| *last).max().unwrap_or_default();
        let (latest_begin, earliest_end) =
            ranges.iter().fold((i64::MIN, i64::MAX), |(begin, end), range| (begin.max(range.0), end.min(range.1)));
        let interval_ms = files.iter().map(|(_, file)| file.interval_ms).max().unwrap_or(1000).max(1);
        let interval = i64::try_from(interval_ms).unwrap_or(i64::MAX);
        if files.len() > 1 && latest_begin.saturating_sub(interval) > earliest_end {
            let hours = (latest_begin.saturating_sub(earliest_end)) as f64 / 3.6e6;
            return Err(ImportError::Bad(format!(
                "the files have no time in common ({hours:.1} hours apart); times without a zone are read in that of this \
                 machine, or of TZ"
            )));
        }
        let ticks: Vec<i64> = match &*files {
            [(_, only)] => only.readings.iter().map(|reading| reading.unix_ms).collect(),
            _ => {
                let count = last.saturating_sub(first).saturating_add(interval - 1) / interval;
                if count > SAMPLES {
                    return Err(ImportError::TooLarge("more than 100,000 intervals; split the files"));
                }
                (0..=count).map(|tick| first.saturating_add(tick.saturating_mul(interval))).collect()
            }
        };
        let mut out = Self {
            pid: files.iter().find_map(|(_, file)| file.pid),
            interval_ms,
            began_ms: first.saturating_sub(interval),
            account,
            ticks,
            ..Self::default()
        };
        for reading in files.iter().flat_map(|(_, file)| &file.readings) {
            out.states.take(reading);
            for gpu in &reading.gpus {
                if !out.gpus.contains(&gpu.index) {
                    out.gpus.push(gpu.index);
                }
            }
            let named = reading.process.as_ref().map(|process| process.command.clone());
            out.command = out.command.take().or(named.filter(|name| !name.is_empty()));
        }
        out.gpus.sort_unstable();
        out.files = files.into_iter().map(|(_, file)| file.readings).collect();
        Ok(out)
    }

    /// The samples, oldest first; the first one only begins the first interval.
    pub fn samples(self) -> impl Iterator<Item = Sample> {
        let Self { ticks, files, began_ms, states, mut account, .. } = self;
        let mut files: Vec<_> = files.into_iter().map(|readings| readings.into_iter().peekable()).collect();
        let mut parts = Parts::default();
        for reading in files.iter_mut().filter_map(|readings| readings.peek()) {
            parts.begin(reading);
        }
        let begin = std::iter::once((began_ms, Vec::new()));
        let rest = ticks.into_iter().map(move |tick| {
            let of_tick = files.iter_mut().map(|readings| {
                let mut new: Vec<ToolReading> = Vec::new();
                while let Some(reading) = readings.next_if(|reading| reading.unix_ms <= tick) {
                    new.push(reading);
                }
                new
            });
            (tick, of_tick.collect())
        });
        let rest = rest.filter(|(_, files): &(i64, Vec<Vec<ToolReading>>)| files.iter().any(|file| !file.is_empty()));
        begin.chain(rest).enumerate().map(move |(sequence, (unix_ms, files))| {
            let since_ms = unix_ms.saturating_sub(began_ms).max(0).unsigned_abs();
            let now_ns = BEGIN_NS.saturating_add(since_ms.saturating_mul(1_000_000));
            let mut sample = Sample {
                sequence: sequence as u64,
                unix_ms,
                monotonic_ns: now_ns,
                boottime_ns: now_ns,
                ..Sample::default()
            };
            files.into_iter().for_each(|readings| parts.take(readings, now_ns));
            parts.fill(&mut sample);
            // What begins the recording says what it is of, whatever comes later.
            sample.account = account.take();
            states.describe(&mut sample, now_ns);
            sample
        })
    }
}

/// The newest of each part.
#[derive(Debug, Default)]
struct Parts {
    gpus: GpuSample,
    host: Option<HostSample>,
    storage: Option<StorageSample>,
    job: Option<JobSample>,
    profile: Option<ProfileSample>,
}

impl Parts {
    /// Counters begin at zero, like those of the file.
    fn begin(&mut self, first: &ToolReading) {
        let zero = ToolReading {
            unix_ms: first.unix_ms,
            gpus: Vec::new(),
            cpus: first.cpus.iter().map(|cpu| CpuTimes { cpu: cpu.cpu, ..CpuTimes::default() }).collect(),
            nets: first.nets.iter().map(|net| NetInterface { rx_bytes: 0, tx_bytes: 0, ..net.clone() }).collect(),
            memory: None,
            disks: first.disks.iter().map(at_zero).collect(),
            process: first.process.as_ref().map(|process| ProcessReading {
                ticks: (0, 0),
                faults: (0, 0),
                io: process.io.map(|_| trainmon_sample::IoCounters::default()),
                ..process.clone()
            }),
            profile: None,
        };
        self.take(vec![zero], BEGIN_NS);
    }

    /// Takes one file's readings of an interval.
    fn take(&mut self, readings: Vec<ToolReading>, now_ns: u64) {
        let mut devices: Vec<GpuReading> = Vec::new();
        let several = readings.iter().filter(|reading| !reading.gpus.is_empty()).count() > 1;
        for reading in readings {
            for gpu in reading.gpus {
                newest(&mut devices, gpu, several.then_some(reading.unix_ms));
            }
            if !reading.cpus.is_empty() || !reading.nets.is_empty() || reading.memory.is_some() {
                let host = self.host.get_or_insert_default();
                host.monotonic_ns = now_ns;
                replace(&mut host.cpus, reading.cpus);
                replace(&mut host.net, reading.nets);
                if let Some((total, available)) = reading.memory {
                    host.memory_total_bytes = Some(total);
                    host.memory_available_bytes = Some(available);
                }
            }
            if !reading.disks.is_empty() {
                let devices = reading.disks;
                self.storage = Some(StorageSample { monotonic_ns: now_ns, devices, mounts: None });
            }
            if let Some(process) = reading.process {
                self.job = Some(job(process, now_ns));
            }
            if let Some(more) = reading.profile {
                add_profile(&mut self.profile, more);
            }
        }
        if devices.is_empty() {
            return;
        }
        if self.gpus.monotonic_ns != now_ns {
            self.gpus = GpuSample { monotonic_ns: now_ns, ..GpuSample::default() };
        }
        for device in devices {
            match self.gpus.devices.iter_mut().find(|known| known.index == device.index) {
                Some(known) => complete(known, device),
                None => self.gpus.devices.push(device),
            }
        }
        self.gpus.devices.sort_by_key(|device| device.index);
    }

    fn fill(&mut self, sample: &mut Sample) {
        sample.gpus = (!self.gpus.devices.is_empty()).then(|| Arc::new(self.gpus.clone()));
        sample.host = self.host.clone().map(Arc::new);
        sample.storage = self.storage.clone().map(Arc::new);
        sample.job = self.job.clone().map(Arc::new);
        sample.profile = self.profile.take().map(Arc::new);
    }
}

fn replace<T>(old: &mut Vec<T>, new: Vec<T>) {
    if !new.is_empty() {
        *old = new;
    }
}

fn at_zero(disk: &BlockDevice) -> BlockDevice {
    let (name, whole) = (Arc::clone(&disk.name), Arc::clone(&disk.whole));
    BlockDevice { name, whole, number: disk.number, ..BlockDevice::default() }
}

/// The newest reading of a GPU. If there are several in the interval, each is a point of its use.
fn newest(devices: &mut Vec<GpuReading>, mut gpu: GpuReading, unix_ms: Option<i64>) {
    if gpu.utilization_points.is_empty()
        && let Some((unix_ms, pct)) = unix_ms.zip(gpu.utilization_pct)
    {
        let unix_us = unix_ms.max(0).unsigned_abs().saturating_mul(1000);
        gpu.utilization_points.push(UtilizationPoint { unix_us, pct });
    }
    match devices.iter_mut().find(|known| known.index == gpu.index) {
        Some(known) => {
            let mut points = std::mem::take(&mut known.utilization_points);
            points.append(&mut gpu.utilization_points);
            *known = GpuReading { utilization_points: points, ..gpu };
        }
        None => devices.push(gpu),
    }
}

/// Adds what another file says of the same GPU. Where both say something, the first file stays: two tools' figures for one
/// thing have different periods.
fn complete(known: &mut GpuReading, other: GpuReading) {
    if known.utilization_pct.is_none() && known.utilization_points.is_empty() {
        known.utilization_points = other.utilization_points;
    }
    macro_rules! or {
        ($($field:ident)+) => { $(if known.$field.is_none() { known.$field = other.$field; })+ };
    }
    or!(uuid name utilization_pct memory_utilization_pct memory_used_bytes memory_total_bytes power_mw power_limit_mw
        temperature_c sm_clock_mhz sm_clock_max_mhz memory_clock_mhz memory_clock_max_mhz clock_event_reasons
        pcie_rx_kib_per_s pcie_tx_kib_per_s pcie_generation pcie_width pcie_generation_max pcie_width_max encoder_pct
        decoder_pct ecc_uncorrected);
}

/// Adds the profile of a later part of the interval.
fn add_profile(sum: &mut Option<ProfileSample>, more: ProfileSample) {
    let Some(sum) = sum else {
        *sum = Some(more);
        return;
    };
    let first = u32::try_from(sum.stacks.frames.len()).unwrap_or(u32::MAX);
    sum.stacks.frames.extend(more.stacks.frames);
    for mut thread in more.stacks.threads {
        for frame in thread.stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
            *frame = frame.saturating_add(first);
        }
        match sum.stacks.threads.first_mut() {
            Some(known) => known.stacks.extend(thread.stacks),
            None => sum.stacks.threads.push(thread),
        }
    }
    sum.seconds += more.seconds;
    sum.step_lengths_s.extend(more.step_lengths_s);
    sum.steps = match (sum.steps, more.steps) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
}

/// The process of an imported recording: it starts once.
pub(super) fn process_id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: 1 }
}

fn job(process: ProcessReading, now_ns: u64) -> JobSample {
    let id = process_id(process.pid);
    let command: Arc<str> = process.command.into();
    let sample = ProcessSample {
        id,
        role: ProcessRole::Rank,
        comm: Arc::clone(&command),
        command,
        state: 'S',
        user_ticks: process.ticks.0,
        system_ticks: process.ticks.1,
        minor_faults: process.faults.0,
        major_faults: process.faults.1,
        rss_bytes: process.rss_bytes,
        io: process.io,
        ..ProcessSample::default()
    };
    JobSample {
        monotonic_ns: now_ns,
        target: id,
        alive: true,
        processes: vec![sample],
        ticks_per_second: TICKS_PER_S,
        ..JobSample::default()
    }
}

impl States {
    fn take(&mut self, reading: &ToolReading) {
        self.gpus |= !reading.gpus.is_empty();
        self.host |= !reading.cpus.is_empty() || !reading.nets.is_empty() || reading.memory.is_some();
        self.disks |= !reading.disks.is_empty();
        self.process |= reading.process.is_some();
        self.profile |= reading.profile.is_some();
    }

    /// The state of each source: what no file has, and the tool that would have it.
    fn describe(&self, sample: &mut Sample, now_ns: u64) {
        let state = |exists: bool, read_ns: Option<u64>, missing: &str| match (exists, read_ns) {
            (false, _) => SourceStatus::new(SourceState::Absent, format!("not in the imported files: {missing}")),
            (true, Some(read_ns)) if read_ns == now_ns => SourceState::Fresh.into(),
            (true, Some(_)) => SourceStatus::new(SourceState::Stale, "no reading in this interval"),
            (true, None) => SourceState::Pending.into(),
        };
        let job = sample.job.as_ref().map(|job| job.monotonic_ns);
        let host = sample.host.as_ref().map(|host| host.monotonic_ns);
        let disks = sample.storage.as_ref().map(|storage| storage.monotonic_ns);
        let gpus = sample.gpus.as_ref().map(|gpus| gpus.monotonic_ns);
        let profile = Some(if sample.profile.is_some() { now_ns } else { 0 });
        sample.sources.job =
            state(self.process, job, "neither workers nor CPU time of the job; pidstat records the latter");
        sample.sources.host = state(self.host, host, "no CPUs or memory of the host; sar records them");
        sample.sources.storage = state(self.disks, disks, "no disks; `sar -d` records them");
        sample.sources.gpu = state(self.gpus, gpus, "no GPU; `nvidia-smi dmon -s pucvmet -o DT` records it");
        sample.sources.stacks =
            state(self.profile, profile, "no stacks or trace of the loop; torch.profiler makes one");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(unix_ms: i64, pct: u32) -> ToolReading {
        let gpus = vec![GpuReading { utilization_pct: Some(pct), ..GpuReading::default() }];
        ToolReading { unix_ms, gpus, ..ToolReading::default() }
    }

    fn file(readings: Vec<ToolReading>, interval_ms: u64) -> (ImportFormat, Imported) {
        (ImportFormat::Dmon, Imported { readings, interval_ms, ..Imported::default() })
    }

    fn process(unix_ms: i64, ticks: u64) -> ToolReading {
        let process = ProcessReading { pid: 7, ticks: (ticks, 0), ..ProcessReading::default() };
        ToolReading { unix_ms, process: Some(process), ..ToolReading::default() }
    }

    #[test]
    fn a_file_alone_keeps_its_moments() {
        let merge = Merge::new(vec![file(vec![gpu(1000, 5), gpu(1500, 6), gpu(2100, 7)], 500)]).unwrap();
        assert_eq!((merge.gpus.as_slice(), merge.began_ms), (&[0][..], 500));
        let samples: Vec<Sample> = merge.samples().collect();
        let times: Vec<i64> = samples.iter().map(|sample| sample.unix_ms).collect();
        assert_eq!(times, [500, 1000, 1500, 2100]);
        assert!(samples[0].gpus.is_none() && samples[0].sources.gpu.state == SourceState::Pending);
        assert_eq!(samples[3].monotonic_ns - samples[1].monotonic_ns, 1_100_000_000);
        let job = &samples[3].sources.job;
        assert!(job.state == SourceState::Absent && job.reason.as_deref().unwrap().contains("pidstat"));
    }

    #[test]
    fn several_files_share_the_coarsest_interval() {
        let gpus = (1..=8).map(|at| gpu(at * 500, at as u32)).collect();
        let jobs = (1..=4).map(|at| process(at * 1000 - 100, at as u64 * 5000)).collect();
        let samples: Vec<Sample> = Merge::new(vec![file(gpus, 500), file(jobs, 1000)]).unwrap().samples().collect();
        let points: Vec<Vec<u32>> = samples
            .iter()
            .filter_map(|sample| {
                Some(sample.gpus.as_ref()?.devices[0].utilization_points.iter().map(|p| p.pct).collect())
            })
            .collect();
        assert_eq!(points, [vec![], vec![2, 3], vec![4, 5], vec![6, 7], vec![]]);
        let ticks = samples.iter().map(|sample| sample.job.as_ref().unwrap().processes[0].user_ticks);
        assert_eq!(ticks.collect::<Vec<_>>(), [0, 0, 5000, 10_000, 15_000, 20_000]);
    }

    #[test]
    fn the_first_file_wins_and_others_complete_it() {
        let hot = |unix_ms| {
            let gpus =
                vec![GpuReading { utilization_pct: Some(90), temperature_c: Some(60), ..GpuReading::default() }];
            ToolReading { unix_ms, gpus, ..ToolReading::default() }
        };
        let samples: Vec<Sample> = Merge::new(vec![file(vec![gpu(1000, 5)], 1000), file(vec![hot(1000)], 1000)])
            .unwrap()
            .samples()
            .collect();
        let device = &samples[1].gpus.as_ref().unwrap().devices[0];
        assert_eq!((device.utilization_pct, device.temperature_c), (Some(5), Some(60)));
    }

    #[test]
    fn files_of_different_days_or_without_times_are_refused() {
        let apart = Merge::new(vec![file(vec![gpu(1000, 5)], 1000), file(vec![gpu(9_000_000, 5)], 1000)]);
        assert!(apart.unwrap_err().to_string().contains("2.5 hours apart"));
        let (format, timeless) = file(vec![gpu(1000, 5)], 1000);
        let timeless = (format, Imported { timeless: true, ..timeless });
        assert!(
            Merge::new(vec![file(vec![gpu(1000, 5)], 1000), timeless]).unwrap_err().to_string().contains("alone")
        );
        let long = Merge::new(vec![file(vec![gpu(0, 5), gpu(i64::MAX, 5)], 100), file(vec![gpu(0, 5)], 100)]);
        assert!(long.unwrap_err().to_string().contains("100,000"));
    }
}
