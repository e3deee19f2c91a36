//! Made-up jobs whose chain is known, through the whole fold; and arbitrary ones, whose shares must add up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::paths::*;
use super::*;
use crate::Frames;
use crate::testing::*;
use trainmon_sample::{
    Access, Channel, ConnectionsSample, Descriptor, GpuProcess, GpuReading, GpuSample, LockWait, Observation,
    ProcessRole, ProcessSample, Sample, SampledProcess, SampledThread, SamplerSample, StackCount, StackFrame,
    StackWindow, StacksSample, ThreadRole, ThreadSample, ThreadStacks,
};

/// Rounds of a tick, of which every third is followed.
const ROUNDS: u32 = 50;
const TRAINER: u32 = 10;

/// A thread with what it is seen doing, round by round, and its pace: share of the time on a CPU, wake-ups a second.
#[derive(Debug, Clone)]
struct Actor {
    pid: u32,
    tid: u32,
    does: Vec<Observation>,
    cpu: f64,
    wakes: u64,
}

/// A job at rest but for these threads.
#[derive(Debug, Clone, Default)]
struct MadeUpJob {
    actors: Vec<Actor>,
    workers: Vec<u32>,
    outside: Vec<u32>,
    channels: Vec<Channel>,
    locks: Vec<LockWait>,
    no_syscall: bool,
    /// The workers are not torch's.
    own_workers: bool,
    gpu_pct: Option<u32>,
    /// Another process works on the gpu besides, percent.
    others_pct: Option<u32>,
    /// A process and the one that started it, which is not the rank.
    parent: Option<(u32, u32)>,
    /// CPU use of children of this process that were never seen, cores.
    children: Option<(u32, f64)>,
    /// CPU use of threads of this process that have ended, cores.
    ended: Option<(u32, f64)>,
    /// Threads that were sampled and have ended since, so that they are not listed.
    gone: Vec<u32>,
}

fn running() -> Observation {
    Observation { state: Some('R'), ..Observation::default() }
}

fn call(number: i32) -> Observation {
    Observation { call: Some(number), ..Observation::default() }
}

fn on(number: i32, wchan: &str, link: &str, writes: bool) -> Observation {
    Observation {
        wchan: Some(wchan.into()),
        descriptors: vec![Descriptor { link: link.into(), writes }],
        ..call(number)
    }
}

fn reads(link: &str) -> Observation {
    on(0, "anon_pipe_read", link, false)
}

fn writes(link: &str) -> Observation {
    on(1, "anon_pipe_write", link, true)
}

fn receives(link: &str) -> Observation {
    on(45, "wait_woken", link, false)
}

fn futex(deadline_ms: Option<i32>) -> Observation {
    Observation { operation: Some(137), deadline_ms, ..call(202) }
}

fn disk() -> Observation {
    Observation { state: Some('D'), wchan: Some("folio_wait_bit_common".into()), ..Observation::default() }
}

fn sleeps() -> Observation {
    call(230)
}

/// The same with the kernel's function alone.
fn without_call(seen: &Observation) -> Observation {
    let wchan = match (seen.call, seen.wchan.as_deref()) {
        (Some(202), _) => Some("futex_do_wait"),
        (Some(7), _) => Some("poll_schedule_timeout"),
        (Some(230), _) => Some("hrtimer_nanosleep"),
        (_, wchan) => wchan,
    };
    Observation { state: seen.state, wchan: wchan.map(Into::into), ..Observation::default() }
}

fn pipe(link: &str, readers: &[u32], writers: &[u32]) -> Channel {
    Channel { link: link.into(), readers: readers.into(), writers: writers.into(), ..Channel::default() }
}

impl MadeUpJob {
    fn thread(mut self, pid: u32, tid: u32, cpu: f64, wakes: u64, does: &[Observation]) -> Self {
        self.actors.push(Actor { pid, tid, does: does.into(), cpu, wakes });
        self
    }

    /// The main thread of a process, which moves.
    fn main(self, pid: u32, does: &[Observation]) -> Self {
        self.thread(pid, pid, 0.3, 30, does)
    }

    fn worker(mut self, pid: u32, does: &[Observation]) -> Self {
        self.workers.push(pid);
        self.main(pid, does)
    }

    fn outside(mut self, pid: u32, does: &[Observation]) -> Self {
        self.outside.push(pid);
        self.main(pid, does)
    }

    fn channel(mut self, channel: Channel) -> Self {
        self.channels.push(channel);
        self
    }

    /// The scene as a tick would sample it. Long because it is one literal with all that a tick has.
    fn sample(&self, at: u64) -> Sample {
        let mut pids: Vec<u32> = self.actors.iter().map(|actor| actor.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let of = |pid: u32| self.actors.iter().filter(move |actor| actor.pid == pid);
        let role = |pid: u32| match pid {
            TRAINER => ProcessRole::Rank,
            _ if self.workers.contains(&pid) => ProcessRole::Worker,
            _ => ProcessRole::Other,
        };
        let thread_role = |actor: &Actor| if actor.pid == actor.tid { ThreadRole::Main } else { ThreadRole::Other };
        let process_of = |pid: u32| ProcessSample {
            role: role(pid),
            parent: match self.parent {
                Some((child, parent)) if child == pid => parent,
                _ if pid == TRAINER => 1,
                _ => TRAINER,
            },
            comm: if self.workers.contains(&pid) && !self.own_workers {
                "pt_data_worker".into()
            } else {
                "python".into()
            },
            children_ticks: self
                .children
                .filter(|(of, _)| *of == pid)
                .map(|(_, cores)| (at as f64 * cores * 100.0).round() as u64),
            user_ticks: self.ended.filter(|(of, _)| *of == pid).map_or(0, |(_, cores)| {
                let living: f64 = of(pid).map(|actor| actor.cpu).sum();
                (at as f64 * (living + cores) * 100.0).round() as u64
            }),
            threads: of(pid)
                .filter(|actor| !self.gone.contains(&actor.tid))
                .map(|actor| ThreadSample {
                    tid: actor.tid,
                    role: thread_role(actor),
                    on_cpu_ns: Some((at as f64 * actor.cpu * 1e9) as u64),
                    run_delay_ns: Some(0),
                    timeslices: Some(at * actor.wakes),
                    ..ThreadSample::default()
                })
                .collect(),
            ..process(pid)
        };
        let mut seen = Vec::new();
        let mut processes = Vec::new();
        for pid in &pids {
            let mut threads = Vec::new();
            for actor in of(*pid) {
                let rounds: Vec<u32> = if *pid == TRAINER && actor.tid == TRAINER {
                    (0..ROUNDS).collect()
                } else {
                    (0..ROUNDS).step_by(3).collect()
                };
                let places = rounds.iter().map(|round| {
                    let does = &actor.does[(round / 3) as usize % actor.does.len()];
                    seen.push(if self.no_syscall { without_call(does) } else { does.clone() });
                    u32::try_from(seen.len() - 1).unwrap()
                });
                let places = places.collect();
                let aside = thread_role(actor) != ThreadRole::Main;
                threads.push(SampledThread { tid: actor.tid, role: thread_role(actor), aside, rounds, seen: places });
            }
            let rank = (role(*pid) == ProcessRole::Worker).then_some(TRAINER);
            processes.push(SampledProcess { id: id(*pid), role: role(*pid), rank, threads, ..Default::default() });
        }
        processes.sort_by_key(|process| process.role);
        let (out, inside): (Vec<u32>, Vec<u32>) = pids.iter().partition(|pid| self.outside.contains(pid));
        let connections = ConnectionsSample {
            channels: self.channels.clone(),
            locks: self.locks.clone(),
            outside: out.into_iter().map(process_of).collect(),
            ..ConnectionsSample::default()
        };
        let mut inside: Vec<ProcessSample> = inside.into_iter().map(process_of).collect();
        inside.sort_by_key(|process| process.id.pid != TRAINER);
        let sampler = SamplerSample {
            syscall: if self.no_syscall { Access::Denied } else { Access::Ok },
            began_ns: at * 1000 * MS,
            gaps_us: vec![20_000; ROUNDS as usize],
            followed: Some((0, 3)),
            seen,
            processes,
            ..SamplerSample::default()
        };
        let job = JobSample {
            sampler,
            connections: Some(Arc::new(connections)),
            cuda_visible_devices: self.gpu_pct.map(|_| "0".into()),
            ..job((at + 1) * 1000, inside)
        };
        let on = |pid, pct| GpuProcess { pid, memory_bytes: Some(1), sm_utilization_pct: Some(pct), compute: true };
        let device = self.gpu_pct.map(|pct| GpuReading {
            utilization_pct: Some(pct + self.others_pct.unwrap_or(0)),
            processes: self.others_pct.map_or(vec![], |others| vec![on(TRAINER, pct), on(999, others)]),
            ..GpuReading::default()
        });
        let gpus = device.map(|device| {
            let monotonic_ns = (at + 1) * 1000 * MS;
            Arc::new(GpuSample { monotonic_ns, devices: vec![device], ..GpuSample::default() })
        });
        Sample { job: Some(Arc::new(job)), gpus, ..tick(at, (at + 1) * 1000) }
    }

    /// The chain of the last of some ticks.
    fn chain(&self) -> ChainRates {
        let mut rates = Frames::default();
        let mut frame = None;
        for at in 1..6 {
            frame = Some(rates.next(Arc::new(self.sample(at))));
        }
        frame.unwrap().ranks[0].chain.clone().unwrap()
    }

    /// The ways of the last of some ticks as text with their percentages, the longest first.
    fn ways(&self) -> Vec<String> {
        let chain = self.chain();
        adds_up(&chain);
        let hop = |hop: &WaitHop| {
            let by = serde_json::to_value(hop.by).unwrap();
            let thread = if hop.tid == hop.pid { hop.pid.to_string() } else { format!("{}/{}", hop.pid, hop.tid) };
            format!("{} {thread} ", by.as_str().unwrap())
        };
        let way = |path: &WaitPath| {
            let hops: String = path.hops.iter().map(hop).collect();
            let pct = f64::from(path.seconds) / chain.seconds * 100.0;
            let end = match (path.end, &path.name) {
                (end @ (End::Net | End::Lock), Some(name)) => format!("{end:?}({name:?})"),
                (end, _) => format!("{end:?}"),
            };
            format!("{hops}{end} {pct:.0}")
        };
        chain.paths.iter().map(way).collect()
    }
}

/// The laws of a chain.
fn adds_up(chain: &ChainRates) {
    let sum: f64 = chain.paths.iter().map(|path| f64::from(path.seconds)).sum();
    assert!((sum - chain.seconds).abs() < 1e-6 * chain.seconds.max(1.0), "{sum} of {}", chain.seconds);
    assert!(chain.paths.len() <= PATHS + 1, "{}", chain.paths.len());
    for path in &chain.paths {
        assert!(path.seconds >= 0.0 && path.idle_s >= 0.0 && path.idle_s <= path.seconds + 1e-6, "{path:?}");
        assert!(path.hops.len() <= 6, "{path:?}");
    }
}

const PIPE: &str = "pipe:[1]";
const OTHER: &str = "pipe:[2]";
const SOCKET: &str = "socket:[3]";

/// A rank that reads from worker 11.
fn fed() -> MadeUpJob {
    MadeUpJob::default().main(TRAINER, &[reads(PIPE)]).channel(pipe(PIPE, &[TRAINER, 11], &[11]))
}

#[test]
fn no_longer_for_the_device_than_it_works_where_a_thread_sleeps_with_the_lock() {
    let waits = MadeUpJob::default().main(TRAINER, &[futex(None)]).thread(TRAINER, 11, 0.0, 30, &[sleeps()]);
    let with_gpu = |pct| MadeUpJob { gpu_pct: Some(pct), ..waits.clone() }.ways();
    // A tenth more of it, and 2% of the time, are let through.
    assert_eq!(with_gpu(30), ["thread 10/11 Timer 65", "Gpu 35"]);
    assert_eq!(with_gpu(100), ["Gpu 100"]);
    // Nobody else is known.
    let alone = |pct| MadeUpJob { gpu_pct: Some(pct), ..MadeUpJob::default().main(TRAINER, &[futex(None)]) }.ways();
    assert_eq!(alone(30), ["Unknown 65", "Gpu 35"]);
    assert_eq!(alone(85), ["Gpu 100"], "within what readings of its use differ by");
    let shared = MadeUpJob { gpu_pct: Some(30), others_pct: Some(60), ..MadeUpJob::default() };
    assert_eq!(shared.main(TRAINER, &[futex(None)]).ways(), ["Gpu 100"], "others use it as well");
}

#[test]
fn a_loader_works_ahead_of_the_loop() {
    for (own_workers, works_ahead, loader) in [(true, true, true), (true, false, false), (false, false, true)] {
        let worker =
            if works_ahead { [running(), running(), running()] } else { [futex(None), futex(None), running()] };
        let scene = MadeUpJob { own_workers, ..MadeUpJob::default() }
            .main(TRAINER, &[running(), running(), reads(PIPE)])
            .worker(11, &worker)
            .channel(pipe(PIPE, &[TRAINER], &[11]));
        assert_eq!(scene.chain().peers[0].loader, loader, "{own_workers} {works_ahead}");
    }
}

#[test]
fn who_waits_for_the_loop_to_take_what_it_has_works_ahead_of_it() {
    let is_loader = |while_the_loop_works: Observation| {
        let scene = MadeUpJob { own_workers: true, ..MadeUpJob::default() }
            .main(TRAINER, &[running(), running(), reads(PIPE)])
            .worker(11, &[while_the_loop_works.clone(), while_the_loop_works, running()])
            .channel(pipe(PIPE, &[TRAINER], &[11]));
        scene.chain().peers[0].loader
    };
    assert!(is_loader(writes(PIPE)), "a batch that is larger than the pipe");
    assert!(!is_loader(futex(None)));
}

#[test]
fn who_fetches_from_elsewhere_while_the_loop_works_does_so_ahead_of_it() {
    let fetches_when = |place: &str, moments: [Observation; 3]| {
        let remote = if place == "elsewhere" { Some("10.0.0.1:80".into()) } else { None };
        let writers = if place == "trainer" { vec![TRAINER] } else { Vec::new() };
        MadeUpJob { own_workers: true, ..MadeUpJob::default() }
            .main(TRAINER, &[running(), running(), reads(PIPE)])
            .worker(11, &moments)
            .channel(pipe(PIPE, &[TRAINER], &[11]))
            .channel(Channel { link: SOCKET.into(), readers: vec![11], writers, remote, ..Channel::default() })
    };
    let always = || [receives(SOCKET), receives(SOCKET), receives(SOCKET)];
    let is_loader = |scene: MadeUpJob| scene.chain().peers[0].loader;
    assert!(is_loader(fetches_when("elsewhere", always())));
    assert!(!is_loader(fetches_when("trainer", always())), "it is asked over the socket");
    assert!(
        !is_loader(fetches_when("elsewhere", [futex(None), futex(None), receives(SOCKET)])),
        "it fetches on request"
    );
}

#[test]
fn a_socket_with_a_time_limit_is_no_loader() {
    let polls = |link: &str| Observation { nfds: Some(1), timeout_ms: Some(5000), ..on(7, "do_poll", link, false) };
    let input_wait = |scene: &MadeUpJob| {
        let mut rates = Frames::default();
        let frames = (1..6).map(|at| rates.next(Arc::new(scene.sample(at))));
        frames.last().unwrap().ranks[0].split_s.input_wait
    };
    let server = Channel {
        link: SOCKET.into(),
        readers: vec![TRAINER],
        remote: Some("10.0.0.1:80".into()),
        ..Channel::default()
    };
    let asks = MadeUpJob::default().main(TRAINER, &[running(), polls(SOCKET), polls(SOCKET)]).channel(server);
    assert_eq!(input_wait(&asks), 0.0);
    let fed = MadeUpJob::default()
        .main(TRAINER, &[running(), polls(PIPE), polls(PIPE)])
        .worker(11, &[running()])
        .channel(pipe(PIPE, &[TRAINER], &[11]));
    assert!(input_wait(&fed) > 0.6);
}

#[test]
fn who_waits_for_requests_is_no_loader() {
    // Two environments: one works while the loop sends to the other, so it runs in most of the loop's own time.
    let environment = |asked: bool| {
        let scene = MadeUpJob { own_workers: true, ..MadeUpJob::default() }
            .main(TRAINER, &[running(), reads(PIPE), reads(PIPE), reads(PIPE)])
            .worker(11, &[running(), running(), reads(OTHER), reads(OTHER)])
            .channel(pipe(PIPE, &[TRAINER], &[11]));
        scene.channel(pipe(OTHER, &[11], if asked { &[TRAINER] } else { &[12] }))
    };
    assert!(!environment(true).chain().peers[0].loader);
    assert!(environment(false).chain().peers[0].loader, "it waits for a source of its own");
}

#[test]
fn loaders_are_known_by_the_pipe_that_is_waited_at() {
    let scene = MadeUpJob::default()
        .main(TRAINER, &[reads(PIPE), reads(PIPE), reads(PIPE), reads(OTHER), receives(SOCKET)])
        .worker(11, &[running()])
        .worker(12, &[running()])
        .channel(pipe(PIPE, &[TRAINER], &[12, TRAINER]))
        .channel(pipe(OTHER, &[TRAINER], &[11, 12, TRAINER]))
        .channel(pipe(SOCKET, &[TRAINER], &[11]));
    let chain = scene.chain();
    let sets: Vec<_> = chain.sets.iter().map(|set| (&*set.pipe, set.workers.clone())).collect();
    assert_eq!(sets, [(PIPE, vec![12]), (OTHER, vec![11, 12])]);
    let share = |at: usize| f64::from(chain.sets[at].seconds) / chain.seconds;
    assert!((share(0) - 0.6).abs() < 0.1 && (share(1) - 0.4).abs() < 0.1, "{:?}", chain.sets);
    assert!((chain.loader_s() - chain.seconds).abs() < 0.01 * chain.seconds);
}

#[test]
fn waits_end_where_somebody_works() {
    let two = MadeUpJob::default().main(TRAINER, &[reads(PIPE)]).channel(pipe(PIPE, &[TRAINER], &[11, 12]));
    let to_child = MadeUpJob::default()
        .main(TRAINER, &[futex(None)])
        .thread(TRAINER, 20, 0.01, 100, &[reads(PIPE)])
        .channel(pipe(PIPE, &[TRAINER], &[11]));
    for (name, scene, ways) in [
        ("the loop itself", MadeUpJob::default().main(TRAINER, &[running()]), vec!["Cpu 100"]),
        ("a worker computes", fed().worker(11, &[running()]), vec!["reads 11 Cpu 100"]),
        ("it waits for the disk", fed().worker(11, &[disk()]), vec!["reads 11 Disk 100"]),
        (
            "two share",
            two.clone().worker(11, &[running()]).worker(12, &[running()]),
            vec!["reads 11 Cpu 50", "reads 12 Cpu 50"],
        ),
        ("one of two works", two.clone().worker(11, &[running()]).worker(12, &[disk()]), vec!["reads 11 Cpu 100"]),
        (
            "an idle process has inherited the end",
            two.worker(11, &[running()]).thread(12, 12, 0.0, 0, &[reads(OTHER)]),
            vec!["reads 11 Cpu 100"],
        ),
        ("through a thread of its own", to_child.main(11, &[running()]), vec!["thread 10/20 reads 11 Cpu 100"]),
        (
            "the interpreter lock",
            MadeUpJob::default().main(TRAINER, &[running(), futex(Some(4))]).thread(
                TRAINER,
                20,
                0.9,
                200,
                &[running()],
            ),
            vec!["Cpu 52", "interpreter-lock 10/20 Cpu 48"],
        ),
        (
            "a slow reader of its output",
            MadeUpJob::default().main(TRAINER, &[writes(PIPE)]).outside(30, &[sleeps()]).channel(pipe(
                PIPE,
                &[30],
                &[TRAINER],
            )),
            vec!["writes 30 Timer 100"],
        ),
        (
            "a process that is stopped",
            fed().main(11, &[Observation { state: Some('T'), ..Observation::default() }]),
            vec!["reads 11 Stopped 100"],
        ),
        (
            "a child's end",
            MadeUpJob::default()
                .main(TRAINER, &[Observation { argument: Some(11), ..call(61) }])
                .main(11, &[running()]),
            vec!["child 11 Cpu 100"],
        ),
    ] {
        assert_eq!(scene.ways(), ways, "{name}");
    }
}

#[test]
fn threads_that_do_the_same_are_waited_for_alike() {
    let pool = |tid, cpu, seen: &[Observation]| {
        let scene = MadeUpJob::default().main(TRAINER, &[futex(None)]).thread(TRAINER, 20, 0.3, 200, &[running()]);
        scene.thread(TRAINER, tid, cpu, 200, seen)
    };
    for (name, scene, ways) in [
        ("one reads meanwhile", pool(21, 0.25, &[disk()]), vec!["thread 10/20 Cpu 50", "thread 10/21 Disk 50"]),
        ("one that hardly computes is no peer", pool(21, 0.02, &[disk()]), vec!["thread 10/20 Cpu 100"]),
        ("nor is one that has nothing to do", pool(21, 0.25, &[futex(None)]), vec!["thread 10/20 Cpu 100"]),
        ("nor one that sleeps", pool(21, 0.25, &[sleeps()]), vec!["thread 10/20 Cpu 100"]),
    ] {
        assert_eq!(scene.ways(), ways, "{name}");
    }
}

#[test]
fn waits_that_end_while_they_are_looked_at_are_told_by_the_cpu_time() {
    let reader = |wakes_per_s, seen: &[Observation]| {
        let main = MadeUpJob::default().main(TRAINER, &[futex(None), futex(None)]);
        main.thread(TRAINER, 20, 0.25, wakes_per_s, seen).ways()
    };
    let (reads, sleeps) = ([running(), disk()], [running(), sleeps()]);
    assert_eq!(reader(2000, &reads), ["thread 10/20 Disk 75", "thread 10/20 Cpu 25"]);
    assert_eq!(
        reader(200, &reads),
        ["thread 10/20 Cpu 52", "thread 10/20 Disk 48"],
        "waits of some milliseconds are seen"
    );
    assert_eq!(reader(2000, &sleeps), ["thread 10/20 Cpu 52", "thread 10/20 Timer 48"], "no disk");
}

#[test]
fn who_sleeps_waits_for_the_device_while_that_works() {
    for (pct, ways) in [(1, vec!["Timer 100"]), (20, vec!["Timer 80", "Gpu 20"]), (100, vec!["Gpu 100"])] {
        let scene = MadeUpJob { gpu_pct: Some(pct), ..MadeUpJob::default() }.main(TRAINER, &[sleeps()]);
        assert_eq!(scene.ways(), ways, "{pct}%");
        let chain = scene.chain();
        let lost: f64 = chain.paths.iter().map(|path| f64::from(path.idle_s)).sum();
        assert!((lost / chain.seconds - (1.0 - f64::from(pct) / 100.0)).abs() < 0.02, "{pct}%: {lost}");
    }
}

#[test]
fn who_sleeps_and_looks_again_waits_for_who_works_only_meanwhile() {
    let main = [sleeps(), sleeps(), sleeps(), running()];
    let scene = |pid: u32, does: &[Observation]| {
        MadeUpJob::default().main(TRAINER, &main).thread(pid, 20, 0.5, 30, does).ways()
    };
    let asked = [running(), running(), running(), reads(PIPE)];
    assert_eq!(scene(20, &asked), ["polls 20 Cpu 76", "Cpu 24"]);
    assert_eq!(scene(TRAINER, &asked), ["thread 10/20 Cpu 76", "Cpu 24"]);
    // Who never rests works ahead, and does not keep up.
    assert_eq!(scene(20, &[running()]), ["polls 20 Cpu 76", "Cpu 24"]);
    // What it does not work for is sleep for nobody.
    let some = [running(), reads(PIPE), reads(PIPE), reads(PIPE)];
    assert_eq!(scene(20, &some), ["Timer 48", "polls 20 Cpu 28", "Cpu 24"]);
    assert_eq!(scene(20, &[reads(PIPE)]), ["Timer 76", "Cpu 24"]);
}

#[test]
fn that_somebody_who_never_rests_is_what_a_loop_sleeps_for_is_a_guess() {
    let main = [sleeps(), sleeps(), sleeps(), running()];
    let chain =
        |does: &[Observation]| MadeUpJob::default().main(TRAINER, &main).thread(20, 20, 0.5, 30, does).chain();
    assert!(chain(&[running(), running(), running(), reads(PIPE)]).exact);
    assert!(!chain(&[running()]).exact);
}

#[test]
fn sockets_end_at_a_process_or_an_address() {
    let remote =
        |writers: &[u32]| Channel { remote: Some("10.0.3.7:443".into()), ..pipe(SOCKET, &[TRAINER], writers) };
    let asks = || MadeUpJob::default().main(TRAINER, &[receives(SOCKET)]);
    for (name, scene, ways) in [
        ("elsewhere", asks().channel(remote(&[])), vec!["Net(\"10.0.3.7:443\") 100"]),
        ("whoever connected to it", asks().channel(Channel { accepted: true, ..remote(&[]) }), vec!["Asked 100"]),
        (
            "a server here that computes",
            asks().channel(remote(&[30])).outside(30, &[running()]),
            vec!["network 30 Cpu 100"],
        ),
        (
            "a server here that sleeps",
            asks().channel(remote(&[30])).outside(30, &[sleeps()]),
            vec!["Net(\"10.0.3.7:443\") 100"],
        ),
        (
            "a unix socket",
            asks().channel(pipe(SOCKET, &[TRAINER], &[30])).outside(30, &[running()]),
            vec!["reads 30 Cpu 100"],
        ),
        (
            "whoever is there was not looked for",
            asks().channel(Channel { unsought: true, ..remote(&[]) }),
            vec!["Unknown 100"],
        ),
        ("whoever is there is not sampled yet", asks().channel(remote(&[30])), vec!["Unknown 100"]),
        ("its peer is gone", asks().channel(pipe(SOCKET, &[TRAINER], &[])), vec!["Unknown 100"]),
        ("nothing is known of it", asks(), vec!["Unknown 100"]),
    ] {
        assert_eq!(scene.ways(), ways, "{name}");
    }
}

#[test]
fn a_server_that_waits_for_a_moment_of_its_own_sleeps() {
    let waits = |timeout_ms| Observation { timeout_ms: Some(timeout_ms), ..on(232, "ep_poll", OTHER, false) };
    let remote = |link: &str, reader: u32, writer: u32| Channel {
        link: link.into(),
        readers: vec![reader],
        writers: vec![writer],
        remote: Some("127.0.0.1:80".into()),
        ..Channel::default()
    };
    let asks = |server: &[Observation]| {
        let scene = MadeUpJob::default().main(TRAINER, &[receives(SOCKET)]).outside(30, server);
        scene.channel(remote(SOCKET, TRAINER, 30)).channel(remote(OTHER, 30, TRAINER)).ways()
    };
    assert_eq!(asks(&[waits(64)]), ["Net(\"127.0.0.1:80\") 100"]);
    // For ever, or until a connection is closed for being idle: it has nothing to do.
    assert_eq!(asks(&[waits(-1)]), ["network 30 Asked 100"]);
    assert_eq!(asks(&[waits(65536)]), ["network 30 Asked 100"]);
}

#[test]
fn who_inherited_a_socket_is_not_waited_for() {
    // Another rank, and its forked data worker, which holds all that the rank had open.
    let ranks = MadeUpJob { parent: Some((31, 30)), ..MadeUpJob::default().main(TRAINER, &[receives(SOCKET)]) };
    let ranks = ranks.outside(30, &[running()]).worker(31, &[running()]).channel(pipe(SOCKET, &[TRAINER], &[30, 31]));
    assert_eq!(ranks.ways(), ["reads 30 Cpu 100"]);
    // A shell that waits for what it started holds the ends of its pipes, and rests.
    let shell = MadeUpJob { parent: Some((31, 30)), ..MadeUpJob::default().main(TRAINER, &[receives(SOCKET)]) };
    let shell = shell.outside(31, &[running()]).channel(pipe(SOCKET, &[TRAINER], &[30, 31]));
    assert_eq!(shell.ways(), ["reads 31 Cpu 100"]);
}

#[test]
fn a_server_whose_main_thread_rests_is_waited_for_by_the_thread_that_answers() {
    // The main thread listens for others at a socket that leads to nobody.
    let server = MadeUpJob::default()
        .main(TRAINER, &[receives(SOCKET)])
        .outside(30, &[on(7, "poll_schedule_timeout", "socket:[9]", false)]);
    let server = server.thread(30, 31, 0.05, 30, &[sleeps()]).channel(pipe(SOCKET, &[TRAINER], &[30]));
    assert_eq!(server.ways(), ["reads 30/31 Timer 100"]);
}

#[test]
fn children_that_live_for_a_moment_are_told_by_what_they_compute() {
    const GONE: u64 = 4000;
    let waits = |seen: &Observation, cores: f64| {
        let does = [seen.clone(), running()];
        MadeUpJob { children: Some((TRAINER, cores)), ..MadeUpJob::default() }.main(TRAINER, &does)
    };
    let ends = Observation { argument: Some(GONE), ..call(61) };
    for (name, scene, ways) in [
        ("what it writes", waits(&reads(PIPE), 0.45), vec!["Cpu 48", "Children 52"]),
        ("its end", waits(&ends, 0.45), vec!["Cpu 48", "Children 52"]),
        ("beside another child", waits(&ends, 0.45).main(11, &[running()]), vec!["Cpu 48", "Children 52"]),
        ("they explain a part", waits(&reads(PIPE), 0.2), vec!["Cpu 48", "Unknown 32", "Children 20"]),
        ("they hardly compute", waits(&reads(PIPE), 0.01), vec!["Cpu 48", "Unknown 52"]),
        ("no wait for a child", waits(&futex(None), 0.45), vec!["Cpu 48", "Unknown 52"]),
        (
            "somebody is known",
            waits(&reads(PIPE), 0.45).main(11, &[disk()]).channel(pipe(PIPE, &[TRAINER], &[11])),
            vec!["Cpu 48", "reads 11 Disk 52"],
        ),
        (
            "a worker's children",
            MadeUpJob { children: Some((11, 0.9)), ..fed() }.worker(11, &[reads(OTHER)]),
            vec!["reads 11 Children 100"],
        ),
    ] {
        let mut found = scene.ways();
        found.sort();
        let mut ways = ways;
        ways.sort();
        assert_eq!(found, ways, "{name}");
    }
}

#[test]
fn threads_that_live_for_a_moment_are_told_by_what_they_compute() {
    let waits = |cores: f64| {
        let does = [futex(None), running()];
        MadeUpJob { ended: Some((TRAINER, cores)), ..MadeUpJob::default() }.main(TRAINER, &does)
    };
    let sleeping = waits(0.45).thread(TRAINER, 20, 0.0, 1, &[sleeps()]);
    for (name, scene, ways) in [
        ("a pool for each batch", waits(0.45), vec!["Cpu 48", "thread 10/0 Cpu 52"]),
        ("they explain a part", waits(0.2), vec!["Cpu 48", "Unknown 32", "thread 10/0 Cpu 20"]),
        ("they hardly compute", waits(0.02), vec!["Cpu 48", "Unknown 52"]),
        ("one that lives on sleeps", sleeping, vec!["Cpu 48", "thread 10/0 Cpu 52"]),
        (
            "one that lives on runs",
            waits(0.45).thread(TRAINER, 20, 0.5, 30, &[running()]),
            vec!["Cpu 48", "thread 10/20 Cpu 52"],
        ),
        // It worked all the while that the loop waited.
        ("the device", MadeUpJob { gpu_pct: Some(100), ..waits(0.45) }, vec!["Cpu 48", "Gpu 52"]),
        (
            "a worker's threads",
            MadeUpJob { ended: Some((11, 0.9)), ..fed() }.worker(11, &[futex(None)]),
            vec!["reads 11 thread 11/0 Cpu 100"],
        ),
        (
            "a worker's threads, beside torch's that hands out descriptors",
            MadeUpJob { ended: Some((11, 0.9)), ..fed() }.worker(11, &[futex(None)]).thread(
                11,
                12,
                0.0,
                1,
                &[on(43, "unix_accept", SOCKET, false)],
            ),
            vec!["reads 11 thread 11/0 Cpu 100"],
        ),
    ] {
        let mut found = scene.ways();
        found.sort();
        assert_eq!(found, ways, "{name}");
    }
}

#[test]
fn threads_that_are_seen_for_a_moment_stand_for_those_that_are_not() {
    const THREAD: u32 = 20;
    let remote = Channel {
        link: SOCKET.into(),
        readers: vec![TRAINER],
        remote: Some("10.0.0.1:80".into()),
        ..Channel::default()
    };
    let none = Observation::default;
    let scene = |main: &[Observation], thread: &[Observation]| {
        let scene = MadeUpJob { gone: vec![THREAD], ..MadeUpJob::default() };
        scene.main(TRAINER, main).thread(TRAINER, THREAD, 0.0, 0, thread).channel(remote.clone())
    };
    let fetched = scene(&[futex(None)], &[receives(SOCKET), none(), none()]);
    assert_eq!(fetched.ways(), ["thread 10/0 Net(\"10.0.0.1:80\") 100"]);
    let device = |pct| MadeUpJob { gpu_pct: Some(pct), ..fetched.clone() }.ways();
    assert_eq!(device(40), ["thread 10/0 Net(\"10.0.0.1:80\") 54", "Gpu 46"]);
    // It is there while the loop works: nobody waits for it.
    let beside = scene(&[running(), futex(None), futex(None)], &[receives(SOCKET), none(), none()]);
    assert_eq!(beside.ways(), ["Unknown 66", "Cpu 34"]);
}

#[test]
fn an_event_is_written_by_a_thread_of_the_same_process() {
    const SOCKETS: u32 = 20;
    const EVENT: &str = "anon_inode:[eventfd]";
    let waits = || on(7, "poll_schedule_timeout", EVENT, false);
    let waits_on_both = Observation {
        descriptors: vec![
            Descriptor { link: EVENT.into(), writes: false },
            Descriptor { link: SOCKET.into(), writes: false },
        ],
        ..on(232, "do_epoll_wait", EVENT, false)
    };
    let channel = |remote: Option<&str>| Channel {
        link: SOCKET.into(),
        readers: vec![TRAINER],
        writers: vec![11],
        remote: remote.map(Into::into),
        ..Channel::default()
    };
    let scene = MadeUpJob::default().main(TRAINER, &[waits()]).thread(
        TRAINER,
        SOCKETS,
        0.01,
        30,
        std::slice::from_ref(&waits_on_both),
    );
    let fed = scene.clone().worker(11, &[running()]).channel(channel(None));
    assert_eq!(fed.ways(), ["thread 10/20 reads 11 Cpu 100"]);
    let alone = MadeUpJob::default().main(TRAINER, &[waits()]);
    assert_eq!(alone.ways(), ["Unknown 100"]);
    // One that waits on a socket as well is not taken to wait for whoever else runs.
    let remote = channel(Some("10.0.0.1:80"));
    let serves = MadeUpJob::default()
        .main(TRAINER, &[waits_on_both])
        .thread(TRAINER, SOCKETS, 0.9, 30, &[running()])
        .channel(Channel { writers: vec![], ..remote });
    assert_eq!(serves.ways(), ["Net(\"10.0.0.1:80\") 100"]);
}

#[test]
fn locks_end_at_their_holder() {
    let file = "/data/index.lock";
    let locked = |holder: u32| MadeUpJob {
        locks: vec![LockWait { waiter: TRAINER, holder, ..LockWait::default() }],
        ..MadeUpJob::default().main(TRAINER, &[on(73, "locks_lock_inode_wait", file, false)])
    };
    let chain = locked(30).outside(30, &[running()]).chain();
    assert_eq!((chain.paths[0].end, chain.paths[0].lock.as_deref()), (End::Cpu, Some(file)));
    assert_eq!(chain.paths[0].hops, [WaitHop { by: Edge::FileLock, pid: 30, tid: 30 }]);
    assert!(!chain.peers[0].inside && !chain.peers[0].loader);
    // Of an open file description, in another PID namespace, or its own.
    for holder in [0, TRAINER] {
        assert_eq!(locked(holder).ways(), [format!("Lock({file:?}) 100")]);
    }
}

#[test]
fn who_sleeps_beside_a_locked_file_of_its_own_tries_again() {
    let lock = LockWait { waiter: TRAINER, holder: 30, path: Some("/data/runs.db".into()), sleeps: true };
    let scene = MadeUpJob { locks: vec![lock], ..MadeUpJob::default().main(TRAINER, &[sleeps()]) };
    let chain = scene.clone().outside(30, &[running()]).chain();
    assert_eq!((chain.paths[0].end, chain.paths[0].lock.as_deref()), (End::Cpu, Some("/data/runs.db")));
    assert_eq!(chain.paths[0].hops, [WaitHop { by: Edge::TriesLock, pid: 30, tid: 30 }]);
    // Who runs meanwhile tries nothing, and a sleep beside no lock is one.
    assert_eq!(
        MadeUpJob { locks: scene.locks, ..MadeUpJob::default().main(TRAINER, &[running()]) }.ways(),
        ["Cpu 100"]
    );
    assert_eq!(MadeUpJob::default().main(TRAINER, &[sleeps()]).ways(), ["Timer 100"]);
}

#[test]
fn what_is_asked_back_or_not_known_is_no_end_of_somebody() {
    let asked = MadeUpJob::default()
        .main(TRAINER, &[reads(PIPE)])
        .main(11, &[reads(OTHER)])
        .channel(pipe(PIPE, &[TRAINER], &[11]))
        .channel(pipe(OTHER, &[11], &[TRAINER]));
    assert_eq!(asked.ways(), ["reads 11 Asked 100"]);
    // Nobody of the job holds it, as where its holder's descriptors may not be read.
    let nobody = MadeUpJob::default().main(TRAINER, &[reads(PIPE)]).channel(pipe(PIPE, &[TRAINER], &[]));
    assert_eq!(nobody.ways(), ["Unknown 100"]);
    // A holder that is not sampled: trainmon itself, of which nothing is read.
    let own = std::process::id();
    let ours = MadeUpJob::default().main(TRAINER, &[writes(PIPE)]).channel(pipe(PIPE, &[own], &[TRAINER]));
    assert_eq!(ours.ways(), [format!("writes {own} Unknown 100")]);
    // Its own both ends, and no other thread.
    let alone = MadeUpJob::default().main(TRAINER, &[reads(PIPE)]).channel(pipe(PIPE, &[TRAINER], &[TRAINER]));
    assert_eq!(alone.ways(), ["Unknown 100"]);
}

#[test]
fn chains_are_followed_so_far() {
    let mut scene = MadeUpJob::default().main(TRAINER, &[reads("pipe:[100]")]);
    for at in 0..20_u32 {
        let pid = 11 + at;
        let before = if at == 0 { TRAINER } else { pid - 1 };
        scene = scene.main(pid, &[reads(&format!("pipe:[{}]", 101 + at))]).channel(pipe(
            &format!("pipe:[{}]", 100 + at),
            &[before],
            &[pid],
        ));
    }
    let chain = scene.chain();
    adds_up(&chain);
    assert_eq!(chain.paths.len(), 1);
    assert_eq!(chain.paths[0].end, End::Unknown);
    assert!((4..=6).contains(&chain.paths[0].hops.len()), "{chain:?}");
}

#[test]
fn the_loop_runs_in_another_thread() {
    let join = futex(None);
    let polls = Observation { timeout_ms: Some(100), nfds: Some(1), ..call(7) };
    for main in [join, polls, sleeps()] {
        let scene = MadeUpJob::default()
            .thread(TRAINER, TRAINER, 0.0, 10, std::slice::from_ref(&main))
            .thread(TRAINER, 20, 0.4, 50, &[running(), reads(PIPE)])
            .worker(11, &[running()])
            .channel(pipe(PIPE, &[TRAINER], &[11]));
        let still = MadeUpJob { actors: scene.actors.clone(), ..scene.clone() };
        let mut still = still;
        if main == futex(None) {
            still.actors[0].wakes = 0;
        }
        let chain = still.chain();
        assert_eq!((chain.process.pid, chain.tid), (TRAINER, 20), "{main:?}");
        let ends: Vec<_> = chain.paths.iter().map(|path| (path.hops.len(), &path.end)).collect();
        assert_eq!(ends, [(0, &End::Cpu), (1, &End::Cpu)], "{main:?}");
    }
}

/// A window in which each of these threads stands in one function.
fn stacks(threads: &[(u32, &str)]) -> StacksSample {
    let frames = threads.iter().map(|(_, function)| StackFrame {
        function: (*function).into(),
        file: "/home/me/job.py".into(),
        ..StackFrame::default()
    });
    let threads = threads.iter().zip(0..).map(|((tid, _), at)| ThreadStacks {
        tid: Some(*tid),
        stacks: vec![StackCount { frames: vec![at], samples: 10 }],
        ..ThreadStacks::default()
    });
    let (frames, threads) = (frames.collect(), threads.collect());
    StacksSample { windows: vec![StackWindow { process: id(TRAINER), frames, threads }], ..StacksSample::default() }
}

#[test]
fn threads_without_python_compute_for_whoever_calls_them() {
    let last = |waits: Observation, python: &[(u32, &str)]| {
        let scene =
            MadeUpJob::default().main(TRAINER, &[running(), waits]).thread(TRAINER, 20, 0.9, 200, &[running()]);
        let mut rates = Frames::default();
        let frames = (0..7).map(|at| {
            let stacks = if at > 1 { Some(Arc::new(stacks(python))) } else { None };
            rates.next(Arc::new(Sample { stacks, ..scene.sample(at) }))
        });
        frames.last().unwrap().ranks.remove(0)
    };
    let both: &[(u32, &str)] = &[(TRAINER, "main"), (20, "fill")];
    // What the numbers of another PID namespace are not.
    let elsewhere: &[(u32, &str)] = &[(1, "main")];
    for (python, makes_batches) in [(both, true), (&both[..1], false), (elsewhere, true)] {
        let rank = last(futex(None), python);
        let split = rank.measured();
        let (input, host) = if makes_batches { (0.48, 0.52) } else { (0.0, 1.0) };
        assert!(
            (split.input_wait - input).abs() < 0.05 && (split.host_busy - host).abs() < 0.05,
            "{python:?} {split:?}"
        );
        let lock = last(futex(Some(4)), python).chain.unwrap();
        let holds = lock.paths.iter().any(|path| path.hops.iter().any(|hop| hop.by == Edge::InterpreterLock));
        assert_eq!(holds, makes_batches, "{python:?}: {:?}", lock.paths);
    }
}

#[test]
fn a_worker_that_polls_for_what_the_rank_writes_has_nothing_to_do() {
    let polls = Observation { nfds: Some(1), timeout_ms: Some(1000), ..on(7, "do_poll", OTHER, false) };
    for (writer, has_nothing_to_do) in [(TRAINER, true), (12, false)] {
        let scene = MadeUpJob { own_workers: true, ..MadeUpJob::default() }
            .main(TRAINER, &[reads(PIPE)])
            .worker(11, std::slice::from_ref(&polls))
            .channel(pipe(PIPE, &[TRAINER], &[11]))
            .channel(pipe(OTHER, &[11], &[writer]));
        let mut rates = Frames::default();
        let worker = (1..6).map(|at| rates.next(Arc::new(scene.sample(at)))).last().unwrap().workers.remove(0);
        let (rest, other) =
            if has_nothing_to_do { (worker.idle, worker.io_wait) } else { (worker.io_wait, worker.idle) };
        assert!(close(rest, 0.7) && close(other, 0.0), "{writer}: {worker:?}");
    }
}

#[test]
fn a_worker_that_accepts_connections_does_what_its_other_threads_do() {
    for (answers, busy, idle) in [(running(), 1.0, 0.0), (reads(OTHER), 0.3, 0.7)] {
        let scene = MadeUpJob { own_workers: true, ..MadeUpJob::default() }
            .main(TRAINER, &[receives(SOCKET)])
            .worker(11, &[call(43)])
            .thread(11, 12, 0.7, 30, std::slice::from_ref(&answers));
        let mut rates = Frames::default();
        let worker = (1..6).map(|at| rates.next(Arc::new(scene.sample(at)))).last().unwrap().workers.remove(0);
        assert!(close(worker.busy, busy) && close(worker.idle, idle) && close(worker.io_wait, 0.0), "{worker:?}");
    }
}

#[test]
fn workers_that_wait_for_one_of_them_are_at_a_lock() {
    let shared = Observation { operation: Some(265), ..call(202) };
    let turns = |waits: &Observation| {
        let does = |turn: usize| {
            let mut does = vec![waits.clone(); 3];
            does[turn] = running();
            does
        };
        fed().worker(11, &does(0)).worker(12, &does(1)).worker(13, &does(2))
    };
    let idle = Observation { nfds: Some(1), timeout_ms: Some(5000), ..on(7, "do_poll", OTHER, false) };
    let without_calls = |scene: MadeUpJob| MadeUpJob { no_syscall: true, ..scene };
    for (name, scene, at_lock) in [
        ("turns", turns(&shared), 0.7),
        ("without calls", without_calls(turns(&shared)), 0.7),
        ("a lock of the worker's own", turns(&futex(None)), 0.0),
        ("somebody rests", turns(&shared).worker(14, std::slice::from_ref(&idle)), 0.0),
        ("somebody rests, without calls", without_calls(turns(&shared).worker(14, &[idle])), 0.0),
        ("nobody works", fed().worker(11, std::slice::from_ref(&shared)).worker(12, &[shared]), 0.0),
    ] {
        let mut rates = Frames::default();
        let worker = (1..6).map(|at| rates.next(Arc::new(scene.sample(at)))).last().unwrap().workers.remove(0);
        assert!(close(worker.idle, 0.7) && close(worker.lock_wait, at_lock), "{name}: {worker:?}");
    }
}

#[test]
fn who_computes_for_others_runs_no_loop() {
    let scene = |theirs: Observation| {
        MadeUpJob::default()
            .thread(TRAINER, TRAINER, 0.0, 0, &[futex(None)])
            .thread(TRAINER, 20, 0.3, 50, &[running(), futex(None)])
            .thread(TRAINER, 21, 0.7, 200, &[running(), running(), theirs])
    };
    // OpenMP's threads wait in another way than Python's.
    let of_pool = Observation { operation: Some(128), ..futex(None) };
    assert_eq!(scene(of_pool.clone()).chain().tid, 20);
    // Neither of two that look alike: the one that does more.
    assert_eq!(scene(futex(None)).chain().tid, 21);
    // The stacks know.
    for (seen, tid) in [
        (stacks(&[(TRAINER, "main"), (20, "run")]), 20),
        (stacks(&[(TRAINER, "main"), (20, "train_epoch"), (21, "fill")]), 20),
        (stacks(&[(TRAINER, "main"), (20, "fill"), (21, "fit")]), 21),
        (stacks(&[(TRAINER, "main")]), 21),
        // Numbers of another PID namespace say nothing.
        (stacks(&[(1, "main"), (2, "run")]), 21),
    ] {
        let mut rates = Frames::default();
        let scene = scene(futex(None));
        let mut frame = rates.next(Arc::new(scene.sample(0)));
        for at in 1..6 {
            let stacks = if at == 2 { Some(Arc::new(seen.clone())) } else { None };
            frame = rates.next(Arc::new(Sample { stacks, ..scene.sample(at) }));
        }
        assert_eq!(frame.ranks[0].chain.as_ref().unwrap().tid, tid, "{seen:?}");
    }
}

#[test]
fn the_loops_thread_is_followed_when_it_changes() {
    let scene = |busy: u32, rests: u32| {
        MadeUpJob::default()
            .thread(TRAINER, TRAINER, 0.0, 0, &[futex(None)])
            .thread(TRAINER, busy, 0.6, 50, &[running()])
            .thread(TRAINER, rests, 0.0, 0, &[futex(None)])
    };
    let mut rates = Frames::default();
    let mut at = 0;
    let mut next = |scene: &MadeUpJob| {
        at += 1;
        let frame = rates.next(Arc::new(scene.sample(at)));
        frame.ranks[0].chain.as_ref().map(|chain| chain.tid)
    };
    let first = scene(20, 21);
    assert_eq!((0..5).map(|_| next(&first)).last(), Some(Some(20)));
    // A thread that begins is no rival of the one that went on before until its counters have moved.
    let second = MadeUpJob { actors: scene(21, 20).actors, ..MadeUpJob::default() };
    let tids: Vec<u32> = (0..6).filter_map(|_| next(&second)).collect();
    assert_eq!(tids.last(), Some(&21), "{tids:?}");
    assert_eq!(tids.first(), Some(&20), "one tick is no change: {tids:?}");
}

#[test]
fn no_time_counts_twice_or_backwards() {
    let scene = fed().worker(11, &[running()]);
    let mut rates = Frames::default();
    let mut seconds = |at: u64, sequence: u64| {
        let sample = scene.sample(at);
        let frame = rates.next(Arc::new(Sample { job: sample.job, ..tick(sequence, (sequence + 1) * 1000) }));
        frame.ranks[0].chain.as_ref().map_or(0.0, |chain| chain.seconds)
    };
    assert_eq!(seconds(1, 1), 0.0, "the first sample has none before it");
    assert!((seconds(2, 2) - 1.0).abs() < 0.07);
    assert_eq!(seconds(2, 3), 0.0, "the job was not read anew");
    assert!((seconds(3, 4) - 1.0).abs() < 0.07);
    assert_eq!(seconds(4, 9), 0.0, "ticks are missing");
    assert!((seconds(5, 10) - 1.0).abs() < 0.07);
}

#[test]
fn without_calls_the_same_chains() {
    let blind = |scene: MadeUpJob| MadeUpJob { no_syscall: true, ..scene };
    for (scene, ways) in [
        (fed().worker(11, &[running()]), vec!["reads 11 Cpu 100"]),
        (fed().worker(11, &[disk()]), vec!["reads 11 Disk 100"]),
        (
            MadeUpJob::default()
                .main(TRAINER, &[futex(None)])
                .thread(TRAINER, 20, 0.01, 100, &[reads(PIPE)])
                .channel(pipe(PIPE, &[TRAINER], &[11]))
                .main(11, &[running()]),
            vec!["thread 10/20 reads 11 Cpu 100"],
        ),
        (
            MadeUpJob::default().thread(TRAINER, TRAINER, 0.3, 230, &[running(), futex(Some(4))]).thread(
                TRAINER,
                20,
                0.9,
                200,
                &[running()],
            ),
            vec!["Cpu 52", "interpreter-lock 10/20 Cpu 48"],
        ),
        (
            MadeUpJob::default().main(TRAINER, &[writes(PIPE)]).outside(30, &[sleeps()]).channel(pipe(
                PIPE,
                &[30],
                &[TRAINER],
            )),
            vec!["writes 30 Timer 100"],
        ),
    ] {
        let scene = blind(scene);
        assert!(!scene.chain().exact);
        assert_eq!(scene.ways(), ways);
    }
}

#[test]
fn a_socket_made_for_a_moment_leads_to_the_partners_on_pipes() {
    let local = on(45, "unix_stream_read_generic", "socket:[99]", false);
    let scene = MadeUpJob::default().main(TRAINER, &[local]).worker(11, &[running()]);
    let scene = MadeUpJob { no_syscall: true, ..scene.channel(pipe(PIPE, &[TRAINER, 11], &[11])) };
    assert_eq!(scene.ways(), ["reads 11 Cpu 100"]);
}

#[test]
fn nothing_is_claimed_of_other_users_processes() {
    // Neither its threads nor what it waits for may be read: only that it is there.
    let scene = fed().thread(11, 11, 0.0, 0, &[Observation::default()]);
    assert_eq!(scene.ways(), ["reads 11 Unknown 100"]);
}

#[test]
fn a_wait_that_branches_everywhere_is_bounded() {
    // Each of 24 processes polls 16 pipes, whose writers are all the others; each has 12 threads.
    let pids: Vec<u32> = (11..35).collect();
    let links: Vec<String> = (0..16).map(|at| format!("pipe:[{at}]")).collect();
    let polls = Observation {
        nfds: Some(16),
        timeout_ms: Some(-1),
        descriptors: links.iter().map(|link| Descriptor { link: (&**link).into(), writes: false }).collect(),
        ..call(7)
    };
    let mut scene = MadeUpJob::default().main(TRAINER, std::slice::from_ref(&polls));
    for pid in &pids {
        for thread in 0..12 {
            scene = scene.thread(*pid, pid + thread * 100, 0.1, 10, std::slice::from_ref(&polls));
        }
    }
    for link in &links {
        scene = scene.channel(pipe(link, &[&[TRAINER], &*pids].concat(), &pids));
    }
    // Unoptimised, on a busy machine; unbounded it takes hours.
    let begun = Instant::now();
    adds_up(&scene.chain());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn threads_that_come_and_go_leave_nothing_behind() {
    let mut rates = Frames::default();
    let begun = Instant::now();
    for at in 1..20_u64 {
        let mut scene = fed().worker(11, &[running()]);
        for thread in 0..1000 {
            let tid = 1000 + u32::try_from(at).unwrap() * 1000 + thread;
            scene = scene.thread(TRAINER, tid, 0.01, 10, &[running(), futex(None)]);
        }
        let frame = rates.next(Arc::new(scene.sample(at)));
        frame.ranks[0].chain.iter().for_each(adds_up);
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// One of everything that a thread may be seen doing.
fn any_observation() -> impl Strategy<Value = Observation> {
    let link = (0..6_u32).prop_map(|at| if at < 4 { format!("pipe:[{at}]") } else { format!("socket:[{at}]") });
    let descriptor = (link, any::<bool>()).prop_map(|(link, writes)| Descriptor { link: link.into(), writes });
    let descriptors = prop::collection::vec(descriptor, 0..4);
    prop_oneof![
        Just(running()),
        Just(disk()),
        Just(sleeps()),
        Just(Observation::default()),
        prop::option::of(-5..9000_i32).prop_map(futex),
        prop::option::of(8..20_u64).prop_map(|argument| Observation { argument, ..call(61) }),
        (prop::sample::select(vec![0, 1, 7, 16, 23, 45, 72, 73, 232, -1]), descriptors).prop_map(
            |(number, descriptors)| Observation {
                wchan: Some(if number == 0 { "anon_pipe_read" } else { "wait_woken" }.into()),
                descriptors,
                ..call(number)
            }
        ),
    ]
}

fn any_scene() -> impl Strategy<Value = MadeUpJob> {
    let does = || prop::collection::vec(any_observation(), 1..4);
    let thread = (10..16_u32, 0..4_u32, prop_oneof![Just(0.0), 0.0..1.0], 0..300_u64, does());
    let pids = || prop::collection::vec(9..17_u32, 0..4);
    let channel = (0..6_u32, pids(), pids(), any::<bool>()).prop_map(|(at, readers, writers, remote)| {
        let link = if at < 4 { format!("pipe:[{at}]") } else { format!("socket:[{at}]") };
        Channel { remote: remote.then(|| "1.2.3.4:5".into()), ..pipe(&link, &readers, &writers) }
    });
    let lock = (9..17_u32, 0..17_u32).prop_map(|(waiter, holder)| LockWait { waiter, holder, ..LockWait::default() });
    (
        does(),
        prop::collection::vec(thread, 0..12),
        prop::collection::vec(channel, 0..8),
        prop::collection::vec(lock, 0..3),
        any::<bool>(),
        prop::option::of(0..100_u32),
        prop::collection::vec(11..14_u32, 0..3),
    )
        .prop_map(|(main, threads, channels, locks, no_syscall, gpu_pct, workers)| {
            let scene = MadeUpJob {
                channels,
                locks,
                no_syscall,
                gpu_pct,
                workers,
                outside: vec![15],
                ..MadeUpJob::default()
            };
            let mut scene = scene.main(TRAINER, &main);
            for (pid, number, cpu, wakes, does) in threads {
                let tid = pid + number * 100;
                if scene.actors.iter().all(|actor| actor.tid != tid) {
                    scene = scene.thread(pid, tid, cpu, wakes, &does);
                }
            }
            scene
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_shares_of_all_ends_add_up(scene in any_scene()) {
        let begun = Instant::now();
        let mut rates = Frames::default();
        for at in 1..4 {
            let frame = rates.next(Arc::new(scene.sample(at)));
            for chain in frame.ranks.iter().filter_map(|rank| rank.chain.as_ref()) {
                adds_up(chain);
                prop_assert!(at == 1 || chain.seconds > 0.0);
            }
            for rank in &frame.ranks {
                let total = rank.split_s.total();
                prop_assert!((total - rank.seconds_seen).abs() < 1e-6, "{} {}", total, rank.seconds_seen);
            }
        }
        prop_assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
