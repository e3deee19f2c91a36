//! Known lines and arbitrary bytes for the parsers; made-up trees for the bounds; and the real kernel, with processes that
//! wait for each other.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::descriptors::{MOST_LINKS, MOST_LOOKUPS, STEADY, TRUSTED_US};
use super::sock_diag::peer_in;
use super::sockets::{TABLES, internet_socket};
use super::*;

/// Between two rounds, microseconds.
const ROUND_US: u64 = 20_000;

/// When the next round of this test begins, microseconds.
fn next_round() -> u64 {
    thread_local!(static ROUNDS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    ROUNDS.with(|rounds| {
        rounds.set(rounds.get() + 1);
        rounds.get() * ROUND_US
    })
}

// Parsers.

#[test]
fn lines_of_internet_sockets_are_read() {
    let line = |local: &str, remote: &str| {
        format!(
            "   1: {local} {remote} 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1"
        )
    };
    for (local, remote, is) in [
        ("0100007F:1F90", "0100007F:C350", Some(("127.0.0.1:8080", "127.0.0.1:50000"))),
        ("0100007F:1F90", "00000000:0000", Some(("127.0.0.1:8080", "0.0.0.0:0"))),
        // ::1, and 127.0.0.1 mapped into IPv6.
        (
            "00000000000000000000000001000000:0016",
            "00000000000000000000000001000000:0017",
            Some(("[::1]:22", "[::1]:23")),
        ),
        (
            "0000000000000000FFFF00000100007F:0016",
            "0000000000000000FFFF00000100007F:0017",
            Some(("127.0.0.1:22", "127.0.0.1:23")),
        ),
        ("0100007F:10000", "0100007F:C350", None),
        ("0100007:1F90", "0100007F:C350", None),
        ("0100007F", "0100007F:C350", None),
        ("0100007FXXXXXXXX:1", "0100007F:C350", None),
        ("Ä100007:1F90", "0100007F:C350", None),
        ("", "", None),
    ] {
        let found = internet_socket(line(local, remote).as_bytes());
        let found = found.map(|socket| (socket.local.to_string(), socket.remote.to_string(), socket.inode));
        assert_eq!(found, is.map(|(local, remote)| (local.into(), remote.into(), 4711)), "{local} {remote}");
    }
    let heading = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
    assert_eq!(internet_socket(heading), None);
    // Of a connection that waits for its end the inode is 0.
    assert_eq!(internet_socket(line("0100007F:1F90", "0100007F:C350").replace("4711", "0").as_bytes()), None);
}

fn answer(kind: u16, attributes: &[(u16, u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    for (length, kind, value) in attributes {
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
    }
    bytes
}

#[test]
fn answers_about_unix_sockets_are_read() {
    let peer = 99_u32.to_ne_bytes();
    assert_eq!(peer_in(&answer(20, &[(8, 2, &peer)])), Some(99));
    // After a name, padded to words.
    assert_eq!(peer_in(&answer(20, &[(7, 0, b"/x\0\0"), (8, 2, &peer)])), Some(99));
    for (lie, bytes) in [
        ("an error", answer(2, &[(8, 2, &peer)])),
        ("nothing", Vec::new()),
        ("no attribute", answer(20, &[])),
        ("the peer has gone", answer(20, &[(8, 2, &[0; 4])])),
        ("too short", answer(20, &[(4, 2, &peer)])),
        ("shorter than its head", answer(20, &[(0, 0, &[]), (8, 2, &peer)])),
        ("longer than there is", answer(20, &[(u16::MAX, 0, &peer)])),
        ("cut", answer(20, &[(8, 2, &peer[..2])])),
    ] {
        assert_eq!(peer_in(&bytes), None, "{lie}");
    }
}

fn waits(waiter: u32, holder: u32) -> LockWait {
    LockWait { waiter, holder, ..LockWait::default() }
}

#[test]
fn waits_for_locks_are_read() {
    let text = b"1: FLOCK  ADVISORY  WRITE 100 08:01:11 0 EOF\n\
        1: -> FLOCK  ADVISORY  WRITE 101 08:01:11 0 EOF\n\
        1:  -> FLOCK  ADVISORY  WRITE 102 08:01:11 0 EOF\n\
        2: OFDLCK ADVISORY  WRITE -1 08:01:12 0 EOF\n\
        2: -> OFDLCK ADVISORY  WRITE -1 08:01:12 0 EOF\n\
        2: -> POSIX  ADVISORY  WRITE 103 08:01:12 0 EOF\n\
        3: POSIX  ADVISORY  READ  104 08:01:13 0 10\n\
        4: -> POSIX  ADVISORY  WRITE 105 08:01:13 0 10\n\
        5: LEASE  ACTIVE    READ  106 08:01:14 0 EOF\n";
    let found: Vec<(LockWait, Option<u64>)> = waits_for_locks(text).collect();
    // Number 4 has no holder: its line was cut off.
    let wanted = [(101, 100, 11), (102, 100, 11), (103, 0, 12), (105, 0, 13)];
    assert_eq!(found, wanted.map(|(waiter, holder, inode)| (waits(waiter, holder), Some(inode))));
}

#[test]
fn locks_for_writing_are_read() {
    let text = b"1: FLOCK  ADVISORY  WRITE 100 08:01:11 0 EOF\n\
        1: -> FLOCK  ADVISORY  WRITE 101 08:01:11 0 EOF\n\
        2: OFDLCK ADVISORY  WRITE -1 08:01:12 0 EOF\n\
        3: POSIX  ADVISORY  READ  104 08:01:13 0 10\n\
        4: POSIX  ADVISORY  WRITE 105 08:01:14 1073741824 1073741824\n\
        5: LEASE  ACTIVE    WRITE 106 08:01:15 0 EOF\n6: POSIX ADVISORY WRITE 107\n";
    assert_eq!(held_for_writing(text).collect::<Vec<_>>(), [(100, 11), (0, 12), (105, 14)]);
}

#[test]
fn epoll_sets_are_read() {
    let text = b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1\n\
        tfd:        5 events:       19 data:                5  pos:0 ino:61 sdev:5\n\
        tfd:        6 events: 80000004 data:                6\n\
        tfd:        7 events: 5 data: 6\n\
        tfd:        8\n\
        tfd: x events: 1\ntfd: 99999999999 events: 1\ntfd:\n";
    let found: Vec<(u32, bool)> = epoll_targets(text).collect();
    assert_eq!(found, [(5, false), (6, true), (7, false), (8, false)]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = peer_in(&bytes);
        let mut headed = answer(20, &[]);
        headed.extend(&bytes);
        let _ = peer_in(&headed);
        let _ = lines(&bytes).filter_map(internet_socket).count();
        let _ = waits_for_locks(&bytes).count();
        let _ = held_for_writing(&bytes).count();
        let _ = epoll_targets(&bytes).count();
    }

    #[test]
    fn nearly_right_text_does_no_harm(text in "([0-9A-F]{1,2}: |-> |POSIX |-1 |[0-9A-F]{8}:[0-9A-F]{4} |tfd: |events: |[0-9]{1,12} |\n){0,60}") {
        let _ = lines(text.as_bytes()).filter_map(internet_socket).count();
        prop_assert!(waits_for_locks(text.as_bytes()).all(|(lock, _)| lock.waiter > 0 || text.contains('0')));
        let _ = epoll_targets(text.as_bytes()).count();
        prop_assert!(held_for_writing(text.as_bytes()).count() <= text.matches("POSIX").count());
    }
}

// Made-up trees.

/// A `/proc` of our own.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn process(&self, pid: u32, links: &[String]) {
        let folder = self.0.path().join(format!("{pid}/fd"));
        std::fs::create_dir_all(&folder).unwrap();
        for (fd, link) in links.iter().enumerate() {
            symlink(link, folder.join(fd.to_string())).unwrap();
        }
    }

    fn table(&self, pid: u32, text: &str) {
        let folder = self.0.path().join(format!("{pid}/net"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("tcp"), text).unwrap();
    }
}

#[test]
fn a_table_of_sockets_leads_from_one_end_to_the_other_and_elsewhere() {
    let tree = Tree::new();
    let tail = "01 0:0 0:0 0 0 0";
    tree.table(
        7,
        &format!(
            "head\n 0: 0100007F:0010 0100007F:0020 {tail} 51\n 1: 0100007F:0020 0100007F:0010 {tail} 52\n \
             2: 0100007F:0030 01020304:01BB {tail} 53\n 3: 0100007F:0031 00000000:0000 0A 0:0 0:0 0 0 0 54\n"
        ),
    );
    tree.process(7, &["socket:[51]".into(), "socket:[53]".into(), "socket:[54]".into()]);
    tree.process(8, &["socket:[52]".into()]);
    let mut connections = Connections::new(tree.0.path());
    for fd in 0..3 {
        connections.descriptor(7, fd, false).unwrap();
    }
    let channels = connections.take(&[7, 8], false).channels;
    let shown: Vec<_> =
        channels.iter().map(|one| (one.readers.clone(), one.writers.clone(), one.remote.as_deref())).collect();
    let (here, none): (Vec<u32>, Vec<u32>) = (vec![7], Vec::new());
    assert_eq!(
        shown,
        [
            (here.clone(), vec![8], Some("127.0.0.1:32")),
            (here.clone(), none.clone(), Some("4.3.2.1:443")),
            (here, none, None)
        ]
    );
}

#[test]
fn a_process_with_thousands_of_descriptors_and_a_large_table_are_bounded() {
    let tree = Tree::new();
    let links: Vec<String> = (0..5000).map(|at| format!("pipe:[{at}]")).collect();
    tree.process(7, &links);
    let sockets: String = (1..50_000)
        .map(|at| format!("{at}: 0100007F:0010 0100007F:0020 01 0:0 0:0 0 0 0 {at} {:60}\n", ""))
        .collect();
    tree.table(8, &sockets);
    tree.process(8, &(1..1000).map(|at| format!("socket:[{}]", at * 10)).collect::<Vec<_>>());
    let mut connections = Connections::new(tree.0.path());
    let begun = Instant::now();
    for _ in 0..10 {
        for _ in 0..50 {
            connections.begin_round(next_round());
            let trusted = connections.descriptors.recent.values().filter(|known| known.times >= STEADY).count();
            let found = (0..2000).filter_map(|fd| connections.descriptor(7, fd, false)).count();
            assert!(found <= MOST_LOOKUPS + trusted, "{found}");
        }
        let sample = connections.take(&[7, 8], true);
        assert!(sample.channels.len() <= MOST_WAITED, "{}", sample.channels.len());
        assert!(connections.ends.values().all(|ends| ends.ends.len() <= MOST_DESCRIPTORS));
        assert!(
            connections.descriptors.links.len() <= MOST_LINKS && connections.descriptors.recent.len() <= MOST_LINKS
        );
    }
    // Unoptimised; what would be quadratic takes minutes.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_steady_descriptor_is_looked_up_seldom_and_a_new_target_seen_soon() {
    let tree = Tree::new();
    tree.process(7, &["pipe:[1]".into()]);
    let mut connections = Connections::new(tree.0.path());
    let mut round = |target: Option<&str>| {
        if let Some(target) = target {
            let path = tree.0.path().join("7/fd/0");
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        }
        connections.begin_round(next_round());
        let link = connections.descriptor(7, 0, false).unwrap().link;
        (link.to_string(), connections.descriptors.lookups)
    };
    let first: Vec<_> = (0..6).map(|_| round(None)).collect();
    assert!(first.iter().all(|(link, _)| link == "pipe:[1]"));
    assert_eq!(first.iter().map(|(_, lookups)| lookups).sum::<usize>(), usize::from(STEADY));
    let trusted = TRUSTED_US / ROUND_US;
    let after = (0..=trusted).take_while(|at| round((*at == 0).then_some("pipe:[2]")).0 == "pipe:[1]").count();
    assert!(after > 0 && after <= trusted as usize, "{after}");
    assert_eq!(round(None).0, "pipe:[2]");
    // One that points elsewhere each time is looked up each time.
    let each: Vec<_> = (3..9).map(|at| round(Some(&format!("pipe:[{at}]")))).collect();
    assert!(
        each.iter().zip(3..).all(|((link, lookups), at)| *link == format!("pipe:[{at}]") && *lookups == 1),
        "{each:?}"
    );
}

#[test]
fn every_process_has_its_turn() {
    let tree = Tree::new();
    let pids: Vec<u32> = (1000..1200).collect();
    pids.iter().for_each(|pid| tree.process(*pid, &[format!("pipe:[{pid}]"), "pipe:[1]".into()]));
    tree.process(7, &["pipe:[5]".into()]);
    let mut connections = Connections::new(tree.0.path());
    for _ in 0..12 {
        // A pipe that nobody is known to hold asks for new lists all the time.
        connections.waited.insert("pipe:[77]".into(), LASTING);
        connections.take(&pids, false);
    }
    let oldest = connections.ends.values().map(|ends| ends.listed).min().unwrap();
    assert_eq!(connections.ends.len(), pids.len());
    assert!(oldest + 6 >= connections.tick, "{oldest}");
    // Somebody outside of them holds it, and lets go of it.
    let look = |connections: &mut Connections| {
        for _ in 0..40 {
            connections.waited.insert("pipe:[5]".into(), LASTING);
            connections.take(&pids, false);
        }
        connections.outside()
    };
    assert_eq!(look(&mut connections), [7]);
    std::fs::remove_file(tree.0.path().join("7/fd/0")).unwrap();
    assert_eq!(look(&mut connections), [] as [u32; 0]);
}

#[test]
fn whoever_is_found_outside_stays_known_while_it_is_sampled() {
    let tree = Tree::new();
    let tail = "01 0:0 0:0 0 0 0";
    tree.table(
        7,
        &format!("head\n 0: 0100007F:0010 0100007F:0020 {tail} 51\n 1: 0100007F:0020 0100007F:0010 {tail} 52\n"),
    );
    tree.process(7, &["socket:[51]".into()]);
    tree.process(8, &["socket:[52]".into()]);
    let mut connections = Connections::new(tree.0.path());
    let mut tick = || {
        let sampled: Vec<u32> = [7].into_iter().chain(connections.outside()).collect();
        for _ in 0..LASTING {
            connections.begin_round(next_round());
            connections.descriptor(7, 0, false).unwrap();
        }
        let channels = connections.take(&sampled, false).channels;
        (channels[0].unsought, channels[0].writers.clone(), connections.outside())
    };
    assert_eq!(tick(), (true, Vec::new(), vec![8]), "it is looked for in this tick");
    for at in 0..60 {
        assert_eq!(tick(), (false, vec![8], vec![8]), "{at}");
    }
    std::fs::remove_file(tree.0.path().join("8/fd/0")).unwrap();
    let last = (0..150).map(|_| tick()).last();
    assert_eq!(last, Some((false, Vec::new(), Vec::new())), "it has let go");
}

#[test]
fn whoever_accepts_short_connections_is_at_their_other_end() {
    let tree = Tree::new();
    let tail = "01 0:0 0:0 0 0 0";
    let connections: String = (0..9)
        .map(|at| format!(" {at}: 0100007F:003{at} 0100007F:0050 {tail} 5{at}\n"))
        .chain([format!(" 9: 00000000:0050 00000000:0000 {tail} 40\n")])
        .collect();
    tree.table(7, &format!("head\n{connections}"));
    tree.process(7, &(0..9).map(|at| format!("socket:[5{at}]")).collect::<Vec<_>>());
    tree.process(8, &["socket:[40]".into()]);
    let mut connections = Connections::new(tree.0.path());
    let mut tick = |at: u32| {
        let sampled: Vec<u32> = [7].into_iter().chain(connections.outside()).collect();
        // Three new connections in each tick; nobody has accepted them yet.
        for fd in at * 3..at * 3 + 3 {
            connections.begin_round(next_round());
            connections.descriptor(7, fd, false).unwrap();
        }
        let channels = connections.take(&sampled, false).channels;
        assert!(channels.iter().all(|channel| channel.remote.as_deref() == Some("127.0.0.1:80")));
        (channels[0].unsought, channels[0].writers.clone(), connections.outside())
    };
    assert_eq!(tick(0), (true, vec![], vec![8]));
    assert_eq!(tick(1), (false, vec![8], vec![8]));
    assert_eq!(tick(2), (false, vec![8], vec![8]));
}

#[test]
fn a_connection_is_known_by_the_side_that_opened_it() {
    let tree = Tree::new();
    let tail = "01 0:0 0:0 0 0 0";
    // Out to port 443 elsewhere, and in to the port that it listens on.
    let sockets = [("0030", "0700A8C0:01BB", 51), ("0050", "0700A8C0:9C40", 52), ("0050", "00000000:0000", 40)];
    let line = |(at, (port, remote, inode)): (usize, &(&str, &str, u32))| {
        let local = if *inode == 40 { "00000000" } else { "0500A8C0" };
        format!(" {at}: {local}:{port} {remote} {tail} {inode}\n")
    };
    tree.table(7, &format!("head\n{}", sockets.iter().enumerate().map(line).collect::<String>()));
    tree.process(7, &["socket:[51]".into(), "socket:[52]".into(), "socket:[40]".into()]);
    let mut connections = Connections::new(tree.0.path());
    connections.begin_round(next_round());
    (0..2).for_each(|fd| drop(connections.descriptor(7, fd, false)));
    let channels = connections.take(&[7], false).channels;
    let accepted: Vec<_> = channels.iter().map(|channel| (&*channel.link, channel.accepted)).collect();
    assert_eq!(accepted, [("socket:[51]", false), ("socket:[52]", true)]);
}

#[test]
fn who_has_inherited_the_listening_socket_is_not_at_the_other_end_of_its_own_connection() {
    let tree = Tree::new();
    let tail = "01 0:0 0:0 0 0 0";
    tree.table(
        7,
        &format!(
            "head\n 0: 0100007F:0030 0100007F:0050 {tail} 51\n 1: 0100007F:0050 0100007F:0030 {tail} 52\n \
             2: 00000000:0050 00000000:0000 {tail} 40\n"
        ),
    );
    tree.process(7, &["socket:[51]".into(), "socket:[40]".into()]);
    tree.process(8, &["socket:[52]".into(), "socket:[40]".into()]);
    let mut connections = Connections::new(tree.0.path());
    let mut tick = || {
        let sampled: Vec<u32> = [7].into_iter().chain(connections.outside()).collect();
        for _ in 0..LASTING {
            connections.begin_round(next_round());
            connections.descriptor(7, 0, false).unwrap();
        }
        let channels = connections.take(&sampled, false).channels;
        channels.iter().find(|channel| &*channel.link == "socket:[51]").unwrap().writers.clone()
    };
    let ticks: Vec<Vec<u32>> = (0..3).map(|_| tick()).collect();
    assert_eq!(ticks, [vec![], vec![8], vec![8]]);
}

#[test]
fn a_connection_that_is_gone_before_the_table_is_read_leads_where_the_last_one_led() {
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = std::process::id();
    let mut sockets = Sockets::new(Path::new("/proc"));
    let far = |sockets: &mut Sockets, socket: &dyn std::os::fd::AsRawFd| {
        let fd = u32::try_from(socket.as_raw_fd()).unwrap();
        let target = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        let link: Arc<str> = target.to_str().unwrap().into();
        sockets.find(own, &link, Some(fd));
        sockets.get(&link).and_then(|far| far.remote.clone())
    };
    for _ in 0..3 {
        // More new connections than tables are read for in one tick.
        for _ in 0..12 {
            let socket = TcpStream::connect(&address).unwrap();
            assert_eq!(far(&mut sockets, &socket).as_deref(), Some(&*address));
        }
        assert!(!sockets.guessed.is_empty() && !sockets.is_settled());
        sockets.debt = 0;
        sockets.forget_old();
        assert!(sockets.guessed.is_empty());
    }
    assert_eq!(far(&mut sockets, &listener), None, "it listens");
    // Nothing is known of this process's connections.
    sockets.last.clear();
    sockets.debt = TABLES;
    let socket = TcpStream::connect(&address).unwrap();
    assert_eq!(far(&mut sockets, &socket).as_deref(), Some("network"));
    // A server's connections come from somebody, who waits for it.
    sockets.forget_old();
    sockets.debt = 0;
    let accepted: Vec<_> = listener.incoming().take(20).collect();
    let found: Vec<_> = accepted.iter().map(|socket| far(&mut sockets, socket.as_ref().unwrap())).collect();
    assert!(sockets.guessed.is_empty() && sockets.last.values().all(Option::is_none), "{found:?}");
}

#[test]
fn without_calls_a_pipe_that_is_new_is_found_soon() {
    let tree = Tree::new();
    tree.process(7, &["pipe:[1]".into()]);
    let mut connections = Connections::new(tree.0.path());
    connections.take(&[7], true);
    tree.process(8, &["/dev/null".into(), "pipe:[2]".into()]);
    symlink("pipe:[2]", tree.0.path().join("7/fd/9")).unwrap();
    let mut tick = |reads: bool| {
        if reads {
            connections.reads_a_pipe(7);
        }
        let channels = connections.take(&[7, 8], true).channels;
        channels.iter().find(|channel| &*channel.link == "pipe:[2]").is_some_and(|found| found.readers.contains(&7))
    };
    let ticks = (0..3).map(|_| tick(true)).position(|found| found);
    assert!(ticks.is_some_and(|ticks| ticks < 3), "{ticks:?}");
    // From then on it is listed as seldom as others.
    std::fs::remove_file(tree.0.path().join("7/fd/9")).unwrap();
    assert!((0..5).all(|_| tick(true)));
}

#[test]
fn named_pipes_are_pipes() {
    let tree = Tree::new();
    let name = |name: &str| tree.0.path().join(name).to_str().unwrap().to_owned();
    let [fifo, file] = ["samples.fifo", "samples.txt"].map(name);
    tree.process(7, &[file.clone(), fifo.clone()]);
    tree.process(8, std::slice::from_ref(&fifo));
    let mut connections = Connections::new(tree.0.path());
    // Nobody waits at it yet.
    assert!(connections.take(&[7, 8], false).channels.is_empty());
    assert_eq!(*connections.descriptor(7, 0, false).unwrap().link, *file);
    std::fs::create_dir_all(tree.0.path().join("7/fdinfo")).unwrap();
    std::fs::write(tree.0.path().join("7/fdinfo/1"), "pos:\t0\nflags:\t0100000\nmnt_id:\t30\nino:\t4711\n").unwrap();
    let waits = |connections: &mut Connections| {
        let mut descriptor = connections.descriptor(7, 1, false).unwrap();
        connections.name_pipe(7, 1, &mut descriptor);
        descriptor.link
    };
    let link = waits(&mut connections);
    assert_eq!(*link, *"pipe:[fifo 4711]");
    let mut ticks = (0..3).map(|_| {
        waits(&mut connections);
        connections.take(&[7, 8], false).channels
    });
    let found =
        ticks.find(|channels| channels.iter().any(|channel| channel.link == link && channel.writers.len() == 2));
    assert!(found.is_some_and(|channels| channels.len() == 1));
}

#[test]
fn the_host_is_scanned_in_parts() {
    let tree = Tree::new();
    (1..2000).for_each(|pid| tree.process(pid, &[]));
    tree.process(2, &["pipe:[5]".into()]);
    tree.process(3, &["pipe:[5]".into()]);
    let mut scan = HostScan::default();
    let inside = HashSet::from([3]);
    let mut ticks = 0;
    while !scan.looked_for("pipe:[5]") {
        scan.look_for(vec!["pipe:[5]".into()], ticks);
        scan.go_on(tree.0.path(), &inside, &Fifos::default());
        ticks += 1;
    }
    assert!((10..13).contains(&ticks), "{ticks}");
    assert_eq!(scan.found(), [2]);
    // New links do not make it begin anew each tick, and no more than so many are remembered.
    for at in 0..30_u64 {
        scan.look_for(vec![format!("pipe:[{}]", 100 + at).into(), "pipe:[5]".into()], ticks + at);
        scan.go_on(tree.0.path(), &inside, &Fifos::default());
        assert_eq!(scan.found(), [2]);
    }
    // What is not waited on any more is forgotten.
    scan.look_for(Vec::new(), ticks + 300);
    assert_eq!(scan.found(), [] as [u32; 0]);
}

#[test]
fn locks_are_read_a_few_times_a_tick_at_most_and_their_holders_are_outside() {
    let tree = Tree::new();
    std::fs::write(
        tree.0.path().join("locks"),
        "1: FLOCK  ADVISORY  WRITE 100 08:01:11 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 101 08:01:11 0 EOF\n",
    )
    .unwrap();
    let mut connections = Connections::new(tree.0.path());
    (101..200).for_each(|pid| connections.lock(pid));
    assert_eq!(connections.lock_reads, MOST_LOCK_READS);
    assert_eq!(connections.take(&[101], false).locks, [waits(101, 100)]);
    assert_eq!(connections.outside(), [100]);
    for _ in 0..LIST_EVERY {
        connections.take(&[101], false);
    }
    assert_eq!(connections.outside(), [] as [u32; 0]);
}

// The real kernel.

/// A Python program that says a line once it is ready, with what it has open; ended on drop.
struct Program {
    child: Child,
    ready: String,
}

impl Program {
    fn start(script: &str) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        Self { child, ready }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn numbers(&self) -> Vec<u32> {
        self.ready.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its children end with the pipe that they inherit.
        drop(self.child.stdin.take());
    }
}

/// Both ends are found, each in one process: a child may be about to close what it has inherited.
fn is_joined(channel: &Channel) -> bool {
    channel.readers.len() == 1 && channel.writers.len() == 1
}

/// The channel of what is waited on, with these processes sampled, once `is_done` says so or 10 seconds are over.
fn channel_of(pid: u32, fd: u32, sampled: &[u32], is_done: impl Fn(&Channel) -> bool) -> (Channel, Connections) {
    let mut connections = Connections::new(Path::new("/proc"));
    let begun = Instant::now();
    loop {
        let looks = (0..LASTING).map(|_| {
            connections.begin_round(next_round());
            connections.descriptor(pid, fd, false).unwrap().link
        });
        let link = looks.last().unwrap();
        let sample = connections.take(sampled, false);
        let channel = sample.channels.into_iter().find(|channel| channel.link == link).unwrap();
        if is_done(&channel) || begun.elapsed() > Duration::from_secs(10) {
            return (channel, connections);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_other_end_of_a_pipe_is_found_inside_and_outside() {
    // The child ends when its parent does: it reads the parent's own input.
    let program = Program::start(
        "import os,sys\nr,w=os.pipe()\np=os.fork()\n\
         if p==0:\n os.close(r);sys.stdin.read();os._exit(0)\n\
         os.close(w);print(p,r,flush=True);os.read(r,1)",
    );
    let [child, fd] = program.numbers()[..] else { panic!("{}", program.ready) };
    let (channel, connections) = channel_of(program.pid(), fd, &[program.pid(), child], is_joined);
    assert_eq!((channel.readers, channel.writers), (vec![program.pid()], vec![child]));
    assert_eq!(connections.outside(), [] as [u32; 0]);
    // The same with the child outside of what is sampled.
    let (channel, connections) = channel_of(program.pid(), fd, &[program.pid()], is_joined);
    assert_eq!(channel.writers, [child]);
    assert_eq!(connections.outside(), [child]);
}

#[test]
fn a_pipe_whose_writer_is_gone_has_none() {
    let program = Program::start("import os,time\nr,w=os.pipe()\nos.close(w);print(r,flush=True);time.sleep(60)");
    let (channel, connections) = channel_of(program.pid(), program.numbers()[0], &[program.pid()], |_| true);
    assert_eq!((channel.readers, channel.writers), (vec![program.pid()], Vec::new()));
    assert_eq!(connections.outside(), [] as [u32; 0]);
}

#[test]
fn the_other_end_of_a_unix_socket_is_found() {
    let program = Program::start(
        "import os,sys,socket\na,b=socket.socketpair()\np=os.fork()\n\
         if p==0:\n a.close();sys.stdin.read();os._exit(0)\n\
         b.close();print(p,a.fileno(),flush=True);a.recv(1)",
    );
    let [child, fd] = program.numbers()[..] else { panic!("{}", program.ready) };
    let (channel, _) = channel_of(program.pid(), fd, &[program.pid(), child], is_joined);
    assert_eq!((channel.readers, channel.writers, channel.remote), (vec![program.pid()], vec![child], None));
    let (channel, _) = channel_of(program.pid(), fd, &[program.pid()], is_joined);
    assert_eq!(channel.writers, [child]);
}

#[test]
fn the_other_end_of_a_connection_and_its_address_are_found() {
    for (family, host) in [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")] {
        if host == "::1" && std::net::TcpListener::bind("[::1]:0").is_err() {
            continue;
        }
        let program = Program::start(&format!(
            "import os,sys,socket\nl=socket.socket(socket.{family});l.bind(('{host}',0));l.listen()\np=os.fork()\n\
             if p==0:\n c,_=l.accept();l.close();sys.stdin.read();os._exit(0)\n\
             port=l.getsockname()[1];l.close();s=socket.socket(socket.{family})\n\
             s.connect(('{host}',port));print(p,s.fileno(),port,flush=True);s.recv(1)"
        ));
        let [child, fd, port] = program.numbers()[..] else { panic!("{}", program.ready) };
        let (channel, _) = channel_of(program.pid(), fd, &[program.pid(), child], is_joined);
        assert_eq!((channel.readers, channel.writers), (vec![program.pid()], vec![child]));
        let address = std::net::SocketAddr::new(host.parse().unwrap(), u16::try_from(port).unwrap());
        assert_eq!(channel.remote.as_deref(), Some(&*address.to_string()));
    }
}

#[test]
fn the_holder_of_a_file_lock_is_found() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = |wait: &str| {
        format!(
            "import fcntl,sys,time\nf=open({:?},'r+')\n{wait}\nfcntl.flock(f,fcntl.LOCK_EX)\nprint(1,flush=True)\nsys.stdin.read()",
            file.path()
        )
    };
    let holder = Program::start(&script(""));
    // This one says that it is ready before it waits.
    let waiter = Program::start(&script("print(1,flush=True)"));
    let mut connections = Connections::new(Path::new("/proc"));
    let begun = Instant::now();
    let locks = loop {
        connections.lock(waiter.pid());
        let locks = connections.take(&[waiter.pid()], false).locks;
        if !locks.is_empty() || begun.elapsed() > Duration::from_secs(10) {
            break locks;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let path = file.path().to_str().map(Into::into);
    assert_eq!(locks, [LockWait { path, ..waits(waiter.pid(), holder.pid()) }]);
    assert_eq!(connections.outside(), [holder.pid()]);
}

#[test]
fn the_holder_of_a_lock_that_a_sleeper_tries_is_found_and_an_inherited_lock_is_none() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let opens = format!("import fcntl,os,sys,time\nf=open({:?},'r+')\n", file.path());
    let holder =
        Program::start(&format!("{opens}fcntl.lockf(f,fcntl.LOCK_EX)\nprint(1,flush=True)\nsys.stdin.read()"));
    let sleeper = Program::start(&format!("{opens}print(1,flush=True)\ntime.sleep(60)"));
    let other = Program::start("import time\nprint(1,flush=True)\ntime.sleep(60)");
    let mut connections = Connections::new(Path::new("/proc"));
    let pids = [sleeper.pid(), other.pid(), holder.pid()];
    pids.iter().for_each(|pid| connections.sleeps(*pid));
    let path = file.path().to_str().map(Into::into);
    let wanted = [LockWait { path, sleeps: true, ..waits(sleeper.pid(), holder.pid()) }];
    assert_eq!(connections.take(&pids, false).locks, wanted);
    assert_eq!(connections.outside(), [holder.pid()]);
    drop(holder);
    connections.sleeps(sleeper.pid());
    assert_eq!(connections.take(&pids, false).locks, []);
    // A child that was started with the file open and locked does not wait for its parent, which locked it.
    let parent = Program::start(&format!(
        "{opens}fcntl.flock(f,fcntl.LOCK_EX)\nprint(os.fork() or time.sleep(60),flush=True)\ntime.sleep(60)"
    ));
    let child = parent.numbers()[0];
    connections.sleeps(child);
    assert_eq!(connections.take(&[child], false).locks, []);
    let child = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn the_members_of_an_epoll_set_are_found() {
    let program = Program::start(
        "import os,select\na=os.pipe();b=os.pipe();e=select.epoll()\n\
         e.register(a[0],select.EPOLLIN);e.register(b[1],select.EPOLLOUT)\n\
         print(e.fileno(),a[0],b[1],flush=True);e.poll();import time;time.sleep(60)",
    );
    let mut connections = Connections::new(Path::new("/proc"));
    let numbers = program.numbers();
    let found = connections.polled(program.pid(), numbers[0]);
    let link = |fd: u32| std::fs::read_link(format!("/proc/{}/fd/{fd}", program.pid())).unwrap();
    let mut shown: Vec<_> = found.iter().map(|one| (one.link.to_string(), one.writes)).collect();
    shown.sort();
    let mut wanted: Vec<_> =
        [(1, false), (2, true)].map(|(at, writes)| (link(numbers[at]).to_str().unwrap().to_owned(), writes)).into();
    wanted.sort();
    assert_eq!(shown, wanted);
    // Not an epoll set, and no descriptor.
    assert_eq!(connections.polled(program.pid(), numbers[1]), []);
    assert_eq!(connections.polled(program.pid(), 4000), []);
}

#[test]
fn without_calls_all_that_joins_the_processes_is_told() {
    let program = Program::start(
        "import os,sys,socket\nr,w=os.pipe();a,b=socket.socketpair();u,v=os.pipe()\np=os.fork()\n\
         if p==0:\n os.close(r);os.close(u);os.close(v);a.close();sys.stdin.read();os._exit(0)\n\
         os.close(w);b.close();print(p,r,a.fileno(),u,flush=True);a.recv(1)",
    );
    let [child, pipe, socket, own] = program.numbers()[..] else { panic!("{}", program.ready) };
    // Until the child has closed what it has inherited.
    std::thread::sleep(Duration::from_millis(500));
    let channels = Connections::new(Path::new("/proc")).take(&[program.pid(), child], true).channels;
    let link = |fd: u32| std::fs::read_link(format!("/proc/{}/fd/{fd}", program.pid())).unwrap();
    let of = |fd: u32| channels.iter().find(|channel| Path::new(&*channel.link) == link(fd));
    for fd in [pipe, socket] {
        let channel = of(fd).unwrap();
        assert_eq!((&channel.readers, &channel.writers), (&vec![program.pid()], &vec![child]));
    }
    assert_eq!(of(own), None, "both its ends are its own");
}

/// Sees nothing of other users' processes; run as another user where we are root.
#[test]
fn what_may_not_be_read_is_told() {
    use std::os::unix::process::CommandExt;
    if rustix::process::geteuid().is_root() {
        let name = "connections::tests::what_may_not_be_read_is_told";
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", name]).uid(65534).gid(65534).stdout(Stdio::null());
        // The program may lie where that user may not look.
        if let Ok(status) = again.status() {
            assert!(status.success());
        }
        return;
    }
    let (ends, _, denied) = open_ends(Path::new("/proc"), 1, &Fifos::default());
    if !denied {
        // In a container the first process may be ours.
        return;
    }
    assert_eq!(ends, []);
    let mut connections = Connections::new(Path::new("/proc"));
    assert_eq!(connections.descriptor(1, 0, false), None);
    assert_eq!(connections.polled(1, 0), []);
    let (mut hidden, begun) = (0, Instant::now());
    while hidden == 0 && begun.elapsed() < Duration::from_secs(10) {
        // A pipe that nobody here holds.
        connections.waited.insert("pipe:[4294967295]".into(), LASTING);
        hidden = connections.take(&[1, std::process::id()], true).hidden;
    }
    assert!(hidden >= 1);
    assert_eq!(connections.outside(), [] as [u32; 0]);
}

#[test]
fn a_process_that_has_ended_or_never_was_does_no_harm() {
    let mut connections = Connections::new(Path::new("/proc"));
    assert_eq!(connections.descriptor(u32::MAX, 0, false), None);
    assert_eq!(connections.polled(u32::MAX, 0), []);
    connections.lock(u32::MAX);
    assert_eq!(connections.take(&[u32::MAX, 0], true).channels, []);
    let mut none = Connections::default();
    none.take(&[1], true);
}

#[test]
fn our_own_end_is_found_too() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let own = std::process::id();
    let fd = u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&theirs)).unwrap();
    let (channel, _) = channel_of(own, fd, &[own], |_| true);
    assert_eq!((channel.readers, channel.writers), (vec![own], vec![own]));
    ours.write_all(b"x").unwrap();
    drop(ours);
    let (channel, _) = channel_of(own, fd, &[own], |_| true);
    assert_eq!((channel.readers, channel.writers), (vec![own], Vec::new()), "its peer is gone");
}
