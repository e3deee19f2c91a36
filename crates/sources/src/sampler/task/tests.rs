//! What calls wait on: known arrays and sets, arbitrary ones, and the real kernel.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use trainmon_sample::ThreadRole;

#[test]
fn arrays_of_polls_are_read() {
    let one = |fd: i32, events: u16| [&fd.to_ne_bytes()[..], &events.to_ne_bytes(), &[0; 2]].concat();
    let array = [one(5, 1), one(-1, 1), one(6, 4), one(7, 5), one(8, 0)].concat();
    let found: Vec<(u32, bool)> = polled(&array).collect();
    assert_eq!(found, [(5, false), (6, true), (7, false), (8, false)]);
    assert_eq!(polled(&array[..11]).count(), 1, "a part of one is none");
}

#[test]
fn sets_of_selects_are_read() {
    let found = |set: &[u8], count| selected(set, count).collect::<Vec<_>>();
    assert_eq!(found(&[0b101, 0b1000_0000], 16), [0, 2, 15]);
    assert_eq!(found(&[0b101, 0b1000_0000], 15), [0, 2]);
    assert_eq!(found(&[1], 1000), [0], "beyond the set there are none");
    assert_eq!(found(&[0xff; 128], 1024).len(), MOST_POLLED);
}

proptest! {
    #[test]
    fn arbitrary_arguments_do_no_harm(
        number in prop_oneof![prop::sample::select(vec![0, 1, 7, 23, 72, 73, 202, 232, 270, 271, 281]), any::<i32>()],
        arguments in any::<[u64; 4]>(),
        small in any::<[u8; 4]>(),
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let _ = polled(&bytes).count();
        prop_assert!(selected(&bytes, arguments[0] as u32 % 5000).count() <= MOST_POLLED);
        // Addresses and counts as the kernel may show them, of our own memory.
        let memory = KeptFile::open("/proc/self/mem").ok();
        let address = bytes.as_ptr() as u64;
        let own = std::process::id();
        let mut connections = Connections::new(Path::new("/proc"));
        for arguments in [
            arguments,
            small.map(u64::from),
            [address, small[0].into(), address, address],
            [small[0].into(), address, address, address],
        ] {
            let _ = of_call(number, arguments, memory.as_ref());
            let found = waited_on(number, arguments, own, memory.as_ref(), &mut connections);
            prop_assert!(found.len() <= 2 * MOST_POLLED);
        }
    }
}

/// A Python program that says a line and then waits; ended on drop.
struct Program(Child, Vec<u32>);

impl Program {
    fn start(script: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.split_whitespace().map(|word| word.parse().unwrap()).collect())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn only_a_select_of_nothing_is_told_from_the_others() {
    // select(2) by its number on x86-64, which AArch64 does not have: there it is pselect6.
    let number = if cfg!(target_arch = "x86_64") { 23 } else { 72 };
    let nfds = |first: u64| of_call(number, [first, 0, 0, 0], None).0.nfds;
    assert_eq!((nfds(0), nfds(7)), (Some(0), None));
    assert_eq!(nfds(0xffff_ffff_0000_0000), Some(0), "an int, of which the kernel shows the whole register");
}

#[test]
fn what_a_real_thread_waits_on_is_seen() {
    if KeptFile::open("/proc/self/syscall").is_err() {
        return;
    }
    for (wait, count) in [
        ("os.read(a[0],1)", 1),
        ("select.select([a[0],b[0]],[],[])", 2),
        ("p=select.poll();p.register(a[0],1);p.register(b[0],1);p.poll()", 2),
        ("e=select.epoll();e.register(a[0],1);e.register(b[0],1);e.poll()", 2),
        ("os.set_blocking(b[1],True)\nwhile 1: os.write(b[1],b'x'*70000)", 1),
    ] {
        let program =
            Program::start(&format!("import os,select\na=os.pipe();b=os.pipe();print(a[0],b[0],flush=True)\n{wait}"));
        let pid = program.0.id();
        let link = |fd: u32| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap().display().to_string();
        let mut wanted = if count == 2 { vec![link(program.1[0]), link(program.1[1])] } else { Vec::new() };
        wanted.sort();
        let memory = KeptFile::open(format!("/proc/{pid}/mem")).ok();
        let mut task = Task::open(Path::new("/proc"), pid, &ThreadPlan::new(pid, ThreadRole::Main), false);
        let (mut seen, mut connections) = (TaskRead::default(), Connections::new(Path::new("/proc")));
        let begun = Instant::now();
        loop {
            connections.begin_round(u64::try_from(begun.elapsed().as_micros()).unwrap());
            let found = task.sample(0, memory.as_ref(), Some((pid, &mut connections)), &mut seen);
            let mut links: Vec<String> = found.descriptors.iter().map(|one| one.link.to_string()).collect();
            links.sort();
            if links.len() == count && (count == 1 || links == wanted) {
                assert_eq!(found.descriptors[0].writes, wait.contains("os.write"), "{wait}");
                assert!(links[0].starts_with("pipe:["), "{wait}: {links:?}");
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{wait}: {found:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
