use super::*;
use crate::fleet::answer::Label;

/// Answers, one series after the other.
#[derive(Default)]
struct Made(Answers);

impl Made {
    /// One more series; its labels are `name=value name=value`.
    fn with(mut self, query: FleetQuery, labels: &str, value: f64) -> Self {
        let mut made = SeriesLabels::default();
        for (name, text) in labels.split(' ').filter_map(|label| label.split_once('=')) {
            let place = match name {
                "cluster" => &mut made.cluster,
                "at" => &mut made.instance,
                "node" => &mut made.node,
                "pid" => &mut made.pid,
                "run" => &mut made.training_job,
                "rank" => &mut made.rank,
                "gpu" => &mut made.gpu,
                "class" => &mut made.class,
                "cause" => &mut made.cause,
                other => panic!("{other}"),
            };
            *place = Label(text.to_owned());
        }
        self.0.series.entry(query).or_default().push(Answered { labels: made, at_unix_s: 1000.0, value });
        self
    }

    /// A rank on a machine, its share of waiting, and its GPU with a clock.
    fn rank(self, run: &str, rank: u32, at: &str, waits: f64, mhz: f64) -> Self {
        let labels = format!("at={at}:1 pid=7 run={run}");
        let (of_rank, of_gpu) = (format!("{labels} rank={rank}"), format!("at={at}:1 gpu=0"));
        self.with(FleetQuery::Jobs, &labels, 0.9)
            .with(FleetQuery::Blocked, &of_rank, waits)
            .with(FleetQuery::World, &of_rank, 4.0)
            .with(FleetQuery::RankGpus, &format!("{of_rank} gpu=0"), 1.0)
            .with(FleetQuery::GpuUse, &of_gpu, 0.75)
            .with(FleetQuery::Clock, &of_gpu, mhz * 1e6)
            .with(FleetQuery::Verdicts, &format!("{labels} class=gpu cause=communication"), 3.0)
    }

    fn fleet(&self) -> Fleet {
        self.0.fleet(Duration::from_secs(300))
    }
}

/// Four ranks that wait for the last of them.
fn four() -> Made {
    let ranks = [("a", 0.7), ("b", 0.6), ("c", 0.65), ("d", 0.1)];
    let of =
        |made: Made, (rank, (at, waits)): (usize, &(&str, f64))| made.rank("llama", rank as u32, at, *waits, 1900.0);
    ranks.iter().enumerate().fold(Made::default(), of)
}

#[test]
fn the_late_rank_with_the_verdict_of_its_machine() {
    let late = "at=d:1 pid=7 run=llama class=io cause=network-storage";
    let fleet = four().with(FleetQuery::Verdicts, late, 30.0).fleet();
    let [run] = fleet.runs.as_slice() else { panic!("{fleet:?}") };
    assert_eq!(
        (run.late.kind, run.late.ranks.as_slice(), run.late.machine.as_deref()),
        (LateKind::One, &[3][..], Some("d"))
    );
    assert_eq!((run.class, run.cause, run.world_size), (Some(Class::Io), Some(Cause::NetworkStorage), Some(4)));
    assert_eq!((run.late.waits, run.late.others_wait), (Some(0.1), Some(0.65)));
    assert_eq!(run.ranks[3].marks, [Mark::Late]);
    assert_eq!((run.gpus.count, run.gpus.idle, run.gpus.idle_time), (4, 0, 1.0));
    assert_eq!((fleet.totals.machines, fleet.totals.ranks, fleet.totals.late_ranks), (4, 4, 1));
}

#[test]
fn runs_of_one_name_in_two_clusters_are_two() {
    let fleet = four().with(FleetQuery::Jobs, "cluster=east at=a:1 pid=7 run=llama", 1.0).fleet();
    assert_eq!(fleet.runs.iter().map(|run| run.ranks.len()).collect::<Vec<_>>(), [4, 1]);
}

#[test]
fn jobs_without_a_name_are_not_thrown_together() {
    let made =
        Made::default().with(FleetQuery::Jobs, "at=a:1 pid=7", 1.0).with(FleetQuery::Jobs, "at=b:1 pid=7", 1.0);
    assert_eq!(made.fleet().runs.len(), 2);
}

#[test]
fn a_rank_of_a_job_that_has_ended_is_gone() {
    let ended = four().with(FleetQuery::Blocked, "at=d:1 pid=6 run=llama rank=3", 0.0);
    // Before its number was known.
    let early = ended.with(FleetQuery::Blocked, "at=c:1 pid=7", 0.0);
    let fleet = early.fleet();
    assert_eq!((fleet.runs.len(), fleet.runs[0].ranks.len(), fleet.runs[0].late.kind), (1, 4, LateKind::One));
}

#[test]
fn a_machine_that_is_down_keeps_its_rank_in_the_window() {
    let mut made = four();
    made.0.series.get_mut(&FleetQuery::Jobs).unwrap().retain(|series| series.labels.instance.0 != "d:1");
    made = made.with(FleetQuery::Down, "at=d:1", 0.0).with(FleetQuery::LastSeen, "at=d:1", 940.0);
    let fleet = made.fleet();
    let run = &fleet.runs[0];
    assert_eq!(run.ranks[3].marks, [Mark::Down]);
    assert_eq!(run.late.kind, LateKind::Unmeasured, "all others wait, perhaps for it");
    assert_eq!((fleet.down[0].last_seen_s, fleet.down[0].unreachable), (Some(60.0), true));
    // The run goes on elsewhere.
    made = made.rank("llama", 3, "e", 0.1, 1900.0);
    let fleet = made.fleet();
    assert_eq!((fleet.runs[0].ranks.len(), fleet.runs[0].late.machine.as_deref()), (4, Some("e")));
}

#[test]
fn the_rank_of_a_job_that_does_not_answer_is_marked() {
    let silent = four().with(FleetQuery::Silent, "at=c:1", 0.0);
    assert!(silent.fleet().runs[0].ranks.iter().all(|rank| !rank.marks.contains(&Mark::Silent)), "another job there");
    let gone = silent.with(FleetQuery::Blocked, "at=c:1 pid=8 run=llama rank=9", 0.0);
    let fleet = gone.fleet();
    assert_eq!(fleet.runs[0].ranks[4].marks, [Mark::Silent]);
    assert_eq!((fleet.runs[0].late.ranks.as_slice(), fleet.down[0].unreachable), (&[3][..], false));
}

#[test]
fn rank_numbers_that_are_used_twice_are_not_judged() {
    let fleet = four().rank("llama", 3, "e", 0.6, 1900.0).fleet();
    let run = &fleet.runs[0];
    assert_eq!(run.late.kind, LateKind::Unclear);
    assert_eq!(run.ranks.iter().filter(|rank| rank.marks.contains(&Mark::Twice)).count(), 2);
}

#[test]
fn slow_nodes_are_marked() {
    let made = four()
        .rank("llama", 4, "e", 0.65, 1500.0)
        .with(FleetQuery::HeldDown, "at=a:1 gpu=0", 0.8)
        .with(FleetQuery::HeldDown, "at=b:1 gpu=0", 0.1)
        .with(FleetQuery::Queueing, "at=b:1 pid=7 run=llama", 0.4)
        .with(FleetQuery::Disk, "at=c:1 pid=7 run=llama", 0.95);
    let marks: Vec<Vec<Mark>> = made.fleet().runs[0].ranks.iter().map(|rank| rank.marks.clone()).collect();
    let late = vec![Mark::Late];
    let expected = [vec![Mark::Throttled], vec![Mark::CpuQueue], vec![Mark::DiskBusy], late, vec![Mark::LowClock]];
    assert_eq!(marks, expected);
}

#[test]
fn what_most_ranks_have_marks_no_node() {
    let queues = |made: Made, at: &str| made.with(FleetQuery::Queueing, &format!("at={at}:1 pid=7 run=llama"), 0.4);
    let fleet = ["a", "b", "c"].into_iter().fold(four(), queues).fleet();
    assert!(fleet.runs[0].ranks.iter().all(|rank| !rank.marks.contains(&Mark::CpuQueue)));
}

#[test]
fn gpus_that_no_rank_uses_are_counted_apart() {
    let made = four()
        .with(FleetQuery::GpuUse, "at=a:1 gpu=1", 0.01)
        .with(FleetQuery::GpuIdle, "at=a:1 gpu=1", 0.02)
        .with(FleetQuery::GpuUse, "at=f:1 gpu=0", 0.0)
        .with(FleetQuery::GpuIdle, "at=f:1 gpu=0", 0.0)
        .with(FleetQuery::GpuUse, "at=f:1 gpu=1", 2.5);
    let fleet = made.fleet();
    let unused: Vec<_> =
        fleet.unused.iter().map(|one| (one.machine.as_str(), one.gpus.count, one.gpus.idle)).collect();
    // 2.5 is no share, so it was not measured.
    assert_eq!(unused, [("a", 1, 1), ("f", 1, 1)]);
    assert_eq!((fleet.totals.gpus.count, fleet.totals.gpus.idle), (6, 2));
    assert_eq!(fleet.totals.gpus.idle_time, 1.0 + 0.99 + 1.0);
}

#[test]
fn machines_are_called_by_their_nodes_or_by_hosts_that_are_not_shared() {
    let made = Made::default()
        .with(FleetQuery::Jobs, "at=10.0.0.1:9845 node=gpu-1 pid=1", 1.0)
        .with(FleetQuery::Jobs, "at=h:1 pid=1", 1.0)
        .with(FleetQuery::Jobs, "at=h:2 pid=1", 1.0)
        .with(FleetQuery::Jobs, "at=k:9845 pid=1", 1.0);
    let fleet = made.fleet();
    let mut machines: Vec<_> = fleet.runs.iter().map(|run| run.ranks[0].machine.as_str()).collect();
    machines.sort_unstable();
    assert_eq!(machines, ["gpu-1", "h:1", "h:2", "k"]);
}

#[test]
fn numbers_that_are_none_stay_unmeasured() {
    let odd = |value| {
        four().with(FleetQuery::StepTime, "at=a:1 pid=7 run=llama", value).with(
            FleetQuery::World,
            "at=a:1 pid=7 run=llama rank=0",
            value,
        )
    };
    for value in [-1.0, 0.0, f64::MAX] {
        let fleet = odd(value).fleet();
        assert_eq!((fleet.runs[0].ranks[0].step_ms, fleet.runs[0].ranks.len()), (None, 4), "{value}");
        assert!(serde_json::to_string(&fleet).is_ok());
    }
    assert_eq!(Answers::default().fleet(Duration::from_secs(60)).unix_s, None);
}
