//! Whatever the samples hold, frames hold sane numbers.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use trainmon_sample::{
    Access, BlockDevice, CgroupSample, CpuTimes, DataMount, Gpm, GpuProcess, GpuReading, GpuSample, HostSample,
    IoCounters, JobSample, NetInterface, Observation, OtherProcessProcess, OtherProcessesSample, OwnSample, Pressure,
    ProcessRole, ProcessSample, SampledProcess, SampledThread, SamplerSample, StorageSample, ThreadRole,
    ThreadSample, UtilizationPoint,
};

/// Counters: mostly small and so often equal or backwards, sometimes huge.
fn counter() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..50u64, 4 => 0..5_000_000_000u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..6u32, 1 => any::<u32>()]
}

fn process_id() -> impl Strategy<Value = ProcessId> {
    (1..6u32, 0..2u64).prop_map(|(pid, start_ticks)| ProcessId { pid, start_ticks })
}

fn io() -> impl Strategy<Value = IoCounters> {
    (counter(), counter(), counter(), counter(), counter(), counter()).prop_map(|(a, b, c, d, e, f)| IoCounters {
        read_chars: a,
        write_chars: b,
        read_calls: c,
        write_calls: d,
        read_bytes: e,
        write_bytes: f,
    })
}

fn thread() -> impl Strategy<Value = ThreadSample> {
    (1..6u32, option::of(counter()), option::of(counter())).prop_map(|(tid, on_cpu_ns, run_delay_ns)| ThreadSample {
        tid,
        role: if tid % 2 == 0 { ThreadRole::QueueThread } else { ThreadRole::Other },
        on_cpu_ns,
        run_delay_ns,
        ..ThreadSample::default()
    })
}

fn process() -> impl Strategy<Value = ProcessSample> {
    let role = proptest::sample::select(vec![ProcessRole::Rank, ProcessRole::Worker, ProcessRole::Other]);
    let counters = (counter(), counter(), counter(), counter());
    (process_id(), 0..6u32, role, counters, option::of(io()), vec(thread(), 0..4), option::of(1..6u32)).prop_map(
        |(id, parent, role, (user_ticks, system_ticks, major_faults, rss_bytes), io, threads, inner_pid)| {
            ProcessSample {
                id,
                parent,
                inner_pid,
                role,
                user_ticks,
                system_ticks,
                major_faults,
                rss_bytes,
                io,
                threads,
                thread_count: u32::MAX,
                ..ProcessSample::default()
            }
        },
    )
}

fn observation() -> impl Strategy<Value = Observation> {
    let symbols = ["0", "futex_do_wait", "anon_pipe_read", "folio_wait_bit_common", "x"];
    let symbol = option::of(proptest::sample::select(symbols.to_vec()));
    let state = option::of(proptest::sample::select(vec!['R', 'S', 'D', 't']));
    let call =
        option::of(prop_oneof![4 => proptest::sample::select(vec![-1, 0, 1, 7, 35, 47, 202]), 1 => any::<i32>()]);
    let ms = option::of(prop_oneof![Just(5000), Just(4900), any::<i32>()]);
    (state, symbol, call, small(), ms).prop_map(|(state, symbol, call, nfds, ms)| Observation {
        state,
        wchan: symbol.map(Into::into),
        call,
        nfds: Some(nfds),
        timeout_ms: ms,
        deadline_ms: ms,
        ..Observation::default()
    })
}

/// Mostly every round, and places that are in the table; but for a few files nothing can be relied on.
fn sampled_thread(tid: u32, role: ThreadRole) -> impl Strategy<Value = SampledThread> {
    (vec(prop_oneof![19 => 0..8u32, 1 => any::<u32>()], 0..30), option::of(vec(0..30u32, 0..30))).prop_map(
        move |(seen, rounds)| SampledThread { tid, role, aside: false, rounds: rounds.unwrap_or_default(), seen },
    )
}

fn sampler() -> impl Strategy<Value = SamplerSample> {
    let syscall = proptest::sample::select(vec![Access::Ok, Access::Denied]);
    let began_ns = prop_oneof![9 => 0..6_000_000_000u64, 1 => any::<u64>()];
    let gaps_us = vec(prop_oneof![9 => 0..60_000u32, 1 => any::<u32>()], 0..30);
    let threads = (
        sampled_thread(1, ThreadRole::Main),
        option::of(sampled_thread(2, ThreadRole::Pin)),
        option::of(sampled_thread(3, ThreadRole::Other)),
    );
    let role = proptest::sample::select(vec![ProcessRole::Rank, ProcessRole::Worker]);
    let counts = || vec((0..40u32, counter()), 0..20);
    let process = (process_id(), role, 0..6u32, threads, small(), counts(), counts()).prop_map(
        |(id, role, rank, (main, pin, helper), queue_threads, fed, written)| SampledProcess {
            id,
            role,
            rank: Some(rank),
            threads: [Some(main), pin, helper].into_iter().flatten().collect(),
            queue_threads,
            fed,
            written,
        },
    );
    (syscall, began_ns, gaps_us, vec(observation(), 0..8), vec(process, 0..6)).prop_map(
        |(syscall, began_ns, gaps_us, seen, processes)| SamplerSample {
            syscall,
            began_ns,
            gaps_us,
            seen,
            processes,
            ..SamplerSample::default()
        },
    )
}

fn clock() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0u64), 9 => 0..6_000_000_000u64, 1 => any::<u64>()]
}

fn job() -> impl Strategy<Value = JobSample> {
    let group = (option::of(counter()), option::of(counter()), option::of(any::<f64>())).prop_map(
        |(periods, throttled_periods, cpu_quota_cores)| CgroupSample {
            periods,
            throttled_periods,
            cpu_quota_cores,
            ..CgroupSample::default()
        },
    );
    let seen = (option::of(vec(0..3u32, 0..3)), any::<bool>(), vec(0..4u16, 0..4));
    (clock(), process_id(), any::<bool>(), vec(process(), 0..5), sampler(), group, seen, small()).prop_map(
        |(monotonic_ns, target, alive, processes, sampler, cgroup, (minors, other_ns, allowed_cpus), ticks)| {
            JobSample {
                monotonic_ns,
                target,
                alive,
                processes,
                sampler,
                cgroup,
                allowed_cpus,
                nvidia_minors: minors,
                cuda_visible_devices: Some("0,GPU-1,x".into()),
                other_pid_namespace: other_ns,
                ticks_per_second: ticks,
                ..JobSample::default()
            }
        },
    )
}

fn host() -> impl Strategy<Value = HostSample> {
    let cpu = (0..4u16, vec(counter(), 8)).prop_map(|(cpu, times)| CpuTimes {
        cpu,
        user: times[0],
        nice: times[1],
        system: times[2],
        idle: times[3],
        iowait: times[4],
        irq: times[5],
        softirq: times[6],
        steal: times[7],
    });
    let pressure = counter().prop_map(|some_us| Pressure { some_us });
    let net = (0..3u8, counter(), counter()).prop_map(|(name, rx_bytes, tx_bytes)| NetInterface {
        name: format!("eth{name}").into(),
        rx_bytes,
        tx_bytes,
    });
    let memory = (option::of(counter()), option::of(counter()));
    (clock(), vec(cpu, 0..5), option::of(any::<[f32; 3]>()), option::of(pressure), vec(net, 0..4), memory).prop_map(
        |(monotonic_ns, cpus, load, io_pressure, net, (total, available))| HostSample {
            monotonic_ns,
            cpus,
            load,
            io_pressure,
            memory_total_bytes: total,
            memory_available_bytes: available,
            swapped_in_pages: total,
            net,
            ..HostSample::default()
        },
    )
}

fn storage() -> impl Strategy<Value = StorageSample> {
    let names = proptest::sample::select(vec!["sda", "sda1", "dm-0", "loop0", "nvme0n1"]);
    let gpu = (names.clone(), vec(counter(), 9)).prop_map(|(name, counters)| BlockDevice {
        name: name.into(),
        number: (1, u32::try_from(name.len()).unwrap()),
        whole: name.trim_end_matches('1').into(),
        reads: counters[0],
        read_sectors: counters[1],
        read_ms: counters[2],
        writes: counters[3],
        written_sectors: counters[4],
        write_ms: counters[5],
        busy_ms: counters[7],
        weighted_ms: counters[8],
    });
    let mount = (vec(names, 0..3), option::of(counter()), option::of(counter())).prop_map(|(disks, ops, ms)| {
        let disks = disks.into_iter().map(Into::into).collect();
        DataMount { disks, nfs_read_ops: ops, nfs_read_rtt_ms: ms, nfs_read_bytes: ops, ..DataMount::default() }
    });
    (clock(), vec(gpu, 0..5), option::of(vec(mount, 0..3)))
        .prop_map(|(monotonic_ns, devices, mounts)| StorageSample { monotonic_ns, devices, mounts })
}

fn gpus() -> impl Strategy<Value = GpuSample> {
    let point = (prop_oneof![Just(1000u64), 0..9_000_000u64, any::<u64>()], 0..120u32)
        .prop_map(|(unix_us, pct)| UtilizationPoint { unix_us, pct });
    let process = (1..6u32, option::of(counter()), option::of(0..120u32))
        .prop_map(|(pid, memory_bytes, sm)| GpuProcess { pid, memory_bytes, sm_utilization_pct: sm, compute: true });
    let readings = (option::of(small()), option::of(0..120u32), option::of(counter()), option::of(any::<f64>()));
    let device = (0..3u32, any::<bool>(), readings, vec(point, 0..6), vec(process, 0..4)).prop_map(
        |(index, lost, (any, pct, energy_mj, gpm), utilization_points, processes)| GpuReading {
            index,
            uuid: Some(format!("GPU-{index}").into()),
            minor: Some(index),
            lost,
            utilization_pct: pct,
            memory_utilization_pct: any,
            utilization_points,
            power_mw: any,
            energy_mj,
            pcie_generation_max: any,
            pcie_width_max: any,
            pcie_rx_kib_per_s: any,
            processes,
            gpm: Some(Gpm { sm_active_pct: gpm, tensor_active_pct: gpm, dram_active_pct: gpm }),
            ..GpuReading::default()
        },
    );
    (clock(), vec(device, 0..4)).prop_map(|(monotonic_ns, devices)| GpuSample {
        monotonic_ns,
        devices,
        ..GpuSample::default()
    })
}

fn other_processes() -> impl Strategy<Value = OtherProcessesSample> {
    let process = (process_id(), counter(), counter()).prop_map(|(id, cpu_ticks, rss_bytes)| OtherProcessProcess {
        id,
        cpu_ticks,
        rss_bytes,
        ..OtherProcessProcess::default()
    });
    (clock(), small(), vec(process, 0..4)).prop_map(|(window_ns, ticks_per_second, processes)| OtherProcessesSample {
        window_ns,
        ticks_per_second,
        processes,
        ..OtherProcessesSample::default()
    })
}

/// Samples in a regular series but for a few breaks, each part with any clock of its own.
fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let parts = (option::of(job()), option::of(host()), option::of(storage()), option::of(gpus()));
    let breaks =
        (prop_oneof![19 => Just(1u64), 1 => 0..9u64], prop_oneof![9 => Just(1_000_000_000u64), 1 => counter()]);
    let one = (parts, breaks, counter(), any::<bool>(), option::of(other_processes()));
    vec(one, 1..6).prop_map(|ticks| {
        let (mut sequence, mut monotonic_ns) = (0u64, 0u64);
        let mut out: Vec<Sample> = Vec::new();
        for ((job, host, storage, gpus), (step, ns), own, keep, other_processes) in ticks {
            sequence = sequence.wrapping_add(step);
            monotonic_ns = monotonic_ns.wrapping_add(ns);
            // A regular reading time for most parts, or nothing would ever have a rate.
            let job =
                job.map(|job| JobSample { monotonic_ns: if keep { monotonic_ns } else { job.monotonic_ns }, ..job });
            let gpus = gpus.map(|gpus| GpuSample { monotonic_ns, ..gpus });
            let host = host
                .map(|host| HostSample { monotonic_ns: if keep { monotonic_ns } else { host.monotonic_ns }, ..host });
            out.push(Sample {
                sequence,
                unix_ms: i64::try_from(monotonic_ns / 1_000_000).unwrap_or(0),
                monotonic_ns,
                boottime_ns: monotonic_ns,
                job: job.map(Arc::new),
                host: host.map(Arc::new),
                storage: storage.map(Arc::new),
                gpus: gpus.map(Arc::new),
                other_processes: other_processes.map(Arc::new),
                own: OwnSample { cpu_ns: Some(own), rss_bytes: None, ..OwnSample::default() },
                ..Sample::default()
            });
        }
        out
    })
}

fn negative(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.as_f64().is_some_and(|number| number < 0.0),
        serde_json::Value::Array(values) => values.iter().any(negative),
        serde_json::Value::Object(values) => values.values().any(negative),
        _ => false,
    }
}

fn check(frame: &Frame) {
    assert!(!negative(&serde_json::to_value(frame).unwrap()), "{frame:?}");
    // JSON cannot tell a number that is none from one that was not measured; the debug form can.
    let debug = format!("{frame:?}");
    assert!(!debug.split(|c: char| !c.is_alphanumeric()).any(|word| word == "NaN" || word == "inf"), "{debug}");
    for rank in &frame.ranks {
        assert!((rank.split_s.total() - rank.seconds_seen).abs() < 1e-6);
        assert!(rank.running_s <= rank.split_s.host_busy + 1e-9);
        let by_wait: f32 = rank.by_wait_s.iter().sum();
        assert!((f64::from(by_wait) - rank.seconds_seen).abs() < 1e-3);
        assert!(rank.wait_lengths_s.len() <= 64 && rank.step_lengths_s.len() <= 256);
        if let Some(idle) = rank.gpu_idle_s {
            let within = idle.iter().all(|(activity, idle)| idle <= rank.split_s[activity] + 1e-6);
            assert!(within, "{rank:?}");
        }
    }
    for worker in &frame.workers {
        if let (Some(busy), Some(runnable), Some(idle), Some(io_wait)) =
            (worker.busy, worker.runnable, worker.idle, worker.io_wait)
        {
            assert!((busy + runnable + idle + io_wait - 1.0).abs() < 1e-6, "{worker:?}");
            let within = |part: Option<f64>, whole: f64| part.unwrap() <= whole + 1e-9;
            assert!(
                [worker.disk_wait, worker.socket_wait, worker.sleep].into_iter().all(|part| within(part, io_wait))
            );
            assert!(worker.lock_wait.is_none_or(|at_lock| at_lock <= idle + 1e-9), "{worker:?}");
        }
    }
    assert!(frame.threads.len() <= trainmon_rates::threads::THREADS_IN_FRAME && frame.host.net.len() <= 32);
    for thread in &frame.threads {
        assert!(
            thread.cpu_pct <= 100.0 && thread.run_delay_pct <= 100.0 && thread.cpu_pct + thread.run_delay_pct > 0.4
        );
    }
    let roles: Vec<_> = frame.thread_roles.iter().map(|role| (role.process_role, role.thread_role)).collect();
    assert!(roles.is_sorted_by(|a, b| a < b), "{roles:?}");
    assert!(frame.thread_roles.iter().all(|role| role.count > 0));
    let shares = [frame.job.run_delay_share, frame.job.throttled_share];
    assert!(shares.into_iter().flatten().all(|share| share <= 1.0));
    let host = &frame.host;
    let percents = [host.allowed_cpu_pct, host.steal_pct, host.psi_io_some_pct, frame.storage.utilization_pct];
    assert!(percents.into_iter().flatten().all(|pct| pct <= 100.0));
    for gpu in &frame.gpus {
        let percents = [gpu.utilization_pct, gpu.job_utilization_pct, gpu.sm_active_pct, gpu.memory_utilization_pct];
        assert!(percents.into_iter().flatten().all(|pct| pct <= 100.0));
    }
    if frame.gap {
        assert_eq!((frame.job.cpu_pct, frame.own_cpu_pct, frame.storage.read_bytes_per_s), (None, None, None));
        assert!(frame.ranks.iter().all(|rank| rank.seconds_seen == 0.0 && rank.steps.is_none()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn frames_hold_sane_numbers(samples in samples()) {
        let samples: Vec<_> = samples.into_iter().map(Arc::new).collect();
        let fold = || {
            let mut rates = Frames::new(RatesOptions::default());
            samples.iter().map(|sample| rates.next(Arc::clone(sample))).collect::<Vec<_>>()
        };
        let frames = fold();
        frames.iter().for_each(check);
        prop_assert_eq!(format!("{:?}", fold()), format!("{frames:?}"), "the same samples give the same frames");
    }
}
