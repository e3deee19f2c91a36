//! Parsers of the one-line files under `/proc/PID`: pure functions of bytes, without allocation.
//!
//! They run in every tick: 0.5 ms for 201 threads, where the procfs crate's `status` takes 15. Formats are those of
//! proc(5) and the kernel's `fs/proc/array.c` and `fs/proc/base.c`.

use super::fields::{Fields, hexadecimal, lines, number};
use trainmon_sample::IoCounters;

/// The fields of `/proc/PID/stat` in use, except the name (see [`comm`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
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
    /// Fields 16 and 17: of ended children, clock ticks.
    pub children_ticks: u64,
    /// Field 19: −20 to 19.
    pub nice: i32,
    /// Field 20.
    pub threads: u32,
    /// Field 22, clock ticks after boot.
    pub start_ticks: u64,
    /// Field 24, pages.
    pub rss_pages: u64,
    /// Field 9: the kernel's flags.
    pub flags: u64,
    /// A fingerprint of where the program is in memory (fields 26 to 28, 45 and 46: code, stack, data). It changes only
    /// with an exec; 0 if trainmon may not see the fields.
    pub program: u64,
}

/// `PF_KTHREAD` of [`Stat::flags`] (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Stat {
    /// Whether it is a kernel thread.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether it has not ended. A first thread that ends before the others shows as a zombie, and is counted as a
    /// thread.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x') || self.main_has_left()
    }

    /// Whether the first thread has ended while others run.
    pub fn main_has_left(&self) -> bool {
        self.state == 'Z' && self.threads > 1
    }

    /// CPU time in user and kernel mode, clock ticks, all threads.
    pub fn cpu_ticks(&self) -> u64 {
        self.user_ticks.saturating_add(self.system_ticks)
    }
}

/// The name in `/proc/PID/stat`, field 2 without its parentheses. It may contain anything, parentheses included.
pub fn comm(bytes: &[u8]) -> Option<&[u8]> {
    let open = bytes.iter().position(|&byte| byte == b'(')?;
    bytes.get(open + 1..end_of_comm(bytes)?)
}

/// The name ends at the LAST closing parenthesis.
fn end_of_comm(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|&byte| byte == b')')
}

/// Parses `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
pub fn stat(bytes: &[u8]) -> Option<Stat> {
    let mut fields = Fields::new(bytes.get(end_of_comm(bytes)? + 1..)?.trim_ascii_end());
    Some(Stat {
        state: char::from(*fields.next()?.first()?),
        parent: fields.number()?,
        group: signed(fields.next()?)?,
        session: signed(fields.next()?)?,
        flags: fields.nth(2).and_then(number)?, // after 7 tty, 8 tpgid
        minor_faults: fields.number()?,
        major_faults: fields.nth(1).and_then(number)?, // after 11 cminflt
        user_ticks: fields.nth(1).and_then(number)?,   // after 13 cmajflt
        system_ticks: fields.number()?,
        children_ticks: fields.number::<u64>()?.saturating_add(fields.number()?),
        nice: fields.nth(1).and_then(signed)?.try_into().ok()?, // after 18 priority
        threads: fields.number()?,
        start_ticks: fields.nth(1).and_then(number)?, // after 21 itrealvalue
        rss_pages: u64::try_from(fields.nth(1).and_then(signed)?).unwrap_or(0), // after 23 vsize
        program: program(&mut fields).unwrap_or(0),
    })
}

/// How a process that has ended did so, as waitpid(2) gives it: field 52 of its `/proc/PID/stat`, for as long as its parent has not
/// taken it. `None` for a process that lives, and where the kernel does not show it: the field then reads 0, and so does field 35,
/// which is 1 for a process that sleeps or has ended (fs/proc/array.c, `do_task_stat`).
pub fn wait_status(bytes: &[u8]) -> Option<u16> {
    let ended = stat(bytes)?;
    if !matches!(ended.state, 'Z' | 'X' | 'x') || ended.main_has_left() {
        return None;
    }
    let mut fields = Fields::new(bytes.get(end_of_comm(bytes)? + 1..)?.trim_ascii_end());
    let is_shown = fields.nth(32).and_then(number::<u64>)? != 0; // field 35
    let status: u16 = fields.nth(16).and_then(number)?; // field 52
    (is_shown || status != 0).then_some(status)
}

/// One number for fields 26 to 28, 45 and 46, given the fields from 25 on: the kernel randomizes the stack's place at
/// each exec (fs/binfmt_elf.c, `randomize_stack_top`); without that, it moves with the length of the arguments. The
/// fields read 0 and 1 for readers without permission (fs/proc/array.c), and 0 in the middle of an exec.
fn program(fields: &mut Fields<'_>) -> Option<u64> {
    let mut known = |skipped: usize| fields.nth(skipped).and_then(number).filter(|address| *address > 1);
    let code = [known(1)?, known(0)?];
    let stack = known(0)?;
    let data = [known(16)?, known(0)?];
    // FNV-1a by words.
    let mix = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    Some(code.iter().chain([&stack]).chain(&data).fold(0xcbf2_9ce4_8422_2325, mix).max(1))
}

/// Counters of a thread since its start (`schedstat`, Documentation/scheduler/sched-stats.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU, nanoseconds.
    pub on_cpu_ns: u64,
    /// Time runnable but waiting for a CPU, nanoseconds.
    pub run_delay_ns: u64,
    /// Times that it got a CPU.
    pub timeslices: u64,
}

impl SchedStat {
    /// What was added since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(before.on_cpu_ns),
            run_delay_ns: self.run_delay_ns.saturating_sub(before.run_delay_ns),
            timeslices: self.timeslices.saturating_sub(before.timeslices),
        }
    }
}

/// Parses `schedstat`.
pub fn schedstat(bytes: &[u8]) -> Option<SchedStat> {
    let mut fields = Fields::new(bytes.trim_ascii_end());
    Some(SchedStat { on_cpu_ns: fields.number()?, run_delay_ns: fields.number()?, timeslices: fields.number()? })
}

/// Parses `/proc/PID/io` or a task's.
pub fn io(bytes: &[u8]) -> Option<IoCounters> {
    let mut counters = IoCounters::default();
    let mut seen = 0;
    for line in lines(bytes) {
        let mut fields = Fields::new(line);
        let field = match fields.next() {
            Some(b"rchar:") => &mut counters.read_chars,
            Some(b"wchar:") => &mut counters.write_chars,
            Some(b"syscr:") => &mut counters.read_calls,
            Some(b"syscw:") => &mut counters.write_calls,
            Some(b"read_bytes:") => &mut counters.read_bytes,
            Some(b"write_bytes:") => &mut counters.write_bytes,
            _ => continue,
        };
        *field = fields.number()?;
        seen += 1;
    }
    (seen == 6).then_some(counters)
}

/// The content of `/proc/PID/syscall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syscall {
    /// `running`: on a CPU or runnable.
    Running,
    /// Blocked in this call (−1: in none, for instance in a page fault), with its first four arguments.
    In(i32, [u64; 4]),
}

/// Parses `/proc/PID/syscall`.
pub fn syscall(bytes: &[u8]) -> Option<Syscall> {
    let line = bytes.trim_ascii();
    if line == b"running" {
        return Some(Syscall::Running);
    }
    let mut fields = Fields::new(line);
    let number = i32::try_from(signed(fields.next()?)?).ok()?;
    let mut arguments = [0; 4];
    if number >= 0 {
        for argument in &mut arguments {
            *argument = hexadecimal(fields.next()?.strip_prefix(b"0x")?)?;
        }
    }
    Some(Syscall::In(number, arguments))
}

fn signed(bytes: &[u8]) -> Option<i64> {
    match bytes.split_first() {
        Some((b'-', rest)) => number(rest).map(|value: i64| -value),
        _ => number(bytes),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names that have broken other monitors: parentheses, spaces, newlines, empty, look-alike state fields.
    const NASTY: &[&str] = &["python", ") R 1 2 3", "a b", "((", "", "x\ny", "tmux: server", "S) S 1", "\u{7f}"];

    fn line(comm: &str, utime: u64, start: u64, rss: i64) -> Vec<u8> {
        format!(
            "42 ({comm}) S 7 42 41 0 -1 4194560 100 0 3 0 {utime} 6 4 3 20 -5 12 0 {start} 1000 {rss} 18446744073709551615 0 0\n"
        )
        .into_bytes()
    }

    #[test]
    fn stat_reads_every_nasty_name() {
        for comm in NASTY {
            let bytes = line(comm, 5, 99, 77);
            let stat = stat(&bytes).unwrap();
            assert_eq!(super::comm(&bytes), Some(comm.as_bytes()));
            assert_eq!((stat.state, stat.parent, stat.group, stat.session), ('S', 7, 42, 41));
            assert_eq!((stat.minor_faults, stat.major_faults), (100, 3));
            assert_eq!((stat.user_ticks, stat.system_ticks, stat.nice, stat.threads), (5, 6, -5, 12));
            assert_eq!((stat.children_ticks, stat.cpu_ticks(), stat.is_kernel_thread()), (7, 11, false));
            assert_eq!((stat.start_ticks, stat.rss_pages), (99, 77));
        }
    }

    #[test]
    fn the_status_of_what_has_ended_is_read_where_the_kernel_shows_it() {
        let of = |state: char, threads: u32, shown: u32, status: u32| {
            let line = format!(
                "42 (x) {state} 7 42 41 0 -1 0 0 0 0 0 5 6 4 3 20 0 {threads} 0 9 0 0 99 0 0 0 0 0 0 0 0 0 {shown} 0 0 \
                 17 0 0 0 0 0 0 0 0 0 0 0 0 0 {status}\n"
            );
            wait_status(line.as_bytes())
        };
        assert_eq!((of('Z', 1, 1, 256), of('Z', 1, 1, 9), of('Z', 1, 1, 0)), (Some(256), Some(9), Some(0)));
        assert_eq!(of('Z', 1, 0, 0), None, "not shown to others than its owner");
        assert_eq!(of('Z', 1, 0, 256), Some(256), "other kernels: only what is shown is not 0");
        assert_eq!((of('S', 1, 1, 0), of('Z', 2, 1, 0), of('Z', 1, 1, 1 << 20)), (None, None, None));
    }

    #[test]
    fn where_a_program_lies_is_known_to_those_who_may_see_it() {
        let of = |code: u64, stack: u64, data: u64, arguments: u64| {
            let line = format!(
                "42 (x) S 7 42 41 0 -1 0 0 0 0 0 5 6 4 3 20 0 1 0 9 1000 7 99 {code} {code} {stack} {arguments} 0 0 0 0 0 0 0 0 \
                 17 0 0 0 0 0 0 {data} {data} 77 {arguments} 0 0 0 0\n"
            );
            stat(line.as_bytes()).unwrap().program
        };
        let known = of(0x40_0000, 0x7fff_1000, 0x60_0000, 1);
        assert_ne!(known, 0);
        assert_eq!(known, of(0x40_0000, 0x7fff_1000, 0x60_0000, 2), "arguments are overwritten without an exec");
        assert_ne!(known, of(0x40_0000, 0x7fff_2000, 0x60_0000, 1));
        assert_eq!(of(1, 0, 0, 0), 0, "of another user");
        assert_eq!(of(0, 0x7fff_1000, 0, 0), 0, "in the middle of an exec");
        let own = || stat(&std::fs::read("/proc/self/stat").unwrap()).unwrap().program;
        assert!(own() != 0 && own() == own());
    }

    #[test]
    fn calls_with_their_arguments() {
        let poll = syscall(b"7 0x7ffd 0x1 0x1388 0x0 0x0 0x0 0x7f 0x7f\n");
        assert_eq!(poll, Some(Syscall::In(7, [0x7ffd, 1, 5000, 0])));
        assert_eq!(syscall(b"running\n"), Some(Syscall::Running));
        assert_eq!(syscall(b"-1 0x7ffd 0x7f\n"), Some(Syscall::In(-1, [0; 4])));
        assert_eq!(syscall(b"7 0x7ffd"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (stat(&bytes), comm(&bytes), schedstat(&bytes), io(&bytes), syscall(&bytes));
        }

        #[test]
        fn stat_round_trips(comm in "[ -~]{0,15}", utime: u64, start: u64, rss in 0_i64..i64::MAX) {
            let bytes = line(&comm, utime, start, rss);
            let stat = stat(&bytes).unwrap();
            prop_assert_eq!(super::comm(&bytes), Some(comm.as_bytes()));
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
