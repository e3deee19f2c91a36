//! The ranks of a run side by side: which enters collectives late, what it does meanwhile, and what the collectives take without
//! that. It is `across_ranks` in the JSON of a profile.
//!
//! Moments of different ranks are compared on one clock: a collective ends on all ranks at about the same moment.

use serde::{Deserialize, Serialize};

use trainmon_base::text::named_enum;

/// Ranks that are named beside the first where they are late in turn.
const IN_TURN_NAMED: usize = 2;

/// Of so many collectives, one must be skewed to say so.
const FEW: u64 = 10;

/// Several ranks of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RanksAccount {
    /// The ranks that there are traces of, by their numbers.
    pub ranks: Vec<RankRow>,
    /// Ranks of the run.
    pub world_size: Option<u32>,
    /// Collectives of which at least two ranks have their part, by kind, group and size: those with most time first.
    pub collectives: Vec<MatchedCollectiveRow>,
    /// How many such collectives there are.
    pub matched: u64,
    /// Of these, those into which a rank enters clearly later than the others: by more than twice `clock_scatter_us`, as both entries
    /// are that uncertain.
    pub skewed: u64,
    /// Collectives that have no counterpart in another rank's trace, counted in each rank.
    pub unmatched: u64,
    /// The rank that the others wait for, if one is last into most of the skewed time.
    pub straggler: Option<Straggler>,
    /// Share of the window in which a rank waits in a collective for a later one; a mean over the ranks.
    pub skew: f64,
    /// Of it, the share in which its GPU does nothing else.
    pub exposed_skew: f64,
    /// Share of the window that the collectives take after the last rank entered; a mean over the ranks.
    pub own: f64,
    /// How far the ends of a collective still lie apart on the common clock, microseconds: nine of ten are closer to their middle.
    /// Entries are no more exact than this.
    pub clock_scatter_us: Option<f64>,
    /// What makes the comparison partial, a sentence each.
    pub notes: Vec<String>,
}

/// One rank among the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankRow {
    /// Its number.
    pub rank: u32,
    /// The file.
    pub file: String,
    /// The machine, if the file says it.
    pub host: Option<String>,
    /// Length of its window, milliseconds.
    pub window_ms: f64,
    /// Mean length of a step, milliseconds.
    pub step_ms: Option<f64>,
    /// Share of the window in which its GPU computes; without a GPU, its loop.
    pub compute: f64,
    /// Share of the window in which a collective runs, and no other kernel; without a GPU, while the loop does not compute.
    pub exposed: f64,
    /// Collectives in its trace.
    pub collectives: u64,
    /// Of these, those that another rank has, too. All that follows is of these.
    pub matched: u64,
    /// How much later than the first rank it enters, milliseconds, all together.
    pub late_ms: f64,
    /// The same, mean of a collective.
    pub late_mean_ms: f64,
    /// How much earlier than the last rank it enters, milliseconds, all together.
    pub early_ms: f64,
    /// Time within collectives in which it waits for a later rank, milliseconds: its part lasts longer than that of the last one.
    pub wait_ms: f64,
    /// Of it, time in which its GPU does nothing else.
    pub exposed_wait_ms: f64,
    /// Skewed collectives that it enters last.
    pub last_in: u64,
    /// How much later than the median of the others it enters these, milliseconds, all together.
    pub last_late_ms: f64,
    /// Difference between its clock and that of the first rank, microseconds, if both have the time of day.
    pub clock_offset_us: Option<f64>,
}

impl RankRow {
    /// Milliseconds of the window as milliseconds of a step, if there are steps.
    pub fn per_step(&self, ms: f64) -> Option<f64> {
        let steps = (self.window_ms / self.step_ms.filter(|step| *step > 0.0)?).round();
        Some(ms / steps.max(1.0))
    }
}

/// Collectives of one kind, group and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MatchedCollectiveRow {
    /// Its kind.
    pub kind: Option<CollectiveKind>,
    /// Name of the group, where recorded.
    pub group: Option<String>,
    /// Ranks of the group, where recorded; else those of the run.
    pub group_size: Option<u32>,
    /// Ranks that there are traces of, at most.
    pub ranks: u32,
    /// Number of them.
    pub count: u64,
    /// Bytes of one: what a rank sends or receives, whichever is more.
    pub bytes: Option<u64>,
    /// Time from the last rank's entry to its end, milliseconds, all together.
    pub own_ms: f64,
    /// The same, median of one, microseconds.
    pub own_median_us: f64,
    /// Time from the first rank's entry to the last one's, milliseconds, all together.
    pub skew_ms: f64,
    /// Bytes over the own time, GB/s.
    pub algorithm_gb_per_s: Option<f64>,
    /// The same, times the share that each rank must move over its link, as nccl-tests define it.
    pub bus_gb_per_s: Option<f64>,
}

/// The rank that the others wait for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Straggler {
    /// Its place in [`RanksAccount::ranks`].
    pub index: usize,
    /// Its number.
    pub rank: u32,
    /// Skewed collectives that it enters last.
    pub last_in: u64,
    /// How much later than the median of the others it enters these, milliseconds, all together.
    pub late_ms: f64,
    /// The same, mean of one of them.
    pub late_mean_ms: f64,
    /// The same, of a step.
    pub late_per_step_ms: Option<f64>,
    /// Share of all such time of all ranks, 0–1.
    pub share: f64,
    /// What it does in that time, most first.
    pub doing: Vec<ActivityTime>,
    /// The function of the user's code, or the operator, in which its loop is most of that time.
    pub at: Option<String>,
}

/// How long a rank did something while others waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActivityTime {
    /// What it did.
    pub activity: RankActivity,
    /// How long, milliseconds.
    pub ms: f64,
}

named_enum! {
    /// What a rank does at a moment: the first that holds.
    pub enum RankActivity {
        /// A kernel runs that is no collective; without a GPU, the loop is in an operator.
        Compute = "compute",
        /// A collective runs.
        Collective = "collective",
        /// A copy runs.
        Copy = "copy",
        /// The GPU is idle, and the loop waits for a batch.
        InputWait = "input_wait",
        /// The GPU is idle, and a call waits for it.
        Sync = "sync",
        /// The GPU is idle, and another call of its runtime runs.
        Launch = "launch",
        /// The GPU is idle, and an operator runs on the host.
        Operator = "operator",
        /// The loop is in a function that does nothing but wait: a sleep, a lock.
        Blocked = "blocked",
        /// Python, or nothing that the profile shows.
        Python = "python",
        /// Its window has not begun: its step begins later than that of the others.
        Begins = "begins",
    }
}

impl RankActivity {
    /// The end of a sentence about the rank: `it waits for data`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Compute => "it computes",
            Self::Collective => "it is in another collective",
            Self::Copy => "it copies",
            Self::InputWait => "it waits for data",
            Self::Sync => "its GPU is idle around a call that waits for it",
            Self::Launch => "its GPU is idle during calls of its runtime",
            Self::Operator => "its GPU is idle while operators run on the host",
            Self::Blocked => "it sleeps or waits for a lock",
            Self::Python => "it runs Python, or something that was not recorded",
            Self::Begins => "its step has not begun",
        }
    }
}

named_enum! {
    /// What a collective does, as NCCL, RCCL and Gloo know it.
    pub enum CollectiveKind {
        /// Every rank has the sum.
        AllReduce = "all-reduce",
        /// Every rank has the parts of all.
        AllGather = "all-gather",
        /// Every rank has a part of the sum.
        ReduceScatter = "reduce-scatter",
        /// Every rank has a part of each.
        AllToAll = "all-to-all",
        /// Every rank has what one had.
        Broadcast = "broadcast",
        /// One rank has the sum.
        Reduce = "reduce",
        /// One rank has the parts of all.
        Gather = "gather",
        /// Every rank has a part of what one had.
        Scatter = "scatter",
        /// Nothing but waiting for all.
        Barrier = "barrier",
        /// One rank sends, another receives.
        PointToPoint = "point-to-point",
        /// Unknown.
        Other = "other",
    }
}

impl CollectiveKind {
    /// The kind by a name that c10d, the host's annotations or the kernels give it: `_allgather_base`, `nccl:all_reduce`,
    /// `ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL`.
    pub(crate) fn of_name(name: &str) -> Self {
        let head = name.split(['(', '<']).next().unwrap_or(name);
        let plain: String =
            head.chars().filter(char::is_ascii_alphanumeric).map(|one| one.to_ascii_lowercase()).collect();
        // The longer names first: each contains a shorter one. A kernel of an all-to-all sends and receives.
        let kinds = [
            ("allreduce", Self::AllReduce),
            ("allgather", Self::AllGather),
            ("reducescatter", Self::ReduceScatter),
            ("alltoall", Self::AllToAll),
            ("broadcast", Self::Broadcast),
            ("barrier", Self::Barrier),
            ("sendrecv", Self::PointToPoint),
            ("gather", Self::Gather),
            ("scatter", Self::Scatter),
            ("reduce", Self::Reduce),
            ("send", Self::PointToPoint),
            ("recv", Self::PointToPoint),
        ];
        kinds.iter().find(|(word, _)| plain.contains(word)).map_or(Self::Other, |(_, kind)| *kind)
    }

    /// Whether no rank can be through before all have entered. A source that broadcasts may go on at once.
    pub(crate) fn holds_all(self) -> bool {
        matches!(self, Self::AllGather | Self::AllReduce | Self::AllToAll | Self::Barrier | Self::ReduceScatter)
    }

    /// Whether every rank has the same number of bytes.
    pub(crate) fn is_even(self) -> bool {
        matches!(self, Self::AllGather | Self::AllReduce | Self::Broadcast | Self::Reduce | Self::ReduceScatter)
    }

    /// Bus bandwidth over algorithm bandwidth, of `ranks` ranks: `doc/PERFORMANCE.md` of nccl-tests.
    pub(crate) fn bus_factor(self, ranks: u32) -> Option<f64> {
        let n = f64::from(ranks);
        match self {
            _ if ranks < 2 => None,
            Self::AllReduce => Some(2.0 * (n - 1.0) / n),
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::Gather | Self::Scatter => {
                Some((n - 1.0) / n)
            }
            Self::Broadcast | Self::Reduce => Some(1.0),
            Self::Barrier | Self::PointToPoint | Self::Other => None,
        }
    }
}

impl RanksAccount {
    /// `rank 3 enters 41 of 48 collectives last, 5.2 ms after the others in each step; meanwhile it computes`.
    pub fn straggler_words(&self) -> Option<String> {
        let late = self.straggler.as_ref()?;
        let at = late.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
        let doing =
            late.doing.first().map(|doing| format!("; meanwhile {}{at}", doing.activity.words())).unwrap_or_default();
        let scatter_ms = self.clock_scatter_us.unwrap_or_default() / 1e3;
        let by = match late.late_per_step_ms.filter(|ms| *ms > scatter_ms) {
            Some(ms) => format!("{ms:.1} ms after the others in each step"),
            None => format!("{:.1} ms after the others on average", late.late_mean_ms),
        };
        Some(format!("rank {} enters {} of {} collectives last, {by}{doing}", late.rank, late.last_in, self.matched))
    }

    /// `rank 0 enters 6 of 12 collectives last, rank 1 enters 5`, if the ranks are late in turn.
    pub fn in_turn_words(&self) -> Option<String> {
        let mut late: Vec<&RankRow> = self.ranks.iter().filter(|row| row.last_in > 0).collect();
        if self.straggler.is_some() || late.len() < 2 || self.skewed < self.matched.div_ceil(FEW) {
            return None;
        }
        late.sort_by_key(|row| (std::cmp::Reverse(row.last_in), row.rank));
        let (first, rest) = late.split_first()?;
        let named = rest.iter().take(IN_TURN_NAMED).map(|row| format!(", rank {} enters {}", row.rank, row.last_in));
        let others = match rest.len().saturating_sub(IN_TURN_NAMED) {
            0 => String::new(),
            1 => ", and another one".to_owned(),
            more => format!(", and {more} others"),
        };
        Some(format!(
            "rank {} enters {} of {} collectives last{}{others}",
            first.rank,
            first.last_in,
            self.matched,
            named.collect::<String>()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveKind::{
        AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Other, PointToPoint, Reduce, ReduceScatter,
        Scatter,
    };

    #[test]
    fn kinds_are_known_by_every_name() {
        for (name, kind) in [
            ("allreduce", AllReduce),
            ("nccl:all_reduce", AllReduce),
            ("gloo:all_reduce", AllReduce),
            ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)", AllReduce),
            ("allreduce_coalesced", AllReduce),
            ("_allgather_base", AllGather),
            ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", AllGather),
            ("nccl:_reduce_scatter_base", ReduceScatter),
            ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", ReduceScatter),
            ("all_to_allv", AllToAll),
            ("nccl:all_to_all", AllToAll),
            ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", Broadcast),
            ("gloo:reduce", Reduce),
            ("gloo:gather", Gather),
            ("gloo:scatter", Scatter),
            ("gloo:barrier", Barrier),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", PointToPoint),
            ("nccl:send 0->1", PointToPoint),
            ("nccl:coalesced", Other),
        ] {
            assert_eq!(CollectiveKind::of_name(name), kind, "{name}");
        }
    }

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        let close = |factor: Option<f64>, wanted: f64| factor.is_some_and(|factor| (factor - wanted).abs() < 1e-12);
        assert!(close(AllReduce.bus_factor(8), 1.75) && close(AllReduce.bus_factor(2), 1.0));
        assert!(close(AllGather.bus_factor(8), 0.875) && close(AllToAll.bus_factor(4), 0.75));
        assert!(close(Broadcast.bus_factor(8), 1.0));
        assert_eq!((AllReduce.bus_factor(1), PointToPoint.bus_factor(2)), (None, None));
        assert!(AllToAll.holds_all() && !Broadcast.holds_all() && Broadcast.is_even() && !AllToAll.is_even());
    }
}
