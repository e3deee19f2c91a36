//! What the verdict could see, and what not: how each source stands, and what fixes it.

use std::collections::BTreeMap;

use crate::sample::job::unread_accelerators;
use crate::sample::{
    Access, GpuDevice, GpuSample, JobSample, ProcessRole, Sample, SourceId, SourceState, SourceStatus,
};

use super::subject::{Missing, Subject};
use super::verdict::Unavailable;

/// What there was to see.
#[derive(Debug, Default)]
pub(super) struct Visibility {
    /// How each source stands: source → state.
    pub seen: BTreeMap<Subject, String>,
    pub not_seen: Vec<Unavailable>,
}

impl Visibility {
    pub(super) fn from_sample(sample: &Sample, pid: u32) -> Self {
        let mut out = Self::default();
        out.source(SourceId::Gpu, &sample.sources.gpu);
        if let Some(gpus) = &sample.gpus {
            out.gpus(gpus);
        }
        out.source(SourceId::Storage, &sample.sources.storage);
        let Some(job) = &sample.job else { return out };
        for (name, access, so) in [
            (Subject::Syscall, job.access.syscall, "a wait for a batch looks like any other poll"),
            (Subject::Wchan, job.access.wchan, "what a blocked thread waits for is not known"),
            (Subject::Io, job.access.io, "steps, reads and writes are not counted"),
            (Subject::Fd, job.access.fd, "the disks of the data files are not known"),
        ] {
            out.see(name, access.seen());
            if matches!(access, Access::Denied | Access::Absent) {
                let why = format!("/proc/{pid}/{} may not be read, so {so}", name.word());
                out.miss(name, &why, Some(&format!("sudo trainmon --pid {pid}")));
            }
        }
        if !job.accelerators.is_empty() {
            out.miss(Subject::Accelerator, &unread_accelerators(&job.accelerators), None);
        }
        if let Some(connections) = &job.connections {
            let access = if connections.hidden > 0 { Access::Denied } else { Access::Ok };
            out.see(Subject::Connections, access.seen());
            if connections.hidden > 0 {
                let why = format!(
                    "the other end of {} pipes or sockets of the job belongs to nobody whose descriptors may be read, so \
                     what is done there is not known",
                    connections.hidden
                );
                out.miss(Subject::Connections, &why, Some(&format!("sudo trainmon --pid {pid}")));
            }
        }
        out.unwatched(job);
        out.other_ranks(job);
        out.see(Subject::Cgroup, job.cgroup.version.as_deref().unwrap_or("absent"));
        for (source, status) in sample.sources.all() {
            if !matches!(source, SourceId::Gpu | SourceId::Storage) {
                out.source(source, status);
            }
        }
        out
    }

    /// Devices that are lost, or do not say how busy they are.
    fn gpus(&mut self, gpus: &GpuSample) {
        // The driver may answer while a device does not.
        for device in gpus.devices.iter().filter(|device| device.lost) {
            let why = "the driver has lost the device: it does not answer any more";
            let fix = "sudo nvidia-smi --gpu-reset, or reboot";
            self.miss(Missing::Device(format!("gpu{}", device.index)), why, Some(fix));
        }
        // Not offered under MIG and by some virtual GPUs: how busy the device is, is then no zero.
        let unread = |device: &&GpuDevice| !device.lost && device.utilization_pct.is_none();
        for device in gpus.devices.iter().filter(unread).filter(|device| device.utilization_points.is_empty()) {
            let why = if device.mig == Some(true) {
                "MIG is on: NVML does not say how busy the device is, only the memory in use"
            } else {
                "NVML does not say how busy the device is"
            };
            self.miss(Missing::Device(format!("gpu{}_load", device.index)), why, None);
        }
        if !gpus.devices.is_empty() && gpus.devices.iter().all(|device| device.lost) {
            self.see(Subject::Nvml, SourceState::Gone.seen());
        } else if gpus.simulated {
            self.see(Subject::Nvml, "simulated");
        }
    }

    /// What is left out because there is too much of it.
    fn unwatched(&mut self, job: &JobSample) {
        let unwatched = &job.unwatched;
        if unwatched.is_nothing() {
            return;
        }
        let fix = unwatched.fix.as_deref();
        let reason = unwatched.reason.as_deref().unwrap_or("too few files may be kept open");
        let watched = job.processes.len();
        if unwatched.processes > 0 {
            let (left_out, most) = (unwatched.processes, unwatched.most_processes);
            let all = u64::from(left_out) + watched as u64;
            let why =
                format!("{left_out} of {all} processes of the job are not watched: trainmon watches {most} at most");
            self.miss(Subject::Processes, &why, None);
        }
        if unwatched.unread > 0 {
            let unread = unwatched.unread;
            let why = format!("at the last look {unread} processes of the job could not be read: {reason}");
            self.miss(Subject::Processes, &why, fix);
        }
        if unwatched.reopened > 0 {
            let reopened = unwatched.reopened;
            let why = format!(
                "the files of {reopened} of {watched} processes are opened for each look, which costs more CPU time: {reason}"
            );
            self.miss(Subject::Descriptors, &why, fix);
        }
        if unwatched.threads > 0 {
            let all = job.processes.iter().map(|process| u64::from(process.thread_count)).sum::<u64>();
            let (left_out, most) = (unwatched.threads, unwatched.most_threads);
            let why = format!(
                "{left_out} of {all} threads of the job are not watched: trainmon watches {most} of a process at most"
            );
            self.miss(Subject::Threads, &why, None);
        }
        if unwatched.waits > 0 {
            let why = format!("what {} threads of the job wait for is not sampled: {reason}", unwatched.waits);
            self.miss(Subject::Waits, &why, fix);
        }
    }

    /// One rank of several alone: whom it waits for in a collective is not seen.
    fn other_ranks(&mut self, job: &JobSample) {
        let target = job.processes.iter().find(|process| process.id == job.target);
        let Some((target, place)) = target.and_then(|target| Some((target, target.rank?))) else { return };
        let trainers = job.processes.iter().filter(|process| process.role == ProcessRole::Trainer).count();
        if target.role == ProcessRole::Trainer && trainers == 1 {
            let why = format!(
                "this is rank {} of {}: whom it waits for in collectives is not seen",
                place.rank, place.world
            );
            // Of the launcher's tree are all ranks of this machine; init has adopted those of one that has ended.
            let fix = (target.parent > 1).then(|| format!("trainmon --pid {}", target.parent));
            self.miss(Subject::OtherRanks, &why, fix.as_deref());
        }
    }

    fn source(&mut self, source: SourceId, status: &SourceStatus) {
        let Some(name) = Subject::from_source(source) else { return };
        self.see(name, status.state.seen());
        if !matches!(status.state, SourceState::Fresh | SourceState::Pending) {
            let why = status.reason.as_deref().unwrap_or("no value for some seconds");
            self.miss(name, why, status.fix.as_deref());
        }
    }

    fn see(&mut self, source: Subject, state: &str) {
        self.seen.insert(source, state.to_owned());
    }

    fn miss(&mut self, what: impl Into<Missing>, why: &str, fix: Option<&str>) {
        self.not_seen.push(Unavailable { what: what.into(), why: why.into(), fix: fix.map(Into::into) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sample::{ConnectionsSample, ProcessId, ProcessSample, RankPlace};

    #[test]
    fn one_rank_of_several_says_what_it_does_not_see() {
        let id = |pid| ProcessId { pid, start_ticks: 1 };
        let rank = |pid| ProcessSample {
            id: id(pid),
            parent: 4,
            role: ProcessRole::Trainer,
            rank: Some(RankPlace { rank: 3, world: 8, local_world: None }),
            ..ProcessSample::default()
        };
        let of = |processes: Vec<ProcessSample>| {
            let job = JobSample { target: id(7), processes, ..JobSample::default() };
            Visibility::from_sample(&Sample { job: Some(Arc::new(job)), ..Sample::default() }, 7).not_seen
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
    fn an_accelerator_that_cannot_be_read_is_not_seen() {
        let job = JobSample { accelerators: vec!["/dev/kfd".into()], ..JobSample::default() };
        let missed = Visibility::from_sample(&Sample { job: Some(Arc::new(job)), ..Sample::default() }, 7).not_seen;
        let missed = missed.iter().find(|missed| missed.what == Subject::Accelerator.into()).unwrap();
        assert_eq!(missed.why, "the job uses an accelerator that trainmon cannot read (/dev/kfd)");
    }

    #[test]
    fn connections_that_lead_to_nobody_are_told_with_a_fix() {
        let of = |connections: Option<u32>| {
            let connections = connections.map(|hidden| Arc::new(ConnectionsSample { hidden, ..Default::default() }));
            let job = JobSample { connections, ..JobSample::default() };
            Visibility::from_sample(&Sample { job: Some(Arc::new(job)), ..Sample::default() }, 7)
        };
        for (hidden, seen) in [(None, None), (Some(0), Some("ok")), (Some(2), Some("denied"))] {
            let visibility = of(hidden);
            assert_eq!(visibility.seen.get(&Subject::Connections).map(String::as_str), seen);
            let missed = visibility.not_seen.iter().find(|missed| missed.what == Subject::Connections.into());
            let fix = missed.map(|missed| missed.fix.as_deref().unwrap());
            assert_eq!(fix, (hidden == Some(2)).then_some("sudo trainmon --pid 7"));
        }
    }
}
