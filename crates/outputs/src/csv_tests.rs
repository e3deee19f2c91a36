//! The CSV against its contract: exact header, empty for what was not measured, rows that parse back.

use proptest::prelude::*;

use super::*;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_waits::frame::{RankRates, WorkerRates};
use trainmon_waits::time_split::TimeSplit;

/// The header as the contract lists it, for one gpu.
const CONTRACT: &str = "timestamp,elapsed_s,pid,phase,class,cause,confidence,input_wait_pct,device_sync_pct,\
host_busy_pct,checkpoint_pct,other_pct,steps_per_s,step_p50_ms,step_p95_ms,gpu_util_pct,gpu_mem_used_mib,gpu_power_w,\
cpu_util_pct,cpus_allowed,job_cpu_pct,run_delay_pct,cgroup_throttled_pct,psi_cpu_some_pct,psi_io_some_pct,\
psi_memory_some_pct,mem_used_mib,mem_available_mib,job_rss_mib,workers,workers_busy_pct,workers_io_wait_pct,\
workers_runnable_pct,workers_idle_pct,disk_read_mib_s,disk_write_mib_s,disk_util_pct,disk_await_ms,job_read_mib_s,\
job_write_mib_s,major_faults_per_s,net_rx_mib_s,self_cpu_pct,self_rss_mib,gpu0_index,gpu0_uuid,gpu0_util_pct,\
gpu0_mem_util_pct,gpu0_mem_used_mib,gpu0_mem_total_mib,gpu0_power_w,gpu0_power_limit_w,gpu0_temp_c,gpu0_sm_clock_mhz,\
gpu0_pcie_rx_mib_s,gpu0_pcie_tx_mib_s,gpu0_throttle,gpu0_job_util_pct,gpu0_job_mem_mib,gpu0_sm_active_pct,\
gpu0_tensor_active_pct,gpu0_dram_active_pct,waits_for";

/// How many columns it has.
fn columns() -> usize {
    CONTRACT.split(',').count()
}

fn frame() -> Frame {
    Frame {
        unix_ms: 1_700_000_000_123,
        monotonic_ns: 5_000_000_000,
        seconds: 1.0,
        ranks: vec![RankRates {
            split_s: TimeSplit { input_wait: 1.0, device_sync: 1.0, host_busy: 1.0, ..TimeSplit::default() },
            steps: Some(3),
            step_lengths_s: vec![0.3, 0.1, 0.2],
            ..RankRates::default()
        }],
        gpus: vec![gpu(2, true), gpu(5, true)],
        workers: vec![
            WorkerRates { busy: Some(0.5), ..WorkerRates::default() },
            WorkerRates { busy: Some(1.0), ..WorkerRates::default() },
        ],
        ..Frame::default()
    }
}

fn gpu(index: u32, attached: bool) -> GpuRates {
    GpuRates {
        index,
        attached,
        uuid: Some(format!("GPU-{index}").into()),
        utilization_pct: Some(f64::from(index) * 10.0),
        memory_used_bytes: Some(1 << 30),
        power_w: Some(100.0),
        clock_event_reasons: Some(0x24),
        ..GpuRates::default()
    }
}

/// Header and rows as maps.
fn rows(bytes: &[u8]) -> Vec<std::collections::HashMap<String, String>> {
    ::csv::Reader::from_reader(bytes).deserialize().map(Result::unwrap).collect()
}

fn tick(frame: &Frame, verdict: &Verdict) -> Tick {
    let judged = Arc::new(verdict.clone());
    Tick { shares: frame.loop_shares(), frame: Arc::new(frame.clone()), judged, ..Tick::default() }
}

fn written(frames: &[Frame], verdict: &Verdict) -> Vec<u8> {
    let mut log = CsvLog { zone: TimeZone::fixed(jiff::tz::offset(2)), ..CsvLog::new(Vec::new()) };
    for frame in frames {
        log.write(&tick(frame, verdict)).unwrap();
    }
    log.out
}

#[test]
fn the_header_is_the_contract() {
    assert_eq!(header(1).collect::<Vec<_>>().join(","), CONTRACT);
    for groups in [0, 1, 2, 8, 64] {
        assert_eq!(groups_of_header(&header(groups).collect::<Vec<_>>().join(",")), Ok(groups));
    }
    assert_eq!(groups_of_header("timestamp,elapsed"), Err(2));
    assert_eq!(groups_of_header(&format!("{CONTRACT},extra")), Err(columns() + 1));
    // A log of before there was a wait chain.
    let older = CONTRACT.split(",waits_for").next().unwrap();
    assert_eq!(groups_of_header(older), Err(older.split(',').count() + 1));
    assert!(groups_of_header("").is_err());
    assert!(groups_of_header(&",".repeat(1_000_000)).is_err());
}

#[test]
fn a_row_holds_what_was_measured() {
    let verdict = Verdict { pid: 7, class: Class::DataLoader, confidence: 0.9, ..Verdict::default() };
    let mut second = frame();
    second.monotonic_ns += 1_000_000_000;
    let rows = rows(&written(&[frame(), second], &verdict));
    let row = &rows[0];
    assert_eq!(row["timestamp"], "2023-11-15T00:13:20.123+02:00");
    assert_eq!((row["elapsed_s"].as_str(), rows[1]["elapsed_s"].as_str()), ("1.000", "2.000"));
    assert_eq!(
        (row["class"].as_str(), row["cause"].as_str(), row["confidence"].as_str()),
        ("data-loader", "", "0.900")
    );
    assert_eq!(
        ["input_wait_pct", "device_sync_pct", "host_busy_pct", "checkpoint_pct", "other_pct"]
            .map(|c| row[c].as_str()),
        ["33.34", "33.33", "33.33", "0.00", "0.00"]
    );
    assert_eq!(["steps_per_s", "step_p50_ms", "step_p95_ms"].map(|c| row[c].as_str()), ["3.000", "200.00", "300.00"]);
    assert_eq!(
        ["gpu_util_pct", "gpu_mem_used_mib", "gpu_power_w"].map(|c| row[c].as_str()),
        ["35.00", "2048.000", "200.00"]
    );
    assert_eq!((row["workers"].as_str(), row["workers_busy_pct"].as_str()), ("2", "75.00"));
    assert_eq!((row["gpu0_index"].as_str(), row["gpu1_index"].as_str()), ("2", "5"));
    assert_eq!(row["gpu0_throttle"], "power-cap|sw-thermal");
}

#[test]
fn nothing_measured_is_empty() {
    let unmeasured = Verdict { confidence: f64::NAN, ..Verdict::default() };
    let rows = rows(&written(&[Frame::default()], &unmeasured));
    for (column, value) in &rows[0] {
        let filled = ["timestamp", "elapsed_s", "pid", "phase", "class", "workers"].contains(&column.as_str());
        assert_eq!(!value.is_empty(), filled, "{column} = {value}");
    }
}

#[test]
fn device_columns_stay_as_the_first_row_set_them() {
    let mut before = frame();
    before.gpus = vec![gpu(0, false), gpu(1, false)];
    let mut after = frame();
    after.gpus = vec![gpu(0, false), gpu(1, true), gpu(2, true)];
    let rows = rows(&written(&[before, after], &Verdict::default()));
    assert!(!rows[0].contains_key("gpu2_index"));
    assert_eq!((rows[0]["gpu1_index"].as_str(), rows[0]["gpu1_util_pct"].as_str()), ("1", ""));
    assert_eq!((rows[1]["gpu0_util_pct"].as_str(), rows[1]["gpu1_util_pct"].as_str()), ("", "10.00"));
}

#[test]
fn an_appended_log_keeps_the_width_of_its_header() {
    let mut log = CsvLog::appending(Vec::new(), 1);
    let mut none = frame();
    none.gpus.clear();
    log.write(&tick(&none, &Verdict::default())).unwrap();
    log.write(&tick(&frame(), &Verdict::default())).unwrap();
    let bytes = log.out;
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap().split(',').count(), columns());
    assert_eq!(lines.next().unwrap().split(',').nth(44), Some("2"));
}

#[test]
fn the_last_column_is_the_end_of_the_longest_wait() {
    let verdict = crate::testing_views::verdict();
    let rows = rows(&written(&[frame()], &verdict));
    assert_eq!(rows[0]["waits_for"], "cpu:1301");
    let chain = verdict.chain[..1].iter().chain(&verdict.chain[3..4]).cloned().collect();
    let bytes = written(&[frame()], &Verdict { chain, ..Verdict::default() });
    assert!(String::from_utf8(bytes).unwrap().ends_with(",\r\n"));
}

#[test]
fn a_sum_with_an_unknown_part_is_empty() {
    let mut frame = frame();
    frame.gpus[1].power_w = None;
    let rows = rows(&written(&[frame], &Verdict::default()));
    assert_eq!((rows[0]["gpu_power_w"].as_str(), rows[0]["gpu_mem_used_mib"].as_str()), ("", "2048.000"));
}

/// Counts the writes that it is given.
#[derive(Default)]
struct Counting(Vec<Vec<u8>>);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push(bytes.to_vec());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_row_is_one_write() {
    let mut log = CsvLog::new(Counting::default());
    for _ in 0..3 {
        log.write(&tick(&frame(), &Verdict::default())).unwrap();
    }
    let writes = log.out.0;
    assert_eq!(writes.len(), 4);
    assert!(writes.iter().all(|write| write.ends_with(b"\r\n")));
}

proptest! {
    #[test]
    fn rows_parse_back(
        uuid in "\\PC*|[\",\r\n\u{1b}]{0,20}",
        numbers in proptest::collection::vec(proptest::num::f64::ANY, 12),
        unix_ms in proptest::num::i64::ANY,
    ) {
        let mut frame = frame();
        frame.unix_ms = unix_ms;
        frame.seconds = numbers[0];
        let rank = &mut frame.ranks[0];
        rank.split_s.input_wait = numbers[1];
        rank.split_s.device_sync = numbers[2];
        rank.split_s.host_busy = numbers[3];
        rank.step_lengths_s = vec![numbers[4] as f32];
        frame.job.cpu_pct = Some(numbers[5]);
        frame.gpus[0].uuid = Some(uuid.into());
        frame.gpus[0].utilization_pct = Some(numbers[6]);
        frame.workers[0].busy = Some(numbers[7]);
        let verdict = Verdict { confidence: numbers[8], ..Verdict::default() };
        let bytes = written(&[frame.clone(), frame], &verdict);
        let mut reader = ::csv::Reader::from_reader(bytes.as_slice());
        let columns = reader.headers().unwrap().len();
        let mut count = 0;
        for row in reader.records() {
            let row = row.unwrap();
            prop_assert_eq!(row.len(), columns);
            prop_assert!(row.iter().all(|field| !field.contains("inf") || field.len() > 8));
            count += 1;
        }
        prop_assert_eq!(count, 2);
    }

    #[test]
    fn the_five_shares_add_up(seconds in proptest::array::uniform5(0.0f64..100.0)) {
        if let Some(shares) = hundredths(&seconds.into()) {
            prop_assert_eq!(shares.iter().sum::<u32>(), 10_000);
        }
    }
}
