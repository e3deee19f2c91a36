//! The system calls in which threads wait, by number and machine, and what each waits for by definition; and the kernel
//! functions that reveal one of them if calls cannot be read.
//!
//! That a call with this number is a poll is the kernel's interface (arch/x86/entry/syscalls/syscall_64.tbl,
//! include/uapi/asm-generic/unistd.h); `rates` judges what a poll means for a training loop.

use serde::{Deserialize, Serialize};

/// The machine whose system call numbers a sample holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Machine {
    /// x86-64.
    #[default]
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit ARM.
    #[serde(rename = "aarch64")]
    Aarch64,
}

impl Machine {
    /// The one this program was built for.
    pub const OWN: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };
}

/// What a call waits for, whatever its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `poll(2)`: any of some descriptors, with a timeout in milliseconds.
    Poll,
    /// `select`, `ppoll`, `epoll_wait` and the like.
    PollLike,
    /// A futex.
    Futex,
    /// A socket.
    Socket,
    /// The time to pass.
    Sleep,
    /// A child process.
    Child,
    /// Written data to reach the disk.
    Flush,
    /// Whatever the driver behind the descriptor decides.
    Ioctl,
    /// The receiver of the written data: a pipe, a socket, a disk. (A call of none of these kinds may read.)
    Write,
}

/// Kinds with their numbers on x86-64 and on ARM, which has no `poll`.
const CALLS: [(CallKind, &[i32], &[i32]); 9] = [
    (CallKind::Poll, &[7], &[]),
    (CallKind::PollLike, &[23, 232, 270, 271, 281, 441], &[22, 72, 73, 441]),
    (CallKind::Futex, &[202, 449, 455], &[98, 449, 455]),
    (CallKind::Socket, &[42, 43, 44, 45, 46, 47, 288, 299, 307], &[202, 203, 206, 207, 211, 212, 242, 243, 269]),
    (CallKind::Sleep, &[35, 230], &[101, 115]),
    (CallKind::Child, &[61, 247], &[95, 260]),
    (CallKind::Flush, &[26, 74, 75, 162, 277, 306], &[81, 82, 83, 84, 227, 267]),
    (CallKind::Ioctl, &[16], &[29]),
    (CallKind::Write, &[1, 18, 20, 40, 285, 296, 326, 328], &[47, 64, 66, 68, 70, 71, 285, 287]),
];

/// What the call with this number waits for; `None` if the number alone does not tell (a read).
pub fn kind(machine: Machine, number: i32) -> Option<CallKind> {
    find(&CALLS, machine, number)
}

/// What a call does with its descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdUse {
    /// Reads from its first argument, or waits for an answer.
    Reads,
    /// Waits for a client to connect.
    Accepts,
    /// Writes to its first argument.
    Writes,
    /// Waits for a lock on its first argument.
    Locks,
    /// `poll` and `ppoll`: an array of descriptors.
    Polls,
    /// `select` and `pselect`: sets of descriptors.
    Selects,
    /// Waits for an epoll set, its first argument.
    Epolls,
}

/// Uses, with the calls' numbers on x86-64 and on ARM. An ioctl waits for what is behind the descriptor, like a read;
/// `connect` waits for the other side to answer.
const FD_USES: [(FdUse, &[i32], &[i32]); 7] = [
    (FdUse::Reads, &[0, 16, 17, 19, 42, 45, 47, 295, 299], &[29, 63, 65, 67, 69, 203, 207, 212, 243]),
    (FdUse::Accepts, &[43, 288], &[202, 242]),
    (FdUse::Writes, &[1, 18, 20, 44, 46, 296, 307], &[64, 66, 68, 70, 206, 211, 269]),
    (FdUse::Locks, &[72, 73], &[25, 32]),
    (FdUse::Polls, &[7, 271], &[73]),
    (FdUse::Selects, &[23, 270], &[72]),
    (FdUse::Epolls, &[232, 281, 441], &[22, 441]),
];

/// What the call with this number does with descriptors; `None` for a call without descriptors.
pub fn fd_use(machine: Machine, number: i32) -> Option<FdUse> {
    find(&FD_USES, machine, number)
}

/// The entry for a number in a table of the numbers on each machine.
fn find<T: Copy>(table: &[(T, &[i32], &[i32])], machine: Machine, number: i32) -> Option<T> {
    let found = table.iter().find(|(_, x86, arm)| match machine {
        Machine::X86_64 => x86.contains(&number),
        Machine::Aarch64 => arm.contains(&number),
    });
    found.map(|(what, ..)| *what)
}

/// Whether a kernel function, as named by `wchan`, is one in which threads wait for file locks (fs/locks.c).
pub fn waits_for_lock(symbol: &str) -> bool {
    ["lock_inode_wait", "lock_file_wait", "fcntl_setlk"].iter().any(|part| symbol.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the C library has for the machine of this build: the tables hold those and no others.
    #[test]
    fn the_tables_have_the_numbers_of_this_machine() {
        use libc::*;
        #[cfg(target_arch = "x86_64")]
        let (poll, more, selects, epolls) =
            (Some(SYS_poll), [SYS_select, SYS_epoll_wait], Some(SYS_select), Some(SYS_epoll_wait));
        #[cfg(not(target_arch = "x86_64"))]
        let (poll, more, selects, epolls) = (None, [], None, None);
        let with = |calls: &[c_long], more: &[c_long]| [calls, more].concat();
        let (written, sent) =
            ([SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev], [SYS_sendto, SYS_sendmsg, SYS_sendmmsg]);
        let answered = [SYS_connect, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg];
        // Linux 6.7; libc does not name it yet.
        let futex_wait = 455;
        let kinds = [
            (CallKind::Poll, Vec::from_iter(poll)),
            (CallKind::PollLike, with(&[SYS_ppoll, SYS_pselect6, SYS_epoll_pwait, SYS_epoll_pwait2], &more)),
            (CallKind::Futex, vec![SYS_futex, SYS_futex_waitv, futex_wait]),
            (CallKind::Socket, [&answered[..], &sent, &[SYS_accept, SYS_accept4]].concat()),
            (CallKind::Sleep, vec![SYS_nanosleep, SYS_clock_nanosleep]),
            (CallKind::Child, vec![SYS_wait4, SYS_waitid]),
            (CallKind::Flush, vec![SYS_fsync, SYS_fdatasync, SYS_sync, SYS_syncfs, SYS_sync_file_range, SYS_msync]),
            (CallKind::Ioctl, vec![SYS_ioctl]),
            (CallKind::Write, with(&written, &[SYS_pwritev2, SYS_sendfile, SYS_copy_file_range, SYS_fallocate])),
        ];
        same(&CALLS, &kinds);
        let uses = [
            (FdUse::Reads, with(&answered, &[SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_ioctl])),
            (FdUse::Accepts, vec![SYS_accept, SYS_accept4]),
            (FdUse::Writes, with(&written, &sent)),
            (FdUse::Locks, vec![SYS_fcntl, SYS_flock]),
            (FdUse::Polls, with(&[SYS_ppoll], &Vec::from_iter(poll))),
            (FdUse::Selects, with(&[SYS_pselect6], &Vec::from_iter(selects))),
            (FdUse::Epolls, with(&[SYS_epoll_pwait, SYS_epoll_pwait2], &Vec::from_iter(epolls))),
        ];
        same(&FD_USES, &uses);
    }

    fn same<T: Copy + PartialEq + std::fmt::Debug>(table: &[(T, &[i32], &[i32])], wanted: &[(T, Vec<libc::c_long>)]) {
        for ((what, x86, arm), (expected, numbers)) in table.iter().zip(wanted) {
            let mut numbers: Vec<_> = numbers.iter().map(|number| i32::try_from(*number).unwrap()).collect();
            numbers.sort_unstable();
            let own = if Machine::OWN == Machine::Aarch64 { arm } else { x86 };
            assert_eq!((what, *own), (expected, numbers.as_slice()));
        }
        assert_eq!(table.len(), wanted.len());
    }

    #[test]
    fn calls_that_both_machines_have_wait_for_the_same() {
        for (call, x86, arm) in
            [("read", 0, 63), ("write", 1, 64), ("futex", 202, 98), ("fallocate", 285, 47), ("splice", 275, 76)]
        {
            let of = |machine, number| (kind(machine, number), fd_use(machine, number));
            assert_eq!(of(Machine::X86_64, x86), of(Machine::Aarch64, arm), "{call}");
        }
    }
}
