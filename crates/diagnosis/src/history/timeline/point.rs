//! The drawn values of one frame, or the means over several.

use serde::{Deserialize, Serialize};

use crate::diagnosis::verdict::Class;
use trainmon_base::stats::mean;
use trainmon_rates::frame::GpuRates;
use trainmon_waits::Frame;
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// GPUs whose use is kept individually.
pub const GPUS: usize = 16;

/// Values kept individually, besides those of the GPUs.
const VALUES: usize = 21;

/// Lengths that differ by less count as equal: a frame's length comes as a fraction of seconds. Nanoseconds.
const SLACK_NS: u64 = 1000;

/// An optional number in four bytes. Nothing is NaN, which no measured value is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Compact(f32);

impl Compact {
    /// Nothing if not measured, or not a number.
    pub fn new(value: Option<f64>) -> Self {
        Self(value.map(|v| v as f32).filter(|v| v.is_finite()).unwrap_or(f32::NAN))
    }

    /// The number.
    pub fn get(self) -> Option<f32> {
        (!self.0.is_nan()).then_some(self.0)
    }
}

impl Default for Compact {
    fn default() -> Self {
        Self(f32::NAN)
    }
}

/// An optional whole percentage from 0 to 100, in a byte.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Percent(u8);

impl Percent {
    const NONE: u8 = u8::MAX;

    /// Nothing if not measured, or not a number.
    pub fn new(value: Option<f64>) -> Self {
        Self(value.filter(|v| v.is_finite()).map_or(Self::NONE, |v| v.clamp(0.0, 100.0).round() as u8))
    }

    /// The number.
    pub fn get(self) -> Option<f32> {
        (self.0 != Self::NONE).then_some(f32::from(self.0))
    }
}

impl Default for Percent {
    fn default() -> Self {
        Self(Self::NONE)
    }
}

/// Builds [`TimelinePoint`] from the list of its values: the name of each, and how to compute it from a frame.
macro_rules! point {
    ($frame:ident; $($(#[$doc:meta])+ $name:ident: $value:expr,)+) => {
        /// The drawn values of one frame, or their means over a run of frames.
        #[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
        pub struct TimelinePoint {
            /// CLOCK_MONOTONIC at the start of the interval, nanoseconds.
            pub start_ns: u64,
            /// CLOCK_MONOTONIC at the end of the interval, nanoseconds.
            pub end_ns: u64,
            /// The class of the verdict at this frame.
            pub class: Class,
            /// What the loops did, shares in the order of [`LoopActivity::ALL`].
            pub shares: Option<[f32; LoopActivity::COUNT]>,
            /// Utilization of each GPU by its position in [`Frame::gpus`].
            pub gpus: [Percent; GPUS],
            $($(#[$doc])+ pub $name: Compact,)+
        }

        impl TimelinePoint {
            /// Takes the drawn values from a frame. A frame after a gap covers no time, because that time was not
            /// watched.
            pub fn from_frame($frame: &Frame, class: Class) -> Self {
                let seconds = if $frame.gap { 0.0 } else { $frame.seconds };
                let mut gpus = [Percent::default(); GPUS];
                for (kept, gpu) in gpus.iter_mut().zip(&$frame.gpus) {
                    *kept = Percent::new(if gpu.lost { None } else { gpu.utilization_pct });
                }
                Self {
                    start_ns: $frame.monotonic_ns.saturating_sub((seconds.max(0.0) * 1e9) as u64),
                    end_ns: $frame.monotonic_ns,
                    class,
                    shares: $frame.loop_shares().map(|shares| shares.values().map(|share| share as f32)),
                    gpus,
                    $($name: Compact::new($value),)+
                }
            }

            fn values(&self) -> [Compact; VALUES] {
                [$(self.$name),+]
            }

            fn values_mut(&mut self) -> [&mut Compact; VALUES] {
                [$(&mut self.$name),+]
            }
        }
    };
}

point! {
    frame;
    /// Mean utilization of the job's GPUs, percent.
    gpu: of_gpus(frame, |g| g.utilization_pct),
    /// Memory used on the job's GPUs, mean percentage of what is fitted.
    gpu_memory: of_gpus(frame, |g| percent(g.memory_used_bytes? as f64, g.memory_total_bytes? as f64)),
    /// Power of the job's GPUs, mean percentage of the limit.
    gpu_power: of_gpus(frame, |g| percent(g.power_w?, g.power_limit_w?)),
    /// Temperature of the hottest of the job's GPUs, °C.
    gpu_temperature: hottest(frame),
    /// SM clock of the job's GPUs, mean, MHz.
    gpu_clock: of_gpus(frame, |g| g.sm_clock_mhz.map(f64::from)),
    /// Bytes per second that the job's GPUs receive over PCIe, together.
    pcie_rx: sum_of_gpus(frame, |g| g.pcie_rx_bytes_per_s),
    /// Bytes per second that they send.
    pcie_tx: sum_of_gpus(frame, |g| g.pcie_tx_bytes_per_s),
    /// Use of the allowed CPUs, percent.
    cpu: frame.host.allowed_cpu_pct,
    /// The job's own use, percent of the allowed CPUs.
    cpu_job: frame.job.cpu_pct.zip(frame.job.cpus_allowed).and_then(|(v, n)| percent(v / 100.0, f64::from(n))),
    /// Share of the job's runnable time spent queueing for a CPU, percent.
    run_delay: frame.job.run_delay_share.map(|v| v * 100.0),
    /// Time in which some task waited for a CPU, percent.
    psi_cpu: frame.host.psi_cpu_some_pct,
    /// Time in which some task waited for I/O, percent.
    psi_io: frame.host.psi_io_some_pct,
    /// Time in which some task waited for memory, percent.
    psi_memory: frame.host.psi_memory_some_pct,
    /// Bytes per second fetched from storage.
    io: read_bytes_per_s(frame),
    /// Highest utilization among the disks, percent.
    disk_util: frame.storage.utilization_pct,
    /// Bytes per second read from the disks.
    disk_read: frame.storage.read_bytes_per_s,
    /// Bytes per second received on all interfaces except loopback.
    net_rx: frame.host.net_rx_bytes_per_s,
    /// Bytes per second sent.
    net_tx: frame.host.net_tx_bytes_per_s,
    /// Mean share of time in which the workers had something to do, percent.
    loader: mean(frame.workers.iter().map(|w| w.idle.map(|idle| (1.0 - idle) * 100.0))),
    /// Steps per second, from the verdict: the timeline fills it in.
    steps: None,
    /// The part of the loop's time that the verdict has a name for, of the fifth kind of the shares, percent: the timeline
    /// fills it in.
    named_waits: None,
}

impl TimelinePoint {
    /// Takes the drawn values from a frame, with the class and the steps per second of its verdict, and the shares of the
    /// loop's time.
    pub fn new(frame: &Frame, class: Class, steps_per_s: Option<f64>, shares: Option<TimeSplit>) -> Self {
        let shares = shares.map(|shares| shares.values().map(|share| share as f32));
        Self { steps: Compact::new(steps_per_s), shares, ..Self::from_frame(frame, class) }
    }

    /// Makes the point begin no earlier than the previous one ends, and exactly there if it is close.
    pub(super) fn follow(&mut self, before: &Self) {
        if self.start_ns < before.end_ns.saturating_add(SLACK_NS) {
            self.start_ns = before.end_ns.min(self.end_ns);
        }
    }

    /// Whether `next` starts where this one ends, has the same class, and has a number wherever this one has one.
    pub(super) fn goes_on_as(&self, next: &Self) -> bool {
        let same_values = || self.values().iter().zip(next.values()).all(|(a, b)| a.0.is_nan() == b.0.is_nan());
        let same_gpus = || self.gpus.iter().zip(next.gpus).all(|(a, b)| a.get().is_some() == b.get().is_some());
        let same = self.class == next.class && self.shares.is_some() == next.shares.is_some();
        self.end_ns == next.start_ns && same && same_values() && same_gpus()
    }

    /// Merges a point that continues this one: means weighted by length.
    pub(super) fn extend(&mut self, next: &Self, gpus: &mut [f32; GPUS]) {
        let length = next.end_ns - next.start_ns;
        let whole = next.end_ns - self.start_ns;
        let weight = if whole > 0 { length as f32 / whole as f32 } else { 0.0 };
        let mix = |a: &mut f32, b: f32| *a += (b - *a) * weight;
        for (a, b) in self.values_mut().into_iter().zip(next.values()) {
            mix(&mut a.0, b.0);
        }
        for ((mean, shown), b) in gpus.iter_mut().zip(&mut self.gpus).zip(next.gpus) {
            if let Some(b) = b.get() {
                mix(mean, b);
                *shown = Percent::new(Some(f64::from(*mean)));
            }
        }
        if let (Some(shares), Some(next)) = (&mut self.shares, next.shares) {
            for (a, b) in shares.iter_mut().zip(next) {
                mix(a, b);
            }
        }
        self.end_ns = next.end_ns;
    }
}

/// The job's GPUs.
fn devices(frame: &Frame) -> impl Iterator<Item = &GpuRates> {
    frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost)
}

/// Mean over the job's GPUs.
fn of_gpus(frame: &Frame, value: fn(&GpuRates) -> Option<f64>) -> Option<f64> {
    mean(devices(frame).map(value))
}

/// Sum over the job's GPUs.
fn sum_of_gpus(frame: &Frame, value: fn(&GpuRates) -> Option<f64>) -> Option<f64> {
    devices(frame).filter_map(value).reduce(|a, b| a + b)
}

fn hottest(frame: &Frame) -> Option<f64> {
    devices(frame).filter_map(|gpu| gpu.temperature_c).max().map(f64::from)
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}

/// Bytes per second that the job reads from storage: its own counters, else those of the disks that hold its data.
pub fn read_bytes_per_s(frame: &Frame) -> Option<f64> {
    let devices = if frame.storage.data_devices_known { frame.storage.read_bytes_per_s } else { None };
    frame.job.read_bytes_per_s.or(devices)
}
