//! The binary table `gpu_metrics`, which the driver copies from the GPU's firmware: bytes in, numbers out.
//!
//! Layouts: `struct gpu_metrics_v*` in drivers/gpu/drm/amd/include/kgd_pp_interface.h, naturally aligned, little-endian. The header
//! is the size (u16), the format's and the content's revision (u8 each). The driver fills a table with ones first, so a number with all
//! bits set was not measured. Revisions are not extensions of each other, so an unknown one is not read. 1.9 describes itself
//! (`AMDGPU_METRICS_ENC_ATTR`): the number of attributes, then of each what it is and its numbers, packed.
//!
//! What is left out, because the kernel's units contradict each other:
//! - The activity and the power of APUs (2.x, 3.0): percent or hundredths, watts or milliwatts. The files beside the table have units.
//! - PCIe rates: GB/s or Mbit/s.
//! - How long limits held by 3.0: it counts the firmware's updates, but not how many there were.
//! - The accumulators of 1.1 to 1.3, which count nothing to divide by, and the energy of these, whose unit differs by GPU.

use trainmon_sample::gpu::{HW_THERMAL, POWER_CAP, SW_THERMAL};

/// Most partitions of a GPU in the table (`NUM_XCP`).
const MOST_PARTITIONS: usize = 8;
/// Compute dies of a partition in the table (`MAX_XCC`).
const DIES: usize = 8;
/// A limit that held for less than this share of the time between two readings is not worth a word.
const HELD_LEAST: f64 = 0.1;

/// Bits of the throttle status that is the same for all GPUs: drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, `SMU_THROTTLER_*`.
/// Limits of power and current; temperatures; the regulators' and the board's alarms.
const INDEPENDENT: [(std::ops::RangeInclusive<u32>, u64); 3] =
    [(0..=23, POWER_CAP), (32..=43, SW_THERMAL), (44..=47, HW_THERMAL)];
/// Bits of the throttle status of MI300 (`THROTTLER_*_BIT` in pmfw_if/smu_v13_0_6_pmfw.h).
const MI300: [(std::ops::RangeInclusive<u32>, u64); 3] =
    [(0..=0, HW_THERMAL), (1..=1, POWER_CAP), (2..=4, SW_THERMAL)];

/// Attributes of 1.9 (`enum amdgpu_metrics_attr_id`).
mod attribute {
    pub(super) const SOCKET_POWER: usize = 3;
    pub(super) const ACTIVITY: usize = 4;
    pub(super) const MEMORY: usize = 5;
    pub(super) const ENERGY: usize = 7;
    pub(super) const SAMPLE_COUNT: usize = 9;
    /// Of the five residencies.
    pub(super) const LIMITED: usize = 10;
    pub(super) const ACTIVITY_SUM: usize = 20;
    pub(super) const MEMORY_SUM: usize = 21;
    /// One more than the last that is read.
    pub(super) const END: usize = 22;
}

/// What a table says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Metrics {
    /// Time in which the compute units worked, percent, as the firmware averages it (about a second).
    pub activity_pct: Option<u32>,
    /// The same of the memory controller.
    pub memory_pct: Option<u32>,
    /// Power of the socket, watts.
    pub power_w: Option<u32>,
    /// Energy since the driver was loaded, 2⁻¹⁶ J.
    pub energy: Option<u64>,
    /// What holds the clocks down at this moment, as bits of NVML's clock event reasons.
    throttle: Option<u64>,
    counters: Option<FirmwareSums>,
    /// Activity of each partition, percent, the mean over its dies.
    partitions: [Option<u32>; MOST_PARTITIONS],
}

/// Sums over the firmware's samples.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FirmwareSums {
    /// Number of samples.
    count: u32,
    activity: Option<u32>,
    memory: Option<u32>,
    /// Samples in which the processor's alarm, the power limit, and the limits of three temperatures held.
    limited: [Option<u32>; 5],
}

/// Offsets in bytes of the fields of one revision; `None` for what it lacks.
#[derive(Debug, Clone, Copy, Default)]
struct FieldPlaces {
    /// `average_gfx_activity` and `average_umc_activity` in a row.
    activity: Option<usize>,
    power: Option<usize>,
    energy: Option<usize>,
    independent: Option<usize>,
    mi300: Option<usize>,
    /// `accumulation_counter` and five residencies in a row.
    counter: Option<usize>,
    /// `gfx_activity_acc` and `mem_activity_acc` in a row.
    sums: Option<usize>,
    /// `xcp_stats`.
    partitions: Option<usize>,
}

impl FieldPlaces {
    fn of_revision(format: u8, content: u8, size: usize) -> Option<Self> {
        let none = Self::default();
        let mi300 = Self { activity: Some(12), power: Some(10), ..none };
        Some(match (format, content, size) {
            (1, 0, 80) => Self { activity: Some(28), power: Some(34), ..none },
            (1, 1, 96) | (1, 2, 104) => Self { activity: Some(16), power: Some(22), ..none },
            (1, 3, 120) => Self { activity: Some(16), power: Some(22), independent: Some(112), ..none },
            (1, 4, 288) => Self { energy: Some(24), mi300: Some(40), ..mi300 },
            (1, 5, 360) => Self { energy: Some(88), mi300: Some(104), ..mi300 },
            // The first one, with the activity of the engines for pictures, and without partitions.
            (1, 6, 384) => Self { energy: Some(88), counter: Some(104), sums: Some(144), ..mi300 },
            (1, 6, 1664) => {
                Self { energy: Some(16), counter: Some(32), sums: Some(68), partitions: Some(312), ..mi300 }
            }
            // 1.8 with four or five sums for each partition.
            (1, 7, 2208) | (1, 8, 3360 | 3872) => {
                Self { energy: Some(24), counter: Some(40), sums: Some(76), partitions: Some(344), ..mi300 }
            }
            (2, 2, 128) | (2, 3, 152) | (2, 4, 168) => Self { independent: Some(120), ..none },
            _ => return None,
        })
    }
}

/// A table of one revision.
#[derive(Debug, Clone, Copy)]
struct MetricsTable<'a>(&'a [u8]);

impl MetricsTable<'_> {
    /// The unsigned number of `N` bytes at an offset, if the table has one there.
    fn number<const N: usize>(self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..)?.first_chunk::<N>()?;
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        (number != u64::MAX >> (64 - 8 * N)).then_some(number)
    }

    fn half(self, at: usize) -> Option<u32> {
        self.number::<2>(at).and_then(|number| number.try_into().ok())
    }

    fn word(self, at: usize) -> Option<u32> {
        self.number::<4>(at).and_then(|number| number.try_into().ok())
    }

    fn percent(self, at: usize) -> Option<u32> {
        self.half(at).filter(|pct| *pct <= 100)
    }

    fn counters(self, counter: usize, sums: Option<usize>) -> Option<FirmwareSums> {
        let limited = std::array::from_fn(|index| self.word(counter + 4 + 4 * index));
        let [activity, memory] = [0, 4].map(|after| self.word(sums? + after));
        Some(FirmwareSums { count: self.word(counter)?, activity, memory, limited })
    }

    /// The first number of each attribute of a table of 1.9. What an attribute is: how many numbers it has in bits 0 to 9, which one it
    /// is in bits 10 to 19, their type in bits 20 to 23 (unsigned and signed of 1, 2, 4 and 8 bytes).
    fn attributes(self) -> Option<[Option<u64>; attribute::END]> {
        let mut found = [None; attribute::END];
        let mut at = 8;
        for _ in 0..self.word(4)? {
            let what = self.number::<8>(at)?;
            at += 8;
            let (count, which) = (what & 0x3ff, what >> 10 & 0x3ff);
            let size = 1 << (what >> 21 & 3);
            let place = usize::try_from(which).ok().and_then(|which| found.get_mut(which));
            if let Some(number) = place.filter(|_| count > 0) {
                *number = match size {
                    1 => self.number::<1>(at),
                    2 => self.number::<2>(at),
                    4 => self.number::<4>(at),
                    _ => self.number::<8>(at),
                };
            }
            at += size * usize::try_from(count).ok()?;
        }
        Some(found)
    }

    /// The activity of each partition: all have the same room between the first one and the last word but one.
    fn partitions(self, from: usize) -> [Option<u32>; MOST_PARTITIONS] {
        let room = self.0.len().saturating_sub(from + 8) / MOST_PARTITIONS;
        std::array::from_fn(|partition| {
            let dies = (0..DIES).filter_map(|die| self.word(from + partition * room + 4 * die));
            let dies: Vec<u32> = dies.filter(|pct| *pct <= 100).collect();
            let count = u32::try_from(dies.len()).ok().filter(|count| *count > 0)?;
            Some((dies.iter().sum::<u32>() + count / 2) / count)
        })
    }
}

impl Metrics {
    /// Reads a table; `None` if it is cut off or of an unknown revision. The bits `not_believed` of the throttle status that is the
    /// same for all GPUs are left out.
    pub fn parse(bytes: &[u8], not_believed: u64) -> Option<Self> {
        let [low, high, format, content, ..] = *bytes else { return None };
        let size = usize::from(u16::from_le_bytes([low, high]));
        let table = MetricsTable(bytes.get(..size)?);
        if (format, content) == (1, 9) {
            return table.attributes().map(Self::of_attributes);
        }
        let layout = FieldPlaces::of_revision(format, content, size)?;
        let status = layout.independent.and_then(|at| table.number::<8>(at));
        let throttle = status.map(|status| reasons(status & !not_believed, &INDEPENDENT));
        let mi300 = layout.mi300.and_then(|at| Some(reasons(u64::from(table.word(at)?), &MI300)));
        Some(Self {
            activity_pct: layout.activity.and_then(|at| table.percent(at)),
            memory_pct: layout.activity.and_then(|at| table.percent(at + 2)),
            power_w: layout.power.and_then(|at| table.half(at)),
            energy: layout.energy.and_then(|at| table.number::<8>(at)),
            throttle: throttle.or(mi300),
            counters: layout.counter.and_then(|at| table.counters(at, layout.sums)),
            partitions: layout.partitions.map(|from| table.partitions(from)).unwrap_or_default(),
        })
    }

    fn of_attributes(found: [Option<u64>; attribute::END]) -> Self {
        let number = |which: usize| found.get(which).copied().flatten();
        // Sums of either size are compared with earlier ones modulo 2³².
        let sum = |which| number(which).map(|sum| sum as u32);
        let small = |which| number(which).and_then(|number| number.try_into().ok());
        let percent = |which| small(which).filter(|pct| *pct <= 100);
        let counters = sum(attribute::SAMPLE_COUNT).map(|count| FirmwareSums {
            count,
            activity: sum(attribute::ACTIVITY_SUM),
            memory: sum(attribute::MEMORY_SUM),
            limited: std::array::from_fn(|index| sum(attribute::LIMITED + index)),
        });
        Self {
            activity_pct: percent(attribute::ACTIVITY),
            memory_pct: percent(attribute::MEMORY),
            power_w: small(attribute::SOCKET_POWER),
            energy: number(attribute::ENERGY),
            counters,
            ..Self::default()
        }
    }

    /// Mean activity of the compute units and of the memory controller since an earlier reading, percent; without it, or without sums,
    /// as the firmware averages it.
    pub fn means(&self, before: Option<&Self>) -> [Option<u32>; 2] {
        [
            self.mean(before, |metrics| metrics.activity_pct, |counters| counters.activity),
            self.mean(before, |metrics| metrics.memory_pct, |counters| counters.memory),
        ]
    }

    fn mean(
        &self,
        before: Option<&Self>,
        average: fn(&Self) -> Option<u32>,
        sum: fn(&FirmwareSums) -> Option<u32>,
    ) -> Option<u32> {
        let now = average(self)?;
        let exact = || {
            let (before, new) = (before?, self.counters.as_ref()?);
            let moved = sum(new)?.wrapping_sub(sum(before.counters.as_ref()?)?);
            let mean = f64::from(moved) / f64::from(self.samples_since(before)?);
            // The kernel says percent, AMD's tools say shares. The firmware's average tells: one of them is a hundred times off.
            let near = (f64::from(now) + f64::from(average(before)?)) / 2.0;
            let is_percent = (mean - near).abs() <= (mean * 100.0 - near).abs();
            let pct = if is_percent { mean } else { mean * 100.0 };
            (pct <= 105.0).then(|| pct.round().min(100.0) as u32)
        };
        exact().or(Some(now))
    }

    /// What held the clocks down since an earlier reading, or does at this moment: bits of NVML's clock event reasons.
    pub fn clock_event_reasons(&self, before: Option<&Self>) -> Option<u64> {
        let Some((before, count)) = before.and_then(|before| Some((before, self.samples_since(before)?))) else {
            return self.throttle;
        };
        let (new, old) = (self.counters?.limited, before.counters?.limited);
        let held =
            [HW_THERMAL, POWER_CAP, SW_THERMAL, SW_THERMAL, SW_THERMAL].into_iter().zip(new.into_iter().zip(old));
        let mut known = false;
        let mask = held.fold(0, |mask, (reason, (new, old))| {
            let Some((new, old)) = new.zip(old) else { return mask };
            known = true;
            // It may exceed the time by a sample; what is far beyond was reset.
            let share = f64::from(new.wrapping_sub(old)) / f64::from(count);
            if (HELD_LEAST..=1.1).contains(&share) { mask | reason } else { mask }
        });
        known.then_some(mask)
    }

    /// Activity of a partition, percent.
    pub fn partition_pct(&self, partition: usize) -> Option<u32> {
        self.partitions.get(partition).copied().flatten()
    }

    /// How many samples the firmware took since an earlier reading, if it took any and counted on.
    fn samples_since(&self, before: &Self) -> Option<u32> {
        let count = self.counters?.count.wrapping_sub(before.counters?.count);
        // Half of the range: it was reset.
        (1..u32::MAX / 2).contains(&count).then_some(count)
    }
}

/// The bits of a throttle status as NVML's clock event reasons.
fn reasons(status: u64, bits: &[(std::ops::RangeInclusive<u32>, u64)]) -> u64 {
    bits.iter()
        .filter(|(bits, _)| bits.clone().any(|bit| status >> bit & 1 == 1))
        .fold(0, |mask, (_, reason)| mask | reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table of a revision in which nothing is measured, but for some numbers at offsets.
    fn table(format: u8, content: u8, size: u16, numbers: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0xff; usize::from(size)];
        bytes[..2].copy_from_slice(&size.to_le_bytes());
        bytes[2..4].copy_from_slice(&[format, content]);
        for (at, number) in numbers {
            bytes[*at..at + number.len()].copy_from_slice(number);
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Metrics {
        Metrics::parse(bytes, 0).unwrap()
    }

    #[test]
    fn what_is_all_ones_was_not_measured() {
        for (format, content, size) in [
            (1, 0, 80),
            (1, 1, 96),
            (1, 2, 104),
            (1, 3, 120),
            (1, 4, 288),
            (1, 5, 360),
            (1, 6, 384),
            (1, 6, 1664),
            (1, 7, 2208),
            (1, 8, 3360),
            (1, 8, 3872),
            (2, 2, 128),
            (2, 4, 168),
        ] {
            assert_eq!(
                parse(&table(format, content, size, &[])),
                Metrics::default(),
                "{format}.{content}, {size} bytes"
            );
        }
    }

    #[test]
    fn a_radeon_tells_activity_power_and_what_holds_it_down() {
        let limits = (1_u64 << 36 | 1 << 16).to_le_bytes();
        let metrics = parse(&table(1, 3, 120, &[(16, &[93, 0]), (18, &[41, 0]), (22, &[0x2c, 1]), (112, &limits)]));
        assert_eq!((metrics.activity_pct, metrics.memory_pct, metrics.power_w), (Some(93), Some(41), Some(300)));
        assert_eq!(metrics.clock_event_reasons(None), Some(POWER_CAP | SW_THERMAL));
        assert_eq!(metrics.means(Some(&metrics)), [Some(93), Some(41)], "nothing to divide by");
        let not_hot = Metrics::parse(&table(1, 3, 120, &[(112, &limits)]), 1 << 36).unwrap();
        assert_eq!(not_hot.clock_event_reasons(None), Some(POWER_CAP));
        let apu = parse(&table(2, 2, 128, &[(28, &[9, 0]), (120, &(1_u64 << 47).to_le_bytes())]));
        assert_eq!((apu.activity_pct, apu.clock_event_reasons(None)), (None, Some(HW_THERMAL)));
    }

    /// MI300's table: percent now, then the counter of samples, the five residencies, and the sums of activity.
    fn instinct(now: u8, count: u32, limited: [u32; 5], sums: [u32; 2]) -> Metrics {
        let limited: Vec<u8> = limited.iter().flat_map(|number| number.to_le_bytes()).collect();
        let sums: Vec<u8> = sums.iter().flat_map(|number| number.to_le_bytes()).collect();
        parse(&table(1, 7, 2208, &[(12, &[now, 0, now, 0]), (40, &count.to_le_bytes()), (44, &limited), (76, &sums)]))
    }

    #[test]
    fn an_instinct_tells_true_means_between_two_readings() {
        let before = instinct(60, 1000, [0; 5], [50_000, 20_000]);
        let now = instinct(70, 2000, [0, 500, 20, 0, 0], [113_000, 50_000]);
        assert_eq!(now.means(Some(&before)), [Some(63), Some(30)]);
        assert_eq!(now.means(None), [Some(70), Some(70)]);
        assert_eq!(now.clock_event_reasons(Some(&before)), Some(POWER_CAP), "2% of the time are no limit");
        // The same as shares, over the end of the counters' range.
        let before = instinct(60, u32::MAX - 10, [0; 5], [u32::MAX - 5, 0]);
        assert_eq!(instinct(60, 989, [0; 5], [624, 0]).means(Some(&before)), [Some(63), Some(0)]);
        // After a reset of the GPU, and when it was not read anew.
        for again in [instinct(60, 5, [0; 5], [5, 5]), before.clone()] {
            assert_eq!(again.means(Some(&instinct(60, 9000, [0; 5], [9, 9]))), [Some(60), Some(60)]);
        }
    }

    /// A table of 1.9 of attributes with one number each: which one, the type (unsigned of 2ⁿ bytes is 2n), and the number.
    fn described(attributes: &[(u64, u64, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 1, 9];
        bytes.extend(u32::try_from(attributes.len()).unwrap().to_le_bytes());
        for (which, kind, number) in attributes {
            let count = u64::try_from(number.len()).unwrap() >> (kind / 2);
            bytes.extend((kind << 20 | which << 10 | count).to_le_bytes());
            bytes.extend(*number);
        }
        let size = u16::try_from(bytes.len()).unwrap().to_le_bytes();
        bytes[..2].copy_from_slice(&size);
        bytes
    }

    #[test]
    fn a_table_that_describes_itself_is_read_by_its_description() {
        let at = |count: u64, held: u64, sum: u32| {
            parse(&described(&[
                (0, 2, &[42, 0]),
                (33, 2, &[0x34, 8, 0x35, 8, 0x36, 8]),
                (3, 2, &[194, 0]),
                (4, 2, &[60, 0]),
                (5, 0, &[255]),
                (7, 6, &[1, 0, 0, 0, 0, 0, 0, 0]),
                (9, 6, &count.to_le_bytes()),
                (11, 6, &held.to_le_bytes()),
                (20, 4, &sum.to_le_bytes()),
                (700, 2, &[0, 0]),
                (10, 4, &[]),
            ]))
        };
        let before = at(u64::from(u32::MAX) - 500, 70, 1000);
        let now = at(u64::from(u32::MAX) + 500, 1000, 64_000);
        assert_eq!((now.power_w, now.energy), (Some(194), Some(1)));
        assert_eq!(now.means(Some(&before)), [Some(63), None]);
        assert_eq!(now.clock_event_reasons(Some(&before)), Some(POWER_CAP));
        assert_eq!(now.clock_event_reasons(None), None, "it has sums only");
    }

    #[test]
    fn each_partition_has_its_own_activity() {
        let mut of_second = vec![0xff; 32];
        of_second[..4].copy_from_slice(&80_u32.to_le_bytes());
        of_second[4..8].copy_from_slice(&41_u32.to_le_bytes());
        for (content, size, from, room) in
            [(6, 1664, 312, 168), (7, 2208, 344, 232), (8, 3360, 344, 376), (8, 3872, 344, 440)]
        {
            let metrics = parse(&table(1, content, size, &[(from + room, &of_second)]));
            assert_eq!([0, 1, 2, 8].map(|partition| metrics.partition_pct(partition)), [None, Some(61), None, None]);
        }
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_not_read() {
        let whole = table(1, 3, 120, &[]);
        assert!(Metrics::parse(&whole[..119], 0).is_none());
        assert!(Metrics::parse(&[whole, vec![0; 4000]].concat(), 0).is_some(), "a dump of a page");
        for (format, content) in [(1, 10), (0, 0), (3, 0), (255, 255)] {
            assert!(Metrics::parse(&table(format, content, 300, &[]), 0).is_none());
        }
        let described = described(&[(4, 2, &[9_u8, 0])]);
        assert!(Metrics::parse(&described, 0).is_some());
        let longer = [&18_u16.to_le_bytes(), &described[2..18]].concat();
        assert!(Metrics::parse(&longer, 0).is_some(), "a number that is not there was not measured");
        let more = [&described[..4], &2_u32.to_le_bytes(), &described[8..]].concat();
        assert!(Metrics::parse(&more, 0).is_none(), "an attribute is missing");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_none(format in 0_u8..4, content in 0_u8..10, size in 0_u16..4000,
            bytes in prop::collection::vec(any::<u8>(), 0..4000), more in prop::collection::vec(any::<u8>(), 0..4000)) {
            let with_head = |bytes: &[u8]| {
                let [low, high] = size.to_le_bytes();
                [&[low, high, format, content], bytes].concat()
            };
            if let (Some(before), Some(now)) = (Metrics::parse(&with_head(&bytes), 0), Metrics::parse(&with_head(&more), 0)) {
                for pct in now.means(Some(&before)).into_iter().chain((0..9).map(|partition| now.partition_pct(partition))) {
                    prop_assert!(pct.is_none_or(|pct| pct <= 100));
                }
                let known = POWER_CAP | SW_THERMAL | HW_THERMAL;
                prop_assert!(now.clock_event_reasons(Some(&before)).is_none_or(|mask| mask & !known == 0));
            }
            let _ = Metrics::parse(&bytes, 0);
        }
    }
}
