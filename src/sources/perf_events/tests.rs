//! On our own busy threads, where the kernel lets us.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::sample::{ProcessSample, SampledProcess, SampledThread, SamplerSample, ThreadSample};
use crate::sources::clock::monotonic_ns;
use crate::sources::task_files;

/// Threads that compute until this is dropped.
struct Busy {
    tids: Vec<u32>,
    stop: Arc<AtomicBool>,
}

impl Busy {
    fn start(count: usize) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let tids = (0..count).map(|_| {
            let (tell, told) = std::sync::mpsc::channel();
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                tell.send(gettid().as_raw_nonzero().get() as u32).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            told.recv().unwrap()
        });
        Self { tids: tids.collect(), stop }
    }

    /// The job as the sampler and the reader of processes would give it.
    fn job(&self) -> JobSample {
        let pid = std::process::id();
        let id = ProcessId { pid, start_ticks: 1 };
        let thread = |tid: &u32| {
            let line = std::fs::read(format!("/proc/self/task/{tid}/schedstat")).unwrap();
            let (on_cpu_ns, ..) = task_files::schedstat(&line).unwrap();
            // Other tests may push it aside as often as they like.
            ThreadSample { tid: *tid, on_cpu_ns: Some(on_cpu_ns), timeslices: Some(0), ..ThreadSample::default() }
        };
        let process =
            ProcessSample { id, threads: self.tids.iter().map(thread).collect(), ..ProcessSample::default() };
        let planned = self.tids.iter().map(|tid| SampledThread { tid: *tid, ..SampledThread::default() });
        let sampled = SampledProcess { id, threads: planned.collect(), ..SampledProcess::default() };
        JobSample {
            monotonic_ns: monotonic_ns(),
            processes: vec![process],
            sampler: SamplerSample { processes: vec![sampled], ..SamplerSample::default() },
            ..JobSample::default()
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A reader that samples these threads; none, with the reason printed, where the kernel refuses.
fn reader_of(busy: &Busy) -> Option<AddressReader> {
    let mut reader = match AddressReader::open(&Roots::default(), monotonic_ns()) {
        Ok(reader) => reader,
        Err(refused) => {
            eprintln!("skipped: {:?}", refused.reason);
            assert!(refused.state != SourceState::Denied || refused.mend.is_some());
            return None;
        }
    };
    // Until each has been on a CPU between two looks.
    for _ in 0..100 {
        reader.read(monotonic_ns(), Some(&busy.job())).unwrap();
        if reader.threads.len() == busy.tids.len() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    reader.read(monotonic_ns(), Some(&busy.job())).unwrap();
    Some(reader)
}

#[test]
fn a_busy_thread_is_seen_in_our_own_program() {
    let busy = Busy::start(1);
    let Some(mut reader) = reader_of(&busy) else { return };
    // Other tests want the CPUs as well: until enough has been seen.
    let until_ns = monotonic_ns() + 20_000_000_000;
    let (mut samples, mut ours, mut window_ns) = (0, 0, 0);
    while samples < 20 && monotonic_ns() < until_ns {
        thread::sleep(Duration::from_millis(250));
        let seen = reader.read(monotonic_ns(), Some(&busy.job())).unwrap();
        assert_eq!((seen.threads.len(), seen.rate_hz, seen.lost), (1, RATE_HZ, 0));
        window_ns += seen.window_ns;
        let thread = &seen.threads[0];
        assert_eq!((thread.process.pid, thread.tid), (std::process::id(), busy.tids[0]));
        let program = std::env::current_exe().unwrap();
        for (file, count) in &thread.files {
            samples += count;
            ours += if Path::new(&*seen.files[*file as usize]) == program { *count } else { 0 };
        }
        samples += thread.rest;
    }
    assert!(samples >= 20 && ours * 10 >= samples * 9, "{ours} of {samples}");
    assert!(u64::from(samples) <= window_ns / 1_000_000_000 * u64::from(RATE_HZ) + 2 * u64::from(RATE_HZ));
    // A thread that is not planned any more is let go.
    let nobody = JobSample { monotonic_ns: monotonic_ns(), ..JobSample::default() };
    reader.read(monotonic_ns(), Some(&nobody)).unwrap();
    assert!(reader.threads.is_empty() && reader.maps.is_empty());
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `cargo test --release --lib perf_events -- --ignored --nocapture --test-threads 1` prints what reading costs us …
#[test]
#[ignore = "a measurement"]
fn what_reading_eight_threads_costs() {
    let busy = Busy::start(8);
    let Some(mut reader) = reader_of(&busy) else { return };
    let (mut used_ns, mut samples) = (0, 0);
    let seconds = 10;
    for _ in 0..seconds {
        thread::sleep(Duration::from_secs(1));
        // What has changed in the job is read by another thread.
        let job = busy.job();
        let begun_ns = thread_cpu_ns();
        let seen = reader.read(monotonic_ns(), Some(&job)).unwrap();
        used_ns += thread_cpu_ns() - begun_ns;
        samples += seen.threads.iter().flat_map(|thread| &thread.files).map(|(_, count)| count).sum::<u32>();
    }
    let percent = used_ns as f64 / 1e9 / f64::from(seconds) * 100.0;
    eprintln!("{} threads, {samples} samples: {percent:.4} % of a core", reader.threads.len());
}

/// … and what being sampled costs a thread: in CPU time, because the machine is never quiet.
#[test]
#[ignore = "a measurement"]
fn what_being_sampled_costs() {
    let computes = || assert!((0..200_000_u64).map(std::hint::black_box).sum::<u64>() > 0);
    // Two switches of context in each round.
    let (to, from) = (std::sync::mpsc::sync_channel(0), std::sync::mpsc::sync_channel(0));
    thread::spawn(move || to.1.iter().try_for_each(|word: u32| from.0.send(word)));
    let switches = || {
        (0..500).for_each(|word| {
            to.0.send(word).unwrap();
            from.1.recv().unwrap();
        });
    };
    let works: [(&str, &dyn Fn()); 2] = [("computes", &computes), ("switches", &switches)];
    for (name, work) in works {
        let mut used_ns = [Vec::new(), Vec::new()];
        for round in 0..100 {
            let event = (round % 2 == 1).then(|| Event::open(0, RATE_HZ));
            if let Some(Err(error)) = &event {
                return eprintln!("skipped: {error}");
            }
            let begun_ns = thread_cpu_ns();
            (0..10).for_each(|_| work());
            used_ns[round % 2].push(thread_cpu_ns() - begun_ns);
        }
        let [without, with] = used_ns.map(|mut used_ns| {
            used_ns.sort_unstable();
            used_ns[used_ns.len() / 4] as f64 / 1e6
        });
        eprintln!("{name}: {without:.3} ms without, {with:.3} ms with: {:+.2} %", (with / without - 1.0) * 100.0);
    }
}

#[test]
fn the_busiest_are_chosen_and_stay() {
    let key = |tid: u32| (ProcessId { pid: 1, start_ticks: 1 }, tid);
    let chosen = |uses: &[(u32, f64)], sampled: &[u32]| {
        let uses: Vec<Use> =
            uses.iter().map(|&(tid, share)| Use { key: key(tid), share, switches_s: 10.0 }).collect();
        let mut tids: Vec<u32> =
            choose(&uses, |key| sampled.contains(&key.1)).into_iter().map(|(_, tid)| tid).collect();
        tids.sort_unstable();
        tids
    };
    assert_eq!(chosen(&[(1, 0.9), (2, 0.01), (3, 0.0)], &[]), [1]);
    assert_eq!(chosen(&[(1, 0.9), (2, 0.01), (3, 0.0)], &[2, 3]), [1, 2, 3]);
    let crowd: Vec<(u32, f64)> = (0..100).map(|tid| (tid, 0.5 + f64::from(tid) / 1000.0)).collect();
    assert_eq!(chosen(&crowd, &[]), (68..100).collect::<Vec<_>>());
    let stay: Vec<u32> = (0..32).collect();
    assert_eq!(chosen(&crowd, &stay), stay);
    let busier: Vec<(u32, f64)> =
        crowd.iter().map(|(tid, share)| (*tid, if *tid < 32 { 0.1 } else { *share })).collect();
    assert_eq!(chosen(&busier, &stay), (68..100).collect::<Vec<_>>());
    let restless = |switches_s| [Use { key: key(1), share: 0.9, switches_s }];
    let counts = [(250.0, false), (251.0, false), (251.0, true), (400.0, true)];
    let chosen = counts.map(|(switches_s, sampled)| choose(&restless(switches_s), |_| sampled).len());
    assert_eq!(chosen, [1, 0, 1, 0], "each switch costs the thread");
}

#[test]
fn refusals_say_what_mends_them() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("sys/kernel");
    std::fs::create_dir_all(&kernel).unwrap();
    let of = |paranoid: &str, errno: Errno, pid| {
        std::fs::write(kernel.join("perf_event_paranoid"), paranoid).unwrap();
        refused(folder.path(), &errno.into(), pid)
    };
    let ubuntu = of("4\n", Errno::ACCESS, None);
    assert_eq!(ubuntu.state, SourceState::Denied);
    assert!(ubuntu.reason.unwrap().contains("paranoid 4") && ubuntu.mend.unwrap().contains("sysctl"));
    assert!(of("2\n", Errno::PERM, None).mend.unwrap().contains("PERFMON"));
    assert!(of("-1\n", Errno::ACCESS, Some(7)).reason.unwrap().contains("process 7"));
    assert_eq!(of("2\n", Errno::NOSYS, None).state, SourceState::Absent);
    assert_eq!(of("2\n", Errno::MFILE, None).state, SourceState::Gone);
    let elsewhere = Roots { proc: folder.path().into(), ..Roots::default() };
    assert_eq!(AddressReader::open(&elsewhere, 0).unwrap_err().state, SourceState::Absent);
}
