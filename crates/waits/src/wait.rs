//! What one observation of a thread means: the kind of wait it was in.
//!
//! Most calls identify their wait. For calls that read or write any descriptor, and if calls cannot be read, the kernel
//! function in which the thread is blocked shows it; without that, only the state letter is left.

pub use super::taxonomy::Wait;
use trainmon_sample::Observation;
use trainmon_sample::syscall::{self, CallKind, Machine};

/// torch's MP_STATUS_CHECK_INTERVAL, 5 s, as the timeout of its data poll in milliseconds
/// (torch/utils/data/_utils/__init__.py).
const LOADER_POLL_MS: i32 = 5000;

/// The loop's wait on the queue of pinned batches has the same timeout of 5 s. At any moment of the wait, its deadline
/// is this far ahead; a wait for anything else has an earlier deadline or none. In its last moments the wait looks like
/// any other. Milliseconds.
const PINNED_QUEUE_MS: std::ops::RangeInclusive<i32> = 1500..=LOADER_POLL_MS;

/// The waits behind parts of `wchan`'s symbol, separated by blanks; the first match counts.
///
/// The kernel names the first function outside the scheduler. Names change between versions, so several of each kind
/// are listed (kernel/futex, fs/select.c, fs/eventpoll.c, fs/pipe.c, net/unix, net/core, mm/filemap.c, mm/vmscan.c).
const SYMBOLS: [(Wait, &str); 11] = [
    (Wait::Futex, "futex"),
    (Wait::Poll, "poll do_select ep_wait"),
    (Wait::Pipe, "pipe_read pipe_wait pipe_write pipe_sleep eventfd_read"),
    (
        Wait::Socket,
        "unix_stream unix_dgram sock_alloc sock_wait wait_for_wmem unix_wait skb_wait sk_wait sk_stream_wait wait_woken inet_csk inet_wait tcp_recv \
         wait_for_more_packets rpc_wait nfs cifs smb ceph ll_ fuse request_wait_answer",
    ),
    (Wait::Sleep, "nanosleep schedule_timeout msleep hrtimer"),
    (Wait::DiskWrite, "writeback balance_dirty jbd2 log_wait_commit wb_wait fsync xlog_"),
    (Wait::Memory, "swap reclaim shrink throttle_direct mem_cgroup compact"),
    (
        Wait::DiskRead,
        "folio_wait wait_on_page io_schedule blk_ blkdev bio_wait filemap dio_ direct_IO wait_on_buffer \
         bit_wait_io rq_qos tg_ aio_ read_events io_cqring",
    ),
    (Wait::Child, "do_wait wait_consider kernel_wait"),
    (Wait::Gpu, "nvidia nv_ uvm_ os_acquire amdgpu kfd_ i915_ drm_ dma_fence"),
    (Wait::Stopped, "do_signal_stop ptrace_stop"),
];

impl Wait {
    /// The wait behind an observation; its call is numbered as on `machine`.
    pub fn from_observation(seen: &Observation, machine: Machine) -> Self {
        let kind = seen.call.and_then(|number| syscall::kind(machine, number));
        match kind {
            Some(CallKind::Poll) if seen.nfds == Some(1) && seen.timeout_ms == Some(LOADER_POLL_MS) => {
                Self::LoaderPoll
            }
            // Waits only for the time to pass: `time.sleep` of Python before 3.11 is a select(2) without descriptors.
            Some(CallKind::Poll | CallKind::PollLike) if seen.nfds == Some(0) => Self::Sleep,
            Some(CallKind::Poll | CallKind::PollLike) => Self::Poll,
            Some(CallKind::Futex) => Self::Futex,
            Some(CallKind::Socket) => Self::Socket,
            Some(CallKind::Sleep) => Self::Sleep,
            Some(CallKind::Child) => Self::Child,
            Some(CallKind::Flush) => Self::DiskWrite,
            Some(CallKind::Ioctl) => Self::Gpu,
            // A page that a write waits for is for writing.
            Some(CallKind::Write) => match Self::of_symbol(seen) {
                Self::DiskRead if seen.state.is_none() => Self::DiskWrite,
                wait => wait,
            },
            None => Self::of_symbol(seen),
        }
    }

    fn of_symbol(seen: &Observation) -> Self {
        match (seen.wchan.as_deref(), seen.state) {
            (Some(symbol), _) if !matches!(symbol, "" | "0") => {
                let fits = |(_, parts): &&(Self, &str)| parts.split(' ').any(|part| symbol.contains(part));
                SYMBOLS.iter().find(fits).map_or(Self::Other, |(wait, _)| *wait)
            }
            (_, Some('R')) => Self::Running,
            (_, Some('D')) => Self::DiskRead,
            (_, Some('T' | 't')) => Self::Stopped,
            _ => Self::Unknown,
        }
    }
}

/// Whether the loop of a process with a pin-memory thread waits for a batch from it: a 5 s timed wait on a queue.
pub(super) fn is_for_pinned(seen: &Observation) -> bool {
    seen.deadline_ms.is_some_and(|ahead| PINNED_QUEUE_MS.contains(&ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i32) -> Observation {
        Observation { call: Some(number), ..Observation::default() }
    }

    fn symbol(symbol: &str) -> Observation {
        Observation { wchan: Some(symbol.into()), ..Observation::default() }
    }

    fn meaning(seen: &Observation) -> Wait {
        Wait::from_observation(seen, Machine::X86_64)
    }

    #[test]
    fn the_loader_poll_is_told_from_other_polls() {
        let poll = |nfds, timeout_ms| Observation { nfds: Some(nfds), timeout_ms: Some(timeout_ms), ..call(7) };
        assert_eq!(meaning(&poll(1, 5000)), Wait::LoaderPoll);
        assert_eq!(meaning(&poll(2, 5000)), Wait::Poll);
        assert_eq!(meaning(&poll(1, -1)), Wait::Poll);
    }

    #[test]
    fn a_select_of_nothing_is_a_sleep() {
        let select = |nfds| Observation { nfds, wchan: Some("do_select".into()), ..call(23) };
        assert_eq!((meaning(&select(Some(0))), meaning(&select(None))), (Wait::Sleep, Wait::Poll));
        // poll(NULL, 0, 50).
        assert_eq!(meaning(&Observation { nfds: Some(0), timeout_ms: Some(50), ..call(7) }), Wait::Sleep);
    }

    #[test]
    fn a_wait_for_a_pinned_batch_ends_in_seconds() {
        let futex = |deadline_ms| Observation { deadline_ms, ..call(202) };
        for (deadline_ms, pinned) in [
            (None, false),
            (Some(5), false),
            (Some(1400), false),
            (Some(1500), true),
            (Some(5000), true),
            (Some(60_000), false),
        ] {
            assert_eq!((is_for_pinned(&futex(deadline_ms)), meaning(&futex(deadline_ms))), (pinned, Wait::Futex));
        }
    }

    #[test]
    fn calls_count_on_their_machine() {
        assert_eq!(
            (meaning(&call(202)), meaning(&call(35)), meaning(&call(74))),
            (Wait::Futex, Wait::Sleep, Wait::DiskWrite)
        );
        assert_eq!(Wait::from_observation(&call(98), Machine::Aarch64), Wait::Futex);
        assert_eq!(Wait::from_observation(&call(202), Machine::Aarch64), Wait::Socket);
    }

    #[test]
    fn a_call_that_reads_anything_is_told_by_its_symbol() {
        let at = |number, wchan: &str| Observation { call: Some(number), ..symbol(wchan) };
        assert_eq!(meaning(&at(0, "anon_pipe_read")), Wait::Pipe);
        assert_eq!(meaning(&at(0, "folio_wait_bit_common")), Wait::DiskRead);
        assert_eq!(meaning(&at(1, "folio_wait_bit_common")), Wait::DiskWrite);
        assert_eq!(meaning(&at(-1, "folio_wait_bit_common")), Wait::DiskRead);
    }

    #[test]
    fn symbols_of_several_kernels() {
        for (name, wait) in [
            ("futex_do_wait", Wait::Futex),
            ("futex_wait_queue_me", Wait::Futex),
            ("poll_schedule_timeout.constprop.0", Wait::Poll),
            ("ep_poll", Wait::Poll),
            ("anon_pipe_read", Wait::Pipe),
            ("pipe_read", Wait::Pipe),
            ("unix_stream_read_generic", Wait::Socket),
            ("__skb_wait_for_more_packets", Wait::Socket),
            ("wait_woken", Wait::Socket),
            ("hrtimer_nanosleep", Wait::Sleep),
            ("folio_wait_bit_common", Wait::DiskRead),
            ("folio_wait_writeback", Wait::DiskWrite),
            ("jbd2_log_wait_commit", Wait::DiskWrite),
            ("do_wait", Wait::Child),
            ("something_else", Wait::Other),
            ("0", Wait::Unknown),
        ] {
            assert_eq!(meaning(&symbol(name)), wait, "{name}");
        }
    }

    #[test]
    fn the_state_tells_where_nothing_else_does() {
        for (state, wait) in [('R', Wait::Running), ('D', Wait::DiskRead), ('t', Wait::Stopped), ('S', Wait::Unknown)]
        {
            let seen = Observation { state: Some(state), ..symbol("0") };
            assert_eq!((meaning(&seen), meaning(&Observation { wchan: None, ..seen.clone() })), (wait, wait));
        }
    }
}
