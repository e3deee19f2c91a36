//! The columns of the log, each described once: the writer, `docs/log.md` and whatever else exports these readings take
//! name, unit, meaning and value from here.
//!
//! Columns keep their places: a new one goes to the end of [`LAST_COLUMNS`].

use trainmon_base::stats::mean;
use trainmon_base::text::format::MIB;
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::chain::{ChainNode, waits_for};
use trainmon_rates::frame::GpuRates;
use trainmon_sample::gpu::{CLOCK_EVENT_REASONS, clock_event_words};
use trainmon_waits::Frame;
use trainmon_waits::frame::WorkerRates;
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// One column.
#[derive(Debug)]
pub struct Column {
    /// Its name in the header; for a GPU column, what follows `gpuN_`.
    pub name: &'static str,
    /// Unit of a number; `text` for words.
    pub unit: &'static str,
    /// What it is, in a line.
    pub meaning: &'static str,
    decimals: usize,
    value: fn(&CsvRow<'_>) -> Value,
}

/// What a column holds in one row.
enum Value {
    /// Words, possibly none.
    Text(String),
    /// A number; `None` where it was not measured.
    Number(Option<f64>),
}

/// Lists of columns. A row is a name, a unit, the decimals that are written, and the value; its comment is its meaning.
macro_rules! columns {
    ($($(#[$list:meta])* $LIST:ident { $(
        $(#[doc = $meaning:literal])+ $name:ident: $unit:literal $($decimals:literal)?, $value:expr;
    )+ })+) => {$(
        $(#[$list])*
        pub const $LIST: &[Column] = &[$(Column {
            name: stringify!($name),
            unit: $unit,
            meaning: concat!($($meaning),+).trim_ascii(),
            decimals: 0 $(+ $decimals)?,
            value: $value,
        }),+];
    )+};
}

columns! {
    /// The fixed columns, in their order.
    COLUMNS {
        /// RFC 3339, milliseconds, with offset
        timestamp: "text", |row| text(&row.timestamp);
        /// time since the first sample
        elapsed_s: "s" 3, |row| number(row.elapsed_s);
        /// the attached PID
        pid: "number", |row| number(f64::from(row.verdict.pid));
        /// init, training, checkpoint, compile, validation, idle, stopped, hung, finished or unknown
        phase: "text", |row| text(row.verdict.phase.word());
        /// the class of the verdict of that moment
        class: "text", |row| text(row.verdict.class.word());
        /// the cause of that verdict; empty if it names none
        cause: "text", |row| text(row.verdict.cause.map_or("", Cause::name));
        /// confidence in that verdict, 0 to 1
        confidence: "share" 3, |row| number(row.verdict.confidence.clamp(0.0, 1.0));
        /// share of the training loop's time that waits for data
        input_wait_pct: "%" 2, |row| row.loop_share(LoopActivity::InputWait);
        /// share of it that waits for the GPU
        device_sync_pct: "%" 2, |row| row.loop_share(LoopActivity::DeviceSync);
        /// share of it that is the loop's own work
        host_busy_pct: "%" 2, |row| row.loop_share(LoopActivity::HostBusy);
        /// share of it that saves state
        checkpoint_pct: "%" 2, |row| row.loop_share(LoopActivity::Checkpoint);
        /// the rest of the loop's time
        other_pct: "%" 2, |row| row.loop_share(LoopActivity::Other);
        /// steps of the training loop; where a variable of the loop counts them, over the last 12 s
        steps_per_s: "1/s" 3, |row| number(row.steps_per_s());
        /// median length of the steps that ended in the interval
        step_p50_ms: "ms" 2, |row| number(row.step_ms(0.5));
        /// 95th percentile of the lengths of these steps
        step_p95_ms: "ms" 2, |row| number(row.step_ms(0.95));
        /// mean use of the job's GPUs
        gpu_util_pct: "%" 2, |row| number(mean(row.gpus().map(|gpu| gpu.utilization_pct)));
        /// memory in use on the job's GPUs; empty if that of one is unknown
        gpu_mem_used_mib: "MiB" 3, |row| mib(sum(row.gpus().map(|gpu| bytes(gpu.memory_used_bytes))));
        /// power of the job's GPUs; empty if that of one is unknown
        gpu_power_w: "W" 2, |row| number(sum(row.gpus().map(|gpu| gpu.power_w)));
        /// use of the CPUs that the job may run on
        cpu_util_pct: "%" 2, |row| number(row.frame.host.allowed_cpu_pct);
        /// number of CPUs that the job may run on
        cpus_allowed: "number", |row| number(row.frame.job.cpus_allowed.map(f64::from));
        /// CPU use of the job; 100 is one CPU
        job_cpu_pct: "%" 2, |row| number(row.frame.job.cpu_pct);
        /// share of the job's runnable time spent queueing for a CPU
        run_delay_pct: "%" 2, |row| share(row.frame.job.run_delay_share);
        /// share of the quota's periods in which the job was throttled
        cgroup_throttled_pct: "%" 2, |row| share(row.frame.job.throttled_share);
        /// pressure: share of the interval in which some task waited for a CPU
        psi_cpu_some_pct: "%" 2, |row| number(row.frame.host.psi_cpu_some_pct);
        /// pressure: share of the interval in which some task waited for I/O
        psi_io_some_pct: "%" 2, |row| number(row.frame.host.psi_io_some_pct);
        /// pressure: share of the interval in which some task waited for memory
        psi_memory_some_pct: "%" 2, |row| number(row.frame.host.psi_memory_some_pct);
        /// memory of the machine that is in use
        mem_used_mib: "MiB" 3, |row| mib(bytes(row.frame.host.memory_used_bytes));
        /// memory of the machine that is available
        mem_available_mib: "MiB" 3, |row| mib(bytes(row.frame.host.memory_available_bytes));
        /// memory of the job (sum of resident sets)
        job_rss_mib: "MiB" 3, |row| mib(bytes(row.frame.job.rss_bytes));
        /// number of data-loader workers
        workers: "number", |row| number(row.frame.workers.len() as f64);
        /// mean of the workers: on a CPU
        workers_busy_pct: "%" 2, |row| row.workers(|worker| worker.busy);
        /// mean of the workers: waiting for data
        workers_io_wait_pct: "%" 2, |row| row.workers(|worker| worker.io_wait);
        /// mean of the workers: queueing for a CPU
        workers_runnable_pct: "%" 2, |row| row.workers(|worker| worker.runnable);
        /// mean of the workers: nothing to do
        workers_idle_pct: "%" 2, |row| row.workers(|worker| worker.idle);
        /// read from the disks that hold the job's data files; this and the next three are empty if those disks are unknown
        disk_read_mib_s: "MiB/s" 3, |row| mib(row.of_disks(row.frame.storage.read_bytes_per_s));
        /// written to the disks that hold the job's data files
        disk_write_mib_s: "MiB/s" 3, |row| mib(row.of_disks(row.frame.storage.write_bytes_per_s));
        /// share of the interval in which these disks were busy
        disk_util_pct: "%" 2, |row| number(row.of_disks(row.frame.storage.utilization_pct));
        /// time that a request to these disks takes
        disk_await_ms: "ms" 3, |row| number(row.of_disks(row.frame.storage.await_ms));
        /// what the job itself reads from storage
        job_read_mib_s: "MiB/s" 3, |row| mib(row.frame.job.read_bytes_per_s);
        /// what the job itself writes to storage
        job_write_mib_s: "MiB/s" 3, |row| mib(row.frame.job.write_bytes_per_s);
        /// page faults of the job that wait for storage
        major_faults_per_s: "1/s" 2, |row| number(row.frame.job.major_faults_per_s);
        /// received by the machine, all interfaces but loopback
        net_rx_mib_s: "MiB/s" 3, |row| mib(row.frame.host.net_rx_bytes_per_s);
        /// CPU time of trainmon itself and of what it starts; 100 is one CPU
        self_cpu_pct: "%" 2, |row| number(row.frame.own_cpu_pct);
        /// resident memory of trainmon itself, plus about 5 KiB of kernel memory for each file of `/proc` that it keeps open
        self_rss_mib: "MiB" 3, |row| mib(bytes(row.frame.own_rss_bytes));
    }

    /// The columns of one GPU, each after `gpuN_`.
    GPU_COLUMNS {
        /// index of the GPU; N in the names counts the groups of columns, from 0
        index: "number", |row| number(f64::from(row.gpu.index));
        /// UUID of the GPU
        uuid: "text", |row| text(row.gpu.uuid.as_deref().unwrap_or_default());
        /// share of time with a kernel running
        util_pct: "%" 2, |row| number(row.gpu.utilization_pct);
        /// share of time with memory read or written
        mem_util_pct: "%" 2, |row| number(row.gpu.memory_utilization_pct);
        /// memory in use, by any process
        mem_used_mib: "MiB" 3, |row| mib(bytes(row.gpu.memory_used_bytes));
        /// memory of the GPU
        mem_total_mib: "MiB" 3, |row| mib(bytes(row.gpu.memory_total_bytes));
        /// power drawn
        power_w: "W" 2, |row| number(row.gpu.power_w);
        /// power limit
        power_limit_w: "W" 2, |row| number(row.gpu.power_limit_w);
        /// temperature of the GPU
        temp_c: "°C", |row| number(row.gpu.temperature_c.map(f64::from));
        /// clock of the multiprocessors
        sm_clock_mhz: "MHz", |row| number(row.gpu.sm_clock_mhz.map(f64::from));
        /// PCIe traffic to the GPU
        pcie_rx_mib_s: "MiB/s" 3, |row| mib(row.gpu.pcie_rx_bytes_per_s);
        /// PCIe traffic from the GPU
        pcie_tx_mib_s: "MiB/s" 3, |row| mib(row.gpu.pcie_tx_bytes_per_s);
        /// why clocks are lowered, reasons joined by a vertical bar; `none` if there is no reason
        throttle: "text", |row| text(&row.gpu.clock_event_reasons.map(reasons).unwrap_or_default());
        /// the job's own share of the time with a kernel running
        job_util_pct: "%" 2, |row| number(row.gpu.job_utilization_pct);
        /// the job's own memory
        job_mem_mib: "MiB" 3, |row| mib(bytes(row.gpu.job_memory_bytes));
        /// multiprocessors with work; this and the next two are empty on GPUs without GPM
        sm_active_pct: "%" 2, |row| number(row.gpu.sm_active_pct);
        /// tensor cores at work
        tensor_active_pct: "%" 2, |row| number(row.gpu.tensor_active_pct);
        /// memory interface at work
        dram_active_pct: "%" 2, |row| number(row.gpu.dram_active_pct);
    }

    /// What follows the GPU columns.
    LAST_COLUMNS {
        /// what the loop waits for longest, at the end of the wait chain; empty if it waits for nothing
        waits_for: "text", |row| text(&waits_for(&row.verdict.chain).map(ChainNode::word).unwrap_or_default());
    }
}

impl Column {
    /// Its field in a row, empty where nothing was measured.
    pub(super) fn field(&self, row: &CsvRow<'_>) -> String {
        match (self.value)(row) {
            Value::Text(text) => sanitize(&text).into_owned(),
            Value::Number(value) => decimal(value, self.decimals),
        }
    }

    /// Its number in a row; `None` for words and where nothing was measured.
    pub(super) fn number(&self, row: &CsvRow<'_>) -> Option<f64> {
        match (self.value)(row) {
            Value::Text(_) => None,
            Value::Number(value) => value.filter(|value| value.is_finite()),
        }
    }
}

/// What the columns of one row are made of.
pub(super) struct CsvRow<'r> {
    pub(super) frame: &'r Frame,
    pub(super) verdict: &'r Verdict,
    pub(super) timestamp: String,
    pub(super) elapsed_s: f64,
    /// What the loop did, hundredths of a percent.
    pub(super) shares: Option<[u32; LoopActivity::COUNT]>,
    /// The GPU whose columns are being made.
    pub(super) gpu: GpuRates,
}

impl CsvRow<'_> {
    fn loop_share(&self, activity: LoopActivity) -> Value {
        let share = self.shares.as_ref().and_then(|shares| shares.get(activity.index()));
        number(share.map(|share| f64::from(*share) / 100.0))
    }

    fn steps_per_s(&self) -> Option<f64> {
        self.frame.ranks.first()?.steps_per_s(self.frame.seconds)
    }

    /// Nearest-rank quantile of the lengths of the steps.
    fn step_ms(&self, quantile: f64) -> Option<f64> {
        let mut lengths = self.frame.ranks.first()?.step_lengths_s.clone();
        lengths.retain(|length| length.is_finite());
        lengths.sort_by(f32::total_cmp);
        let rank = (quantile * lengths.len() as f64).ceil() as usize;
        lengths.get(rank.saturating_sub(1)).map(|seconds| f64::from(*seconds) * 1000.0)
    }

    /// The attached GPUs without lost ones.
    fn gpus(&self) -> impl Iterator<Item = &GpuRates> {
        self.frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost)
    }

    fn workers(&self, part: fn(&WorkerRates) -> Option<f64>) -> Value {
        share(mean(self.frame.workers.iter().map(part)))
    }

    /// These columns are about the job's own disks: if those are unknown, nothing was measured.
    fn of_disks(&self, value: Option<f64>) -> Option<f64> {
        if self.frame.storage.data_devices_known { value } else { None }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn number(value: impl Into<Option<f64>>) -> Value {
    Value::Number(value.into())
}

fn share(value: Option<f64>) -> Value {
    Value::Number(value.map(|value| value * 100.0))
}

fn mib(bytes: Option<f64>) -> Value {
    Value::Number(bytes.map(|bytes| bytes / MIB))
}

fn bytes(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// A number with so many decimals; empty if it is missing or not finite.
fn decimal(value: Option<f64>, decimals: usize) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return String::new() };
    let text = format!("{value:.decimals$}");
    // A tiny negative value would print as -0.00.
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}

/// The sum, if there is a part and every part is known.
fn sum(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let first = values.next()??;
    values.try_fold(first, |total, value| Some(total + value?))
}

/// The five shares of the loop's time in hundredths of a percent, which add up to exactly 10000 (largest remainder); `None` if
/// nothing was measured.
pub(crate) fn hundredths(split: &TimeSplit) -> Option<[u32; LoopActivity::COUNT]> {
    let seconds = split.map(|s| if s.is_finite() { s.max(0.0) } else { 0.0 });
    let exact = seconds.shares_of(seconds.total())?.values().map(|share| share * 10_000.0);
    let mut whole = exact.map(|share| share.floor() as u32);
    let missing = 10_000u32.saturating_sub(whole.iter().sum()) as usize;
    let mut order = LoopActivity::ALL.map(LoopActivity::index);
    let rest = |position: usize| exact.get(position).map_or(0.0, |share| share.fract());
    order.sort_by(|&a, &b| rest(b).total_cmp(&rest(a)));
    for &position in order.iter().cycle().take(missing) {
        if let Some(share) = whole.get_mut(position) {
            *share += 1;
        }
    }
    Some(whole)
}

/// The clock event reasons in words, joined by `|`, with bits of no known meaning as a number; `none` where no bit is set.
fn reasons(mask: u64) -> String {
    let mut words: Vec<String> = clock_event_words(mask).map(str::to_owned).collect();
    let unknown = CLOCK_EVENT_REASONS.iter().fold(mask, |mask, (bit, _)| mask & !bit);
    if unknown != 0 {
        words.push(format!("0x{unknown:x}"));
    }
    if words.is_empty() { "none".to_owned() } else { words.join("|") }
}
