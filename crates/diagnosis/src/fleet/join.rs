//! Joins the answers: series of one rank, job, GPU and machine come together by their labels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answer::{Answered, SeriesLabels};
use super::labels::{GpuId, JobId, MachineId, RankId, RunId, gpu, job, machine, names, rank, run};
use super::late::judge;
use super::query::FleetQuery;
use super::{DownExporter, Fleet, FleetGpu, FleetRank, FleetRun, GpuCount, LateKind, LateRanks, Mark, UnusedGpus};
use crate::diagnosis::causes::Cause;
use crate::diagnosis::ranks::{GpuLoad, RankLoad, is_busy_disk, is_most, queues_long, waits};
use crate::diagnosis::verdict::Class;
use trainmon_base::stats::{mean, median};

/// A GPU counts as busy from here on, and the clocks of busy ones are compared.
const BUSY: f64 = 0.5;
/// A clock below this part of the run's median is low: those of like GPUs differ by a few percent.
const LOW_CLOCK: f64 = 0.9;
/// Machines are compared among so many ranks at least.
const ENOUGH_TO_COMPARE: usize = 3;
/// Most ranks that a run is taken to have.
const MOST_RANKS: f64 = 1e7;

/// What Prometheus has answered.
#[derive(Debug, Default)]
pub struct Answers {
    /// The series by query.
    pub series: BTreeMap<FleetQuery, Vec<Answered>>,
    /// Its warnings.
    pub warnings: Vec<String>,
}

impl Answers {
    fn get(&self, query: FleetQuery) -> &[Answered] {
        self.series.get(&query).map_or(&[], Vec::as_slice)
    }

    /// The values of a query by what they are of.
    fn values<'a, K: Ord>(&'a self, query: FleetQuery, key: fn(&'a SeriesLabels) -> K) -> BTreeMap<K, f64> {
        self.get(query).iter().map(|series| (key(&series.labels), series.value)).collect()
    }

    /// The same for shares: what is no share was not measured.
    fn shares<'a, K: Ord>(&'a self, query: FleetQuery, key: fn(&'a SeriesLabels) -> K) -> BTreeMap<K, f64> {
        let mut shares = self.values(query, key);
        shares.retain(|_, share| (0.0..=1.01).contains(share));
        shares.values_mut().for_each(|share| *share = share.min(1.0));
        shares
    }

    /// What the answers say together, of means over such a window.
    pub fn fleet(&self, window: Duration) -> Fleet {
        let tables = Tables::new(self);
        let mut fleet = Fleet { warnings: self.warnings.clone(), ..Fleet::new(window) };
        fleet.unix_s = self.series.values().flatten().map(|series| series.at_unix_s).reduce(f64::max);
        let mut runs: BTreeMap<RunId<'_>, Vec<RankId<'_>>> = BTreeMap::new();
        for (id, labels) in &tables.ranks {
            runs.entry(run(labels)).or_default().push(*id);
        }
        fleet.runs = runs.iter().map(|(id, ranks)| tables.run(id, ranks)).collect();
        fleet.runs.sort_by_key(|run| {
            (matches!(run.late.kind, LateKind::Even), std::cmp::Reverse(run.ranks.len()), run.title())
        });
        fleet.unused = tables.unused();
        fleet.down = tables.down(self);
        fleet.sum();
        fleet
    }
}

/// The answers by what they are of.
struct Tables<'a> {
    /// The jobs that are there now.
    there: BTreeSet<JobId<'a>>,
    /// The ranks that are there, or that cannot be measured now, with their labels.
    ranks: BTreeMap<RankId<'a>, &'a SeriesLabels>,
    /// What the machines are called.
    names: BTreeMap<MachineId<'a>, String>,
    down: BTreeSet<MachineId<'a>>,
    silent: BTreeSet<MachineId<'a>>,
    verdicts: BTreeMap<JobId<'a>, (Option<Class>, Option<Cause>)>,
    step_s: BTreeMap<JobId<'a>, f64>,
    queueing: BTreeMap<JobId<'a>, f64>,
    disk: BTreeMap<JobId<'a>, f64>,
    blocked: BTreeMap<RankId<'a>, f64>,
    collectives: BTreeMap<RankId<'a>, f64>,
    steps: BTreeMap<RankId<'a>, f64>,
    world: BTreeMap<RankId<'a>, f64>,
    /// The GPUs of each rank.
    rank_gpus: BTreeMap<RankId<'a>, BTreeMap<&'a str, Option<String>>>,
    gpu_use: BTreeMap<GpuId<'a>, f64>,
    gpu_idle: BTreeMap<GpuId<'a>, f64>,
    gpu_power: BTreeMap<GpuId<'a>, f64>,
    held_down: BTreeSet<GpuId<'a>>,
    clock: BTreeMap<GpuId<'a>, f64>,
}

impl<'a> Tables<'a> {
    fn new(answers: &'a Answers) -> Self {
        let machines = |query| answers.get(query).iter().map(|series| machine(&series.labels)).collect();
        let held_down = answers.get(FleetQuery::HeldDown).iter().filter(|series| is_most(series.value));
        let mut tables = Self {
            there: answers.get(FleetQuery::Jobs).iter().map(|series| job(&series.labels)).collect(),
            ranks: BTreeMap::new(),
            names: names(answers.series.values().flatten()),
            down: machines(FleetQuery::Down),
            silent: machines(FleetQuery::Silent),
            verdicts: verdicts(answers.get(FleetQuery::Verdicts)),
            step_s: answers.values(FleetQuery::StepTime, job),
            queueing: answers.shares(FleetQuery::Queueing, job),
            disk: answers.shares(FleetQuery::Disk, job),
            blocked: answers.values(FleetQuery::Blocked, rank),
            collectives: answers.shares(FleetQuery::Collectives, rank),
            steps: answers.values(FleetQuery::RankSteps, rank),
            world: answers.values(FleetQuery::World, rank),
            rank_gpus: BTreeMap::new(),
            gpu_use: answers.shares(FleetQuery::GpuUse, gpu),
            gpu_idle: answers.shares(FleetQuery::GpuIdle, gpu),
            gpu_power: answers.values(FleetQuery::GpuPower, gpu),
            held_down: held_down.map(|series| gpu(&series.labels)).collect(),
            clock: answers.values(FleetQuery::Clock, gpu),
        };
        for series in answers.get(FleetQuery::RankGpus) {
            let gpus = tables.rank_gpus.entry(rank(&series.labels)).or_default();
            gpus.insert(&series.labels.gpu.0, series.labels.uuid.text());
        }
        tables.add_ranks(answers);
        tables
    }

    /// Finds the ranks. Those of jobs that have ended in the window do not count. A job without ranks counts as one.
    fn add_ranks(&mut self, answers: &'a Answers) {
        let of_ranks = [
            FleetQuery::Blocked,
            FleetQuery::Collectives,
            FleetQuery::RankSteps,
            FleetQuery::World,
            FleetQuery::RankGpus,
        ];
        for series in of_ranks.into_iter().flat_map(|query| answers.get(query)) {
            let id = rank(&series.labels);
            if self.there.contains(&id.0) || self.down.contains(&id.0.0) || self.silent.contains(&id.0.0) {
                self.ranks.insert(id, &series.labels);
            }
        }
        // Before its environment is read, a rank has no number.
        let numbered: BTreeSet<JobId<'a>> =
            self.ranks.keys().filter(|(_, number)| !number.is_empty()).map(|(job, _)| *job).collect();
        self.ranks.retain(|(job, number), _| !number.is_empty() || !numbered.contains(job));
        let with_ranks: BTreeSet<JobId<'a>> = self.ranks.keys().map(|(job, _)| *job).collect();
        for series in answers.get(FleetQuery::Jobs).iter().filter(|series| !with_ranks.contains(&job(&series.labels)))
        {
            self.ranks.insert(rank(&series.labels), &series.labels);
        }
    }

    fn gpus_of(&self, id: RankId<'a>) -> Vec<GpuId<'a>> {
        self.rank_gpus.get(&id).into_iter().flatten().map(|(index, _)| (id.0.0, *index)).collect()
    }

    fn name(&self, machine: MachineId<'a>) -> String {
        self.names.get(&machine).cloned().unwrap_or_default()
    }

    /// A run and its ranks.
    fn run(&self, (named, _): &RunId<'a>, ids: &[RankId<'a>]) -> FleetRun {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (cluster, training_job, slurm_job_id) = (text(named.0), text(named.1), text(named.2));
        let mut ids = self.moved(ids);
        ids.sort_by_key(|(job, number)| (number.parse::<u32>().unwrap_or(u32::MAX), *number, *job));
        let mut ranks: Vec<FleetRank> = ids.iter().map(|id| self.rank(*id)).collect();
        self.mark_low_clocks(&ids, &mut ranks);
        unmark_usual(&mut ranks);
        let mut count: BTreeMap<u32, usize> = BTreeMap::new();
        ranks.iter().filter_map(|rank| rank.rank).for_each(|rank| *count.entry(rank).or_default() += 1);
        for rank in &mut ranks {
            if rank.rank.is_some_and(|number| count.get(&number).is_some_and(|count| *count > 1)) {
                rank.marks.push(Mark::Twice);
            }
        }
        let world = ids.iter().filter_map(|id| self.world.get(id)).copied().fold(0.0, f64::max);
        let world_size = (1.0..=MOST_RANKS).contains(&world).then_some(world as u32);
        let late = self.late(&ids, &mut ranks, world_size);
        let (class, cause) = cause(&ranks);
        let mut gpus = GpuCount::default();
        let used: BTreeSet<GpuId<'a>> = ids.iter().flat_map(|id| self.gpus_of(*id)).collect();
        used.iter().for_each(|gpu| gpus.add(&self.gpu(*gpu, None)));
        FleetRun { training_job, slurm_job_id, cluster, world_size, late, class, cause, gpus, ranks }
    }

    /// The ranks without those that are not there and go on elsewhere, or under another PID.
    fn moved(&self, ids: &[RankId<'a>]) -> Vec<RankId<'a>> {
        let is_there = |id: &RankId<'a>| self.there.contains(&id.0);
        let mut numbers: BTreeSet<&str> = ids.iter().filter(|id| is_there(id)).map(|(_, number)| *number).collect();
        ids.iter().rev().filter(|id| is_there(id) || numbers.insert(id.1)).copied().collect()
    }

    fn rank(&self, id: RankId<'a>) -> FleetRank {
        let (job, number) = id;
        let gpus = self.rank_gpus.get(&id).into_iter().flatten();
        let gpus: Vec<FleetGpu> = gpus.map(|(index, uuid)| self.gpu((job.0, index), uuid.as_deref())).collect();
        let by_steps = || self.steps.get(&id).filter(|steps| **steps > 0.0).map(|steps| 1.0 / steps);
        let step_s = self.step_s.get(&job).copied().or_else(by_steps).filter(|seconds| *seconds > 0.0);
        let (class, cause) = self.verdicts.get(&job).copied().unwrap_or_default();
        let marks = [
            (Mark::Down, self.down.contains(&job.0)),
            (Mark::Silent, self.silent.contains(&job.0) && !self.there.contains(&job)),
            (Mark::Throttled, self.gpus_of(id).iter().any(|gpu| self.held_down.contains(gpu))),
            (Mark::CpuQueue, self.queueing.get(&job).is_some_and(|share| queues_long(*share))),
            (Mark::DiskBusy, self.disk.get(&job).is_some_and(|share| is_busy_disk(*share))),
            (Mark::IdleGpu, gpus.iter().any(|gpu| gpu.idle)),
        ];
        let blocked = self.blocked.get(&id).filter(|share| **share >= 0.0).copied();
        FleetRank {
            rank: number.parse().ok(),
            machine: self.name(job.0),
            pid: job.1.parse().ok(),
            gpu_utilization: mean(gpus.iter().filter_map(|gpu| gpu.utilization)),
            gpus,
            class,
            cause,
            step_ms: step_s.map(|seconds| seconds * 1e3).filter(|ms| ms.is_finite()),
            waits: blocked.map(|share| share.max(self.collectives.get(&id).copied().unwrap_or(0.0)).min(1.0)),
            marks: marks.into_iter().filter(|(_, holds)| *holds).map(|(mark, _)| mark).collect(),
        }
    }

    fn gpu(&self, id: GpuId<'a>, uuid: Option<&str>) -> FleetGpu {
        FleetGpu {
            index: id.1.to_owned(),
            uuid: uuid.map(str::to_owned),
            utilization: self.gpu_use.get(&id).copied(),
            idle: self.gpu_idle.contains_key(&id),
        }
    }

    /// Mean clock of a rank's GPUs that are busy.
    fn busy_clock(&self, id: &RankId<'a>) -> Option<f64> {
        let busy =
            self.gpus_of(*id).into_iter().filter(|gpu| self.gpu_use.get(gpu).is_some_and(|busy| *busy >= BUSY));
        mean(busy.filter_map(|gpu| self.clock.get(&gpu).copied()))
    }

    fn mark_low_clocks(&self, ids: &[RankId<'a>], ranks: &mut [FleetRank]) {
        let clocks: Vec<Option<f64>> = ids.iter().map(|id| self.busy_clock(id)).collect();
        let known = clocks.iter().flatten().copied();
        if known.clone().count() < ENOUGH_TO_COMPARE {
            return;
        }
        let Some(usual) = median(known) else { return };
        for (rank, clock) in ranks.iter_mut().zip(clocks) {
            if clock.is_some_and(|clock| clock < LOW_CLOCK * usual) {
                rank.marks.push(Mark::LowClock);
            }
        }
    }

    /// Finds the late ranks of a run, and marks them.
    fn late(&self, ids: &[RankId<'a>], ranks: &mut [FleetRank], world: Option<u32>) -> LateRanks {
        if ranks.iter().any(|rank| rank.marks.contains(&Mark::Twice)) {
            return LateRanks { kind: LateKind::Unclear, ..LateRanks::default() };
        }
        let mut loads: Vec<(RankLoad, &str)> = Vec::new();
        let mut places = Vec::new();
        for (at, (id, rank)) in ids.iter().zip(&*ranks).enumerate() {
            let blocked = self.blocked.get(id).filter(|share| {
                **share >= 0.0 && !rank.marks.iter().any(|mark| matches!(mark, Mark::Down | Mark::Silent))
            });
            let Some(&blocked) = blocked else { continue };
            let gpus = self.gpus_of(*id);
            let gpu = (!gpus.is_empty()).then(|| GpuLoad {
                held_down: rank.marks.contains(&Mark::Throttled),
                power: mean(gpus.iter().filter_map(|gpu| self.gpu_power.get(gpu).copied())),
            });
            loads.push((
                RankLoad { blocked, collectives: self.collectives.get(id).copied(), gpu },
                rank.machine.as_str(),
            ));
            places.push(at);
        }
        let missing = loads.len() < world.map_or(ranks.len(), |world| world as usize);
        let (kind, named) = judge(&loads, missing);
        let shares = waits(&loads.iter().map(|(load, _)| *load).collect::<Vec<_>>());
        let is_named = |at: usize| named.contains(&at);
        let of = |named: bool| {
            shares.iter().enumerate().filter(move |(at, _)| is_named(*at) == named).map(|(_, share)| share.min(1.0))
        };
        let late_waits = if named.is_empty() { None } else { mean(of(true)) };
        let others_wait = median(of(false));
        let named: Vec<usize> = named.iter().filter_map(|at| places.get(*at)).copied().collect();
        for (at, rank) in ranks.iter_mut().enumerate() {
            if named.contains(&at) {
                rank.marks.insert(0, Mark::Late);
            }
        }
        let late = || named.iter().filter_map(|at| ranks.get(*at));
        LateRanks {
            kind,
            ranks: late().filter_map(|rank| rank.rank).collect(),
            machine: if kind == LateKind::Few { None } else { late().next().map(|rank| rank.machine.clone()) },
            waits: late_waits,
            others_wait,
        }
    }

    /// Machines with GPUs that no rank uses.
    fn unused(&self) -> Vec<UnusedGpus> {
        let used: BTreeSet<GpuId<'a>> = self.ranks.keys().flat_map(|id| self.gpus_of(*id)).collect();
        let mut machines: BTreeMap<MachineId<'a>, GpuCount> = BTreeMap::new();
        for gpu in self.gpu_use.keys().filter(|gpu| !used.contains(*gpu) && !self.down.contains(&gpu.0)) {
            machines.entry(gpu.0).or_default().add(&self.gpu(*gpu, None));
        }
        machines.into_iter().map(|(id, gpus)| UnusedGpus { machine: self.name(id), gpus }).collect()
    }

    fn down(&self, answers: &Answers) -> Vec<DownExporter> {
        let seen: BTreeMap<MachineId<'_>, f64> = answers
            .get(FleetQuery::LastSeen)
            .iter()
            .map(|series| (machine(&series.labels), (series.at_unix_s - series.value).max(0.0)))
            .collect();
        let down = self.down.iter().map(|id| (id, true));
        let silent = self.silent.iter().filter(|id| !self.down.contains(*id)).map(|id| (id, false));
        let exporter = |(id, unreachable): (&MachineId<'a>, bool)| DownExporter {
            machine: self.name(*id),
            last_seen_s: if unreachable { seen.get(id).copied() } else { None },
            unreachable,
        };
        down.chain(silent).map(exporter).collect()
    }
}

/// Takes marks away that most ranks of a run have: they tell no machine from the others.
fn unmark_usual(ranks: &mut [FleetRank]) {
    for mark in [Mark::CpuQueue, Mark::DiskBusy] {
        let marked = ranks.iter().filter(|rank| rank.marks.contains(&mark)).count();
        if ranks.len() >= ENOUGH_TO_COMPARE && marked * 2 > ranks.len() {
            ranks.iter_mut().for_each(|rank| rank.marks.retain(|there| *there != mark));
        }
    }
}

/// The verdict that was given most often on each job.
fn verdicts(answered: &[Answered]) -> BTreeMap<JobId<'_>, (Option<Class>, Option<Cause>)> {
    let mut most: BTreeMap<JobId<'_>, &Answered> = BTreeMap::new();
    for series in answered {
        let there = most.entry(job(&series.labels)).or_insert(series);
        if series.value > there.value {
            *there = series;
        }
    }
    let verdict = |series: &Answered| (Class::named(&series.labels.class.0), Cause::named(&series.labels.cause.0));
    most.into_iter().map(|(id, series)| (id, verdict(series))).collect()
}

/// What holds a run back: the verdict on the machine of the late ranks, if there is one, otherwise the most frequent of all.
fn cause(ranks: &[FleetRank]) -> (Option<Class>, Option<Cause>) {
    let is_late = |rank: &&FleetRank| rank.marks.contains(&Mark::Late);
    let any_late = ranks.iter().any(|rank| is_late(&rank));
    let mut counts: BTreeMap<(Option<Class>, Option<Cause>), usize> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| is_late(rank) || !any_late) {
        *counts.entry((rank.class, rank.cause)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(verdict, _)| verdict).unwrap_or_default()
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
