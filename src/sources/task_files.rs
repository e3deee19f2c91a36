//! Parsers of the one-line files under `/proc/PID`: pure functions of bytes, with no allocation.
//!
//! Formats are those of proc(5) and the kernel's `fs/proc/array.c`, `fs/proc/base.c`.

use super::bytes::number;
use crate::sample::{IoCounters, Wait};

/// The fields of `/proc/PID/stat` that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat<'a> {
    /// Field 2, without its parentheses; may hold anything, parentheses included.
    pub comm: &'a [u8],
    /// Field 3.
    pub state: char,
    /// Field 4.
    pub parent: u32,
    /// Field 5: process group.
    pub group: i64,
    /// Field 6.
    pub session: i64,
    /// Field 10.
    pub minor_faults: u64,
    /// Field 12.
    pub major_faults: u64,
    /// Field 14, clock ticks.
    pub user_ticks: u64,
    /// Field 15, clock ticks.
    pub system_ticks: u64,
    /// Field 19: −20 to 19.
    pub nice: i32,
    /// Field 20.
    pub threads: u32,
    /// Field 22, clock ticks after boot.
    pub start_ticks: u64,
    /// Field 24, pages.
    pub rss_pages: u64,
    /// Field 9: kernel flags (`PF_KTHREAD` is 0x00200000, include/linux/sched.h).
    pub flags: u64,
}

/// Parses `/proc/PID/stat` or `/proc/PID/task/TID/stat`. The name ends at the LAST closing parenthesis.
#[must_use]
pub fn stat(bytes: &[u8]) -> Option<Stat<'_>> {
    let open = bytes.iter().position(|&byte| byte == b'(')?;
    let close = bytes.iter().rposition(|&byte| byte == b')')?;
    let comm = bytes.get(open + 1..close)?;
    let mut fields = bytes.get(close + 1..)?.split(|&byte| byte == b' ' || byte == b'\n').filter(|f| !f.is_empty());
    let state = char::from(*fields.next()?.first()?);
    let parent = number(fields.next()?)?;
    let group = signed(fields.next()?)?;
    let session = signed(fields.next()?)?;
    let flags = number(fields.nth(2)?)?; // 7 tty, 8 tpgid, 9 flags
    let minor_faults = number(fields.next()?)?;
    let major_faults = number(fields.nth(1)?)?; // 11 cminflt
    let user_ticks = number(fields.nth(1)?)?; // 13 cmajflt
    let system_ticks = number(fields.next()?)?;
    let nice = signed(fields.nth(3)?)?; // 16 cutime, 17 cstime, 18 priority
    let threads = number(fields.next()?)?;
    let start_ticks = number(fields.nth(1)?)?; // 21 itrealvalue
    let rss = signed(fields.nth(1)?)?; // 23 vsize
    Some(Stat {
        comm,
        state,
        parent: u32::try_from(parent).ok()?,
        group,
        session,
        minor_faults,
        major_faults,
        user_ticks,
        system_ticks,
        nice: i32::try_from(nice).ok()?,
        threads: u32::try_from(threads).ok()?,
        start_ticks,
        rss_pages: u64::try_from(rss).unwrap_or(0),
        flags,
    })
}

/// Parses `schedstat`: (nanoseconds on a CPU, nanoseconds waiting for one).
#[must_use]
pub fn schedstat(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut fields = bytes.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    Some((number(fields.next()?)?, number(fields.next()?)?))
}

/// Parses `/proc/PID/io` or a task's.
#[must_use]
pub fn io(bytes: &[u8]) -> Option<IoCounters> {
    let mut counters = IoCounters::default();
    let mut seen = 0;
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let Some(value) = line.get(colon + 1..).and_then(|rest| number(rest.trim_ascii())) else { continue };
        let field = match line.get(..colon) {
            Some(b"rchar") => &mut counters.read_chars,
            Some(b"wchar") => &mut counters.write_chars,
            Some(b"syscr") => &mut counters.read_calls,
            Some(b"syscw") => &mut counters.write_calls,
            Some(b"read_bytes") => &mut counters.read_bytes,
            Some(b"write_bytes") => &mut counters.write_bytes,
            _ => continue,
        };
        *field = value;
        seen += 1;
    }
    (seen == 6).then_some(counters)
}

/// What `/proc/PID/syscall` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syscall {
    /// `running`: on a CPU or runnable.
    Running,
    /// `-1 …`: blocked outside any system call, in a page fault for instance.
    Blocked,
    /// In this system call, with its first four arguments.
    In(u64, [u64; 4]),
}

/// Parses `/proc/PID/syscall`.
#[must_use]
pub fn syscall(bytes: &[u8]) -> Option<Syscall> {
    let line = bytes.trim_ascii();
    if line == b"running" {
        return Some(Syscall::Running);
    }
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let first = fields.next()?;
    if first == b"-1" {
        return Some(Syscall::Blocked);
    }
    let number = number(first)?;
    let mut arguments = [0; 4];
    for argument in &mut arguments {
        *argument = hexadecimal(fields.next()?)?;
    }
    Some(Syscall::In(number, arguments))
}

/// torch's MP_STATUS_CHECK_INTERVAL, 5 s, as its poll time-out in milliseconds
/// (torch/utils/data/_utils/__init__.py).
pub const LOADER_POLL_MS: u64 = 5000;

/// The system-call numbers that tell waits apart, by architecture
/// (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
mod number_of {
    #[cfg(not(target_arch = "aarch64"))]
    pub const POLL: &[u64] = &[7];
    #[cfg(not(target_arch = "aarch64"))]
    pub const POLL_LIKE: &[u64] = &[23, 232, 270, 271, 281, 441];
    #[cfg(not(target_arch = "aarch64"))]
    pub const FUTEX: &[u64] = &[202, 449, 455];
    #[cfg(not(target_arch = "aarch64"))]
    pub const SOCKET: &[u64] = &[42, 43, 44, 45, 46, 47, 288, 299, 307];
    #[cfg(not(target_arch = "aarch64"))]
    pub const SLEEP: &[u64] = &[35, 230];
    #[cfg(not(target_arch = "aarch64"))]
    pub const CHILD: &[u64] = &[61, 247];
    #[cfg(not(target_arch = "aarch64"))]
    pub const FLUSH: &[u64] = &[26, 74, 75, 162, 277, 306];
    #[cfg(not(target_arch = "aarch64"))]
    pub const WRITE: &[u64] = &[1, 18, 20, 40, 285, 296, 326, 328];
    #[cfg(not(target_arch = "aarch64"))]
    pub const IOCTL: &[u64] = &[16];

    #[cfg(target_arch = "aarch64")]
    pub const POLL: &[u64] = &[];
    #[cfg(target_arch = "aarch64")]
    pub const POLL_LIKE: &[u64] = &[22, 72, 73, 441];
    #[cfg(target_arch = "aarch64")]
    pub const FUTEX: &[u64] = &[98, 449, 455];
    #[cfg(target_arch = "aarch64")]
    pub const SOCKET: &[u64] = &[202, 203, 206, 207, 211, 212, 242, 243, 269];
    #[cfg(target_arch = "aarch64")]
    pub const SLEEP: &[u64] = &[101, 115];
    #[cfg(target_arch = "aarch64")]
    pub const CHILD: &[u64] = &[95, 260];
    #[cfg(target_arch = "aarch64")]
    pub const FLUSH: &[u64] = &[81, 82, 83, 84, 227, 267];
    #[cfg(target_arch = "aarch64")]
    pub const WRITE: &[u64] = &[64, 66, 68, 70, 71, 76, 285, 287];
    #[cfg(target_arch = "aarch64")]
    pub const IOCTL: &[u64] = &[29];
}

/// The wait that a system call means, where the call alone tells; `None` asks for `wchan` (a read may be of a pipe, a
/// socket or a disk).
#[must_use]
pub fn wait_of_syscall(number: u64, arguments: [u64; 4]) -> Option<Wait> {
    use number_of::{CHILD, FLUSH, FUTEX, IOCTL, POLL, POLL_LIKE, SLEEP, SOCKET};
    if POLL.contains(&number) {
        let [_, descriptors, time_out, _] = arguments;
        let loader = descriptors == 1 && time_out & 0xffff_ffff == LOADER_POLL_MS;
        return Some(if loader { Wait::LoaderPoll } else { Wait::Poll });
    }
    let table = [
        (POLL_LIKE, Wait::Poll),
        (FUTEX, Wait::Futex),
        (SOCKET, Wait::Socket),
        (SLEEP, Wait::Sleep),
        (CHILD, Wait::Child),
        (FLUSH, Wait::DiskWrite),
        (IOCTL, Wait::Device),
    ];
    if let Some((_, wait)) = table.iter().find(|(numbers, _)| numbers.contains(&number)) {
        return Some(*wait);
    }
    None
}

/// A futex wait with an end, as (address of the `timespec` in the target, whether it counts CLOCK_REALTIME).
/// `queue.Queue.get(timeout=5)`, with which torch's main thread waits for the pin-memory thread, is one; waits for
/// autograd threads and locks have no end (futex(2): FUTEX_WAIT_BITSET takes an absolute time as its fourth argument,
/// FUTEX_CLOCK_REALTIME is 0x100 in the operation).
#[must_use]
pub fn timed_futex(number: u64, arguments: [u64; 4]) -> Option<(u64, bool)> {
    const WAIT_BITSET: u64 = 9;
    const CLOCK_REALTIME: u64 = 0x100;
    let [_, operation, _, end] = arguments;
    let waits = number_of::FUTEX.first() == Some(&number) && operation & 0x7f == WAIT_BITSET;
    (waits && end != 0).then_some((end, operation & CLOCK_REALTIME != 0))
}

/// True for the write-like calls: a blocked one on a disk waits for writing, not reading.
#[must_use]
pub fn is_write_call(number: u64) -> bool {
    number_of::WRITE.contains(&number)
}

/// The wait that a `wchan` symbol means. `0` or an empty file: running, or not permitted (the caller knows which).
///
/// The kernel names the first function outside the scheduler; names move between versions, so several of each kind
/// are listed (kernel/futex, fs/select.c, fs/eventpoll.c, fs/pipe.c, net/unix, net/core, mm/filemap.c, mm/vmscan.c).
#[must_use]
pub fn wait_of_wchan(symbol: &[u8]) -> Option<Wait> {
    let symbol = symbol.trim_ascii();
    if symbol.is_empty() || symbol == b"0" {
        return None;
    }
    let has = |part: &[u8]| symbol.windows(part.len()).any(|window| window == part);
    let any = |parts: &[&[u8]]| parts.iter().any(|part| has(part));
    Some(if has(b"futex") {
        Wait::Futex
    } else if any(&[b"poll", b"do_select", b"ep_wait", b"epoll"]) {
        Wait::Poll
    } else if any(&[b"pipe_read", b"pipe_wait", b"pipe_write", b"pipe_sleep", b"eventfd_read"]) {
        Wait::Pipe
    } else if any(&[
        b"unix_stream",
        b"unix_dgram",
        b"unix_wait",
        b"skb_wait",
        b"sk_wait",
        b"sk_stream_wait",
        b"wait_woken",
        b"inet_csk",
        b"inet_wait",
        b"tcp_recv",
        b"wait_for_more_packets",
        b"rpc_wait",
        b"nfs",
        b"cifs",
        b"smb",
        b"ceph",
        b"ll_",
        b"fuse",
        b"request_wait_answer",
    ]) {
        Wait::Socket
    } else if any(&[b"nanosleep", b"schedule_timeout", b"msleep", b"hrtimer"]) {
        Wait::Sleep
    } else if any(&[b"writeback", b"balance_dirty", b"jbd2", b"log_wait_commit", b"wb_wait", b"fsync", b"xlog_"]) {
        Wait::DiskWrite
    } else if any(&[b"swap", b"reclaim", b"shrink", b"throttle_direct", b"mem_cgroup", b"compact"]) {
        Wait::Memory
    } else if any(&[
        b"folio_wait",
        b"wait_on_page",
        b"io_schedule",
        b"blk_",
        b"blkdev",
        b"bio_wait",
        b"filemap",
        b"dio_",
        b"direct_IO",
        b"wait_on_buffer",
        b"bit_wait_io",
        b"rq_qos",
        b"tg_",
        b"aio_",
        b"read_events",
        b"io_cqring",
    ]) {
        Wait::DiskRead
    } else if any(&[b"do_wait", b"wait_consider", b"kernel_wait"]) {
        Wait::Child
    } else if any(&[b"nvidia", b"nv_", b"uvm_", b"os_acquire", b"amdgpu", b"drm_", b"dma_fence"]) {
        Wait::Device
    } else if any(&[b"do_signal_stop", b"ptrace_stop"]) {
        Wait::Stopped
    } else {
        Wait::Other
    })
}

fn signed(bytes: &[u8]) -> Option<i64> {
    match bytes.split_first() {
        Some((b'-', rest)) => number(rest).and_then(|value| i64::try_from(value).ok()).map(|value| -value),
        _ => i64::try_from(number(bytes)?).ok(),
    }
}

fn hexadecimal(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.strip_prefix(b"0x")?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names that have broken other monitors: parentheses, spaces, newlines, empty, look-alike state fields.
    const NASTY: &[&str] = &["python", ") R 1 2 3", "a b", "((", "", "x\ny", "tmux: server", "S) S 1", "\u{7f}"];

    fn line(comm: &str, utime: u64, start: u64, rss: i64) -> Vec<u8> {
        format!(
            "42 ({comm}) S 7 42 41 0 -1 4194560 100 0 3 0 {utime} 6 0 0 20 -5 12 0 {start} 1000 {rss} 18446744073709551615 0 0\n"
        )
        .into_bytes()
    }

    #[test]
    fn stat_reads_every_nasty_name() {
        for comm in NASTY {
            let bytes = line(comm, 5, 99, 77);
            let stat = stat(&bytes).unwrap();
            assert_eq!(stat.comm, comm.as_bytes());
            assert_eq!((stat.state, stat.parent, stat.group, stat.session), ('S', 7, 42, 41));
            assert_eq!((stat.minor_faults, stat.major_faults), (100, 3));
            assert_eq!((stat.user_ticks, stat.system_ticks, stat.nice, stat.threads), (5, 6, -5, 12));
            assert_eq!((stat.start_ticks, stat.rss_pages), (99, 77));
        }
    }

    #[test]
    fn the_loader_poll_is_told_from_other_polls() {
        let of = |text: &str| match syscall(text.as_bytes()).unwrap() {
            Syscall::In(number, arguments) => wait_of_syscall(number, arguments),
            other => panic!("{other:?}"),
        };
        if cfg!(target_arch = "x86_64") {
            assert_eq!(of("7 0x7ffd 0x1 0x1388 0x0 0x0 0x0 0x7f 0x7f"), Some(Wait::LoaderPoll));
            assert_eq!(of("7 0x7ffd 0x2 0x1388 0x0 0x0 0x0 0x7f 0x7f"), Some(Wait::Poll));
            assert_eq!(of("7 0x7ffd 0x1 0xffffffff 0x0 0x0 0x0 0x7f 0x7f"), Some(Wait::Poll));
            assert_eq!(of("202 0x5 0x189 0x0 0x0 0x0 0x0 0x7f 0x7f"), Some(Wait::Futex));
            assert_eq!(of("0 0x5 0x189 0x0 0x0 0x0 0x0 0x7f 0x7f"), None);
            assert_eq!(timed_futex(202, [0x5, 0x189, 0, 0x7ffd]), Some((0x7ffd, true)));
            assert_eq!(timed_futex(202, [0x5, 0x89, 0, 0x7ffd]), Some((0x7ffd, false)));
            assert_eq!(timed_futex(202, [0x5, 0x189, 0, 0]), None);
            assert_eq!(timed_futex(202, [0x5, 0x80, 0, 0x7ffd]), None);
        }
        assert_eq!(syscall(b"running\n"), Some(Syscall::Running));
        assert_eq!(syscall(b"-1 0x7ffd 0x7f\n"), Some(Syscall::Blocked));
    }

    #[test]
    fn wchan_names_of_several_kernels() {
        for (symbol, wait) in [
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
        ] {
            assert_eq!(wait_of_wchan(symbol.as_bytes()), Some(wait), "{symbol}");
        }
        assert_eq!(wait_of_wchan(b"0"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (stat(&bytes), schedstat(&bytes), io(&bytes), syscall(&bytes), wait_of_wchan(&bytes), number(&bytes));
        }

        #[test]
        fn stat_round_trips(comm in "[ -~]{0,15}", utime: u64, start: u64, rss in 0_i64..i64::MAX) {
            let bytes = line(&comm, utime, start, rss);
            let stat = stat(&bytes).unwrap();
            prop_assert_eq!(stat.comm, comm.as_bytes());
            prop_assert_eq!((stat.user_ticks, stat.start_ticks, stat.rss_pages), (utime, start, rss as u64));
        }

        #[test]
        fn io_round_trips(values in proptest::array::uniform6(any::<u64>())) {
            let [a, b, c, d, e, f] = values;
            let text = format!(
                "rchar: {a}\nwchar: {b}\nsyscr: {c}\nsyscw: {d}\nread_bytes: {e}\nwrite_bytes: {f}\ncancelled_write_bytes: 0\n"
            );
            let counters = io(text.as_bytes()).unwrap();
            prop_assert_eq!(
                [counters.read_chars, counters.write_chars, counters.read_calls, counters.write_calls,
                 counters.read_bytes, counters.write_bytes],
                values
            );
        }
    }
}
