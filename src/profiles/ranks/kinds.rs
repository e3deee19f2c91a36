//! What a collective is, by the names that c10d, the host's annotations and the kernels give it.

use crate::profiles::ranks_account::CollectiveKind;

/// The kind by a name, whoever gave it: `_allgather_base`, `nccl:all_reduce`, `ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL`.
pub fn kind_of(name: &str) -> CollectiveKind {
    use CollectiveKind::{
        AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Other, PointToPoint, Reduce, ReduceScatter,
        Scatter,
    };
    let head = name.split(['(', '<']).next().unwrap_or(name);
    let plain: String =
        head.chars().filter(char::is_ascii_alphanumeric).map(|one| one.to_ascii_lowercase()).collect();
    // The longer names first: each contains a shorter one. A kernel of an all-to-all sends and receives.
    let kinds = [
        ("allreduce", AllReduce),
        ("allgather", AllGather),
        ("reducescatter", ReduceScatter),
        ("alltoall", AllToAll),
        ("broadcast", Broadcast),
        ("barrier", Barrier),
        ("sendrecv", PointToPoint),
        ("gather", Gather),
        ("scatter", Scatter),
        ("reduce", Reduce),
        ("send", PointToPoint),
        ("recv", PointToPoint),
    ];
    kinds.iter().find(|(word, _)| plain.contains(word)).map_or(Other, |(_, kind)| *kind)
}

/// Whether no rank can be through before all have entered. A source that broadcasts may go on at once.
pub fn holds_all(kind: CollectiveKind) -> bool {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Barrier, ReduceScatter};
    matches!(kind, AllGather | AllReduce | AllToAll | Barrier | ReduceScatter)
}

/// Whether every rank has the same number of bytes.
pub fn is_even(kind: CollectiveKind) -> bool {
    use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    matches!(kind, AllGather | AllReduce | Broadcast | Reduce | ReduceScatter)
}

/// Bus bandwidth over algorithm bandwidth, of `ranks` ranks: `doc/PERFORMANCE.md` of nccl-tests.
pub fn bus_factor(kind: CollectiveKind, ranks: u32) -> Option<f64> {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce, ReduceScatter, Scatter};
    let n = f64::from(ranks);
    if ranks < 2 {
        return None;
    }
    match kind {
        AllReduce => Some(2.0 * (n - 1.0) / n),
        AllGather | ReduceScatter | AllToAll | Gather | Scatter => Some((n - 1.0) / n),
        Broadcast | Reduce => Some(1.0),
        _ => None,
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
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        let close = |factor: Option<f64>, wanted: f64| factor.is_some_and(|factor| (factor - wanted).abs() < 1e-12);
        assert!(close(bus_factor(AllReduce, 8), 1.75) && close(bus_factor(AllReduce, 2), 1.0));
        assert!(close(bus_factor(AllGather, 8), 0.875) && close(bus_factor(AllToAll, 4), 0.75));
        assert!(close(bus_factor(Broadcast, 8), 1.0));
        assert_eq!((bus_factor(AllReduce, 1), bus_factor(PointToPoint, 2)), (None, None));
        assert!(holds_all(AllToAll) && !holds_all(Broadcast) && is_even(Broadcast) && !is_even(AllToAll));
    }
}
