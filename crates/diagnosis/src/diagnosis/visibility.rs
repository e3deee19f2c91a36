//! What the verdict could read and what it could not: the state of each source, and the command that fixes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainmon_sample::job::unread_accelerators;
use trainmon_sample::{Access, GpuSample, JobSample, ProcessRole, Sample, SourceId, SourceState, SourceStatus};

use super::subject::{Missing, Subject};
use super::verdict::Unavailable;
use trainmon_base::text::format::counted;

/// What could be read.
#[derive(Debug, Default)]
pub(super) struct Visibility {
    /// The state of each source.
    pub seen: BTreeMap<Subject, String>,
    pub not_seen: Vec<Unavailable>,
}

impl Visibility {
    /// `unread` are the device files of the job's accelerators without readings.
    pub(super) fn from_sample(sample: &Sample, pid: u32, unread: &[Arc<str>]) -> Self {
        let mut out = Self::default();
        if !unread.is_empty() {
            out.miss(Subject::Accelerator, &unread_accelerators(unread), None);
        }
        out.source(SourceId::Gpu, &sample.sources.gpu);
        if let Some(gpus) = &sample.gpus {
            out.gpus(gpus);
        }
        out.source(SourceId::Storage, &sample.sources.storage);
        if let Some(job) = &sample.job {
            out.job(job, pid);
        }
        for (source, status) in sample.sources.all() {
            if !matches!(source, SourceId::Gpu | SourceId::Storage) {
                out.source(source, status);
            }
        }
        out
    }

    /// What may be read of the job.
    fn job(&mut self, job: &JobSample, pid: u32) {
        let with_more_rights = job.with_more_rights.as_deref();
        for (name, access, so) in [
            (Subject::Syscall, job.access.syscall, "a wait for data looks like any other poll"),
            (Subject::Wchan, job.access.wchan, "what a blocked thread waits for is unknown"),
            (Subject::Io, job.access.io, "steps, reads and writes are not counted"),
            (Subject::Fd, job.access.fd, "the disks that hold the data are unknown"),
        ] {
            self.see(name, access.seen());
            let (reason, fix) = match access {
                Access::Denied if name == Subject::Syscall && job.access.no_ptrace => {
                    ("switched off by --no-ptrace", None)
                }
                Access::Denied => ("permission denied", with_more_rights),
                Access::Absent => ("no such file", None),
                Access::Ok | Access::Untried => continue,
            };
            self.miss(name, &format!("cannot read /proc/{pid}/{}: {reason}, so {so}", name.word()), fix);
        }
        if let Some(connections) = &job.connections {
            let access = if connections.hidden > 0 { Access::Denied } else { Access::Ok };
            self.see(Subject::Connections, access.seen());
            if connections.hidden > 0 {
                let which = counted(connections.hidden, "pipe or socket", "pipes and sockets");
                let why = format!(
                    "cannot find the process at the other end of {which} of the job: permission denied, so what happens \
                     there is unknown"
                );
                self.miss(Subject::Connections, &why, with_more_rights);
            }
        }
        self.unwatched(job);
        self.other_ranks(job);
        self.see(Subject::Cgroup, job.cgroup.version.as_deref().unwrap_or("absent"));
    }

    /// GPUs that are lost, or do not report how busy they are.
    fn gpus(&mut self, gpus: &GpuSample) {
        // The driver may respond while a GPU does not.
        for device in gpus.devices.iter().filter(|device| device.lost) {
            let error =
                device.xids.and_then(|xids| xids.words()).map(|words| format!("; its last error was {words}"));
            let why = format!("the driver has lost this GPU: it no longer responds{}", error.unwrap_or_default());
            let fix = if device.files.is_empty() { "sudo nvidia-smi --gpu-reset, or reboot" } else { "reboot" };
            self.miss(Missing::Gpu(format!("gpu{}", device.index)), &why, Some(fix));
        }
        // MIG and some virtual GPUs do not offer it: unknown is not zero.
        for device in gpus.devices.iter().filter(|device| !device.lost && device.hides_its_use()) {
            let why = if device.mig == Some(true) {
                "MIG is on: NVML reports the memory in use, but not how busy the GPU is"
            } else {
                "the driver does not report how busy this GPU is"
            };
            self.miss(Missing::Gpu(format!("gpu{}_load", device.index)), why, None);
        }
        self.untold(gpus);
        if !gpus.devices.is_empty() && gpus.devices.iter().all(|device| device.lost) {
            self.see(Subject::Nvml, SourceState::Gone.seen());
        } else if gpus.simulated {
            self.see(Subject::Nvml, "simulated");
        }
    }

    /// What a GPU does not tell because of what it is, or of what runs beside trainmon.
    fn untold(&mut self, gpus: &GpuSample) {
        for gpu in gpus.devices.iter().filter(|gpu| !gpu.lost) {
            let sm = Missing::Gpu(format!("gpu{}_sm", gpu.index));
            if gpu.vgpu == Some(true) && gpu.power_mw.is_none() {
                let why =
                    "this is a vGPU: power, heat and clocks of the whole GPU, and what others use of it, are unknown";
                self.miss(Missing::Gpu(format!("gpu{}_power", gpu.index)), why, None);
            }
            if gpu.gpm.is_some() {
                continue;
            }
            if gpu.confidential == Some(true) {
                let why = "confidential computing is on, which switches the performance counters off";
                self.miss(sm, why, None);
            } else if let Some(other) = &gpu.gpm_beside {
                let why = format!("the driver refuses the performance counters: {other} may be using them");
                self.miss(sm, &why, None);
            }
        }
    }

    /// What is left out because the job is too large.
    fn unwatched(&mut self, job: &JobSample) {
        let unwatched = &job.unwatched;
        if unwatched.is_nothing() {
            return;
        }
        let fix = unwatched.fix.as_deref();
        let reason = unwatched.reason.as_deref().unwrap_or("too few open files allowed");
        let watched = job.processes.len();
        if unwatched.processes > 0 {
            let (left_out, most) = (unwatched.processes, unwatched.most_processes);
            let all = u64::from(left_out) + watched as u64;
            let why = format!("{left_out} of the job's {all} processes are not watched: the limit is {most}");
            self.miss(Subject::Processes, &why, None);
        }
        if unwatched.unread > 0 {
            let unread = unwatched.unread;
            let why = format!("cannot read {} of the job: {reason}", counted(unread, "process", "processes"));
            self.miss(Subject::Processes, &why, fix);
        }
        if unwatched.reopened > 0 {
            let reopened = unwatched.reopened;
            let why = format!(
                "the files of {reopened} of {watched} processes are reopened for each sample, which costs CPU time: {reason}"
            );
            self.miss(Subject::Descriptors, &why, fix);
        }
        if unwatched.reopened == 0 && unwatched.waits == 0 && unwatched.room_for_waits > 0 {
            let threads = counted(unwatched.room_for_waits, "thread", "threads");
            let why = format!("cannot sample what more than {threads} of the job wait for: {reason}");
            self.miss(Subject::Descriptors, &why, fix);
        }
        if unwatched.threads > 0 {
            let all = job.processes.iter().map(|process| u64::from(process.thread_count)).sum::<u64>();
            let (left_out, most) = (unwatched.threads, unwatched.most_threads);
            let why = format!("{left_out} of the job's {all} threads are not watched: the limit is {most} a process");
            self.miss(Subject::Threads, &why, None);
        }
        if unwatched.waits > 0 {
            let why = format!(
                "cannot sample what {} of the job wait for: {reason}",
                counted(unwatched.waits, "thread", "threads")
            );
            self.miss(Subject::Waits, &why, fix);
        }
    }

    /// One of several ranks alone: which rank it waits for in a collective is unknown.
    fn other_ranks(&mut self, job: &JobSample) {
        let target = job.processes.iter().find(|process| process.id == job.target);
        let Some((target, place)) = target.and_then(|target| Some((target, target.rank?))) else { return };
        let ranks = job.processes.iter().filter(|process| process.role == ProcessRole::Rank).count();
        if target.role == ProcessRole::Rank && ranks == 1 {
            let why = format!(
                "this is rank {} of {}: trainmon cannot see which rank it waits for in a collective",
                place.rank, place.world
            );
            // The launcher's tree holds all ranks of this machine. Init adopts the ranks of a launcher that has ended.
            let fix = (target.parent > 1).then(|| format!("trainmon --pid {}", target.parent));
            self.miss(Subject::OtherRanks, &why, fix.as_deref());
        }
    }

    fn source(&mut self, source: SourceId, status: &SourceStatus) {
        let Some(name) = Subject::from_source(source) else { return };
        self.see(name, status.state.seen());
        if !matches!(status.state, SourceState::Fresh | SourceState::Pending) {
            let why = status.reason.as_deref().unwrap_or("no value for several seconds");
            self.miss(name, why, status.fix.as_deref());
        }
    }

    fn see(&mut self, source: Subject, state: &str) {
        self.seen.insert(source, state.to_owned());
    }

    /// What cannot be read: in full, for a person, with the fix.
    fn miss(&mut self, what: impl Into<Missing>, why: &str, fix: Option<&str>) {
        self.not_seen.push(Unavailable { what: what.into(), why: why.into(), fix: fix.map(Into::into) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_sample::{ConnectionsSample, GpuReading, JobAccess, ProcessId, ProcessSample, RankPlace};

    #[test]
    fn one_rank_of_several_says_what_it_cannot_see() {
        let id = |pid| ProcessId { pid, start_ticks: 1 };
        let rank = |pid| ProcessSample {
            id: id(pid),
            parent: 4,
            role: ProcessRole::Rank,
            rank: Some(RankPlace { rank: 3, world: 8, local_world: None }),
            ..ProcessSample::default()
        };
        let of = |processes: Vec<ProcessSample>| {
            let job = JobSample { target: id(7), processes, ..JobSample::default() };
            Visibility::from_sample(&Sample { job: Some(Arc::new(job)), ..Sample::default() }, 7, &[]).not_seen
        };
        let alone = of(vec![rank(7)]);
        let missed = alone.iter().find(|missed| missed.what == Subject::OtherRanks.into()).unwrap();
        assert!(missed.why.contains("rank 3 of 8") && missed.fix.as_deref() == Some("trainmon --pid 4"));
        let launcher = ProcessSample { id: id(7), role: ProcessRole::Launcher, ..ProcessSample::default() };
        for all in [vec![launcher, rank(8), rank(9)], vec![ProcessSample { rank: None, ..rank(7) }]] {
            assert!(of(all).iter().all(|missed| missed.what != Subject::OtherRanks.into()));
        }
    }

    #[test]
    fn what_a_special_gpu_does_not_tell_is_said() {
        let told = |gpu: GpuReading| {
            let gpu = GpuReading { index: 2, utilization_pct: Some(1), ..gpu };
            let gpus = GpuSample { devices: vec![gpu], ..GpuSample::default() };
            let sample = Sample { gpus: Some(Arc::new(gpus)), ..Sample::default() };
            let missed = Visibility::from_sample(&sample, 7, &[]).not_seen;
            missed
                .into_iter()
                .map(|missed| (missed.what.title(), missed.why))
                .find(|(what, _)| what.ends_with("GPU 2"))
        };
        let (what, why) = told(GpuReading { vgpu: Some(true), ..GpuReading::default() }).unwrap();
        assert!(what == "power and clocks of GPU 2" && why.contains("vGPU"), "{why}");
        let (what, why) = told(GpuReading { confidential: Some(true), ..GpuReading::default() }).unwrap();
        assert!(what == "SM activity of GPU 2" && why.contains("confidential"), "{why}");
        let beside = Some("nv-hostengine (7)".into());
        let (what, why) = told(GpuReading { gpm_beside: beside.clone(), ..GpuReading::default() }).unwrap();
        assert!(what == "SM activity of GPU 2" && why.contains("nv-hostengine (7)"), "{why}");
        assert_eq!(
            told(GpuReading { gpm_beside: beside, gpm: Some(Default::default()), ..GpuReading::default() }),
            None
        );
        assert_eq!(told(GpuReading { vgpu: Some(true), power_mw: Some(5), ..GpuReading::default() }), None);
    }

    #[test]
    fn an_accelerator_that_cannot_be_read_is_not_seen() {
        let missed = Visibility::from_sample(&Sample::default(), 7, &["/dev/kfd".into()]).not_seen;
        let missed = missed.iter().find(|missed| missed.what == Subject::Accelerator.into()).unwrap();
        assert_eq!(missed.why, "the job uses an accelerator that trainmon cannot read (/dev/kfd)");
    }

    #[test]
    fn connections_that_cannot_be_followed_come_with_a_fix() {
        let of = |connections: Option<u32>| {
            let connections = connections.map(|hidden| Arc::new(ConnectionsSample { hidden, ..Default::default() }));
            let with_more_rights = Some("sudo trainmon --pid 7".into());
            let job = JobSample { connections, with_more_rights, ..JobSample::default() };
            Visibility::from_sample(&Sample { job: Some(Arc::new(job)), ..Sample::default() }, 7, &[])
        };
        for (hidden, seen) in [(None, None), (Some(0), Some("ok")), (Some(2), Some("denied"))] {
            let visibility = of(hidden);
            assert_eq!(visibility.seen.get(&Subject::Connections).map(String::as_str), seen);
            let missed = visibility.not_seen.iter().find(|missed| missed.what == Subject::Connections.into());
            let fix = missed.map(|missed| missed.fix.as_deref().unwrap());
            assert_eq!(fix, (hidden == Some(2)).then_some("sudo trainmon --pid 7"));
        }
    }

    #[test]
    fn a_denied_file_has_a_reason_and_a_fix_only_where_one_helps() {
        let missed = |access: JobAccess, fix: Option<&str>| {
            let job = JobSample { access, with_more_rights: fix.map(Into::into), ..JobSample::default() };
            Visibility::from_sample(&Sample { job: Some(Arc::new(job)), ..Sample::default() }, 7, &[]).not_seen
        };
        let denied = JobAccess { syscall: Access::Denied, io: Access::Absent, ..JobAccess::default() };
        let [syscall, io] = &missed(denied, Some("sudo x"))[..] else { panic!() };
        assert!(syscall.why.starts_with("cannot read /proc/7/syscall: permission denied, so "), "{syscall:?}");
        assert_eq!((syscall.fix.as_deref(), io.fix.as_deref()), (Some("sudo x"), None));
        // For root sudo brings nothing, and what was switched off is not asked for.
        assert_eq!(missed(denied, None)[0].fix, None);
        let off = &missed(JobAccess { no_ptrace: true, ..denied }, Some("sudo x"))[0];
        assert!(off.why.contains("switched off by --no-ptrace") && off.fix.is_none(), "{off:?}");
    }
}
