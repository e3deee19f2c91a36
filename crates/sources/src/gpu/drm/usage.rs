//! What `/proc/PID/fdinfo/FD` of a render node says: bytes in, numbers out (Documentation/gpu/drm-usage-stats.rst).

use super::super::plausible::process_memory;
use crate::fields::{Fields, lines, number};

/// Most engines of one file.
const MOST_ENGINES: usize = 64;
/// Engines that copy, or code video: what they do is no computing. Names of i915, xe, amdgpu and others.
const NOT_COMPUTING: [&[u8]; 10] =
    [b"copy", b"bcs", b"video", b"vcs", b"vecs", b"dma", b"enc", b"dec", b"jpeg", b"vpe"];

/// What one file says of its client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DrmUsage {
    /// `drm-pdev`, the PCI address; empty for GPUs that are not on PCI.
    pub pci: Vec<u8>,
    /// `drm-client-id`: files with the same one are one client.
    pub client: u64,
    /// Engines that compute.
    pub engines: Vec<Engine>,
    /// Memory in use on the GPU, or of the host where the GPU has none of its own, bytes.
    pub memory_bytes: Option<u64>,
}

/// How long an engine has worked for the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Engine {
    pub name: Vec<u8>,
    /// Nanoseconds of work.
    pub busy_ns: Option<u64>,
    /// Cycles of work, and of the engine altogether.
    pub cycles: Option<u64>,
    pub total_cycles: Option<u64>,
    /// Engines of this kind.
    pub capacity: u64,
}

impl DrmUsage {
    /// Reads a file; `None` if it is no client of a GPU.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut usage = Self::default();
        let (mut client, mut own, mut host) = (None, None, None);
        for line in lines(bytes) {
            let Some((key, value)) = pair(line) else { continue };
            let Some(key) = key.strip_prefix(b"drm-") else { continue };
            match key {
                b"pdev" => usage.pci = value.to_vec(),
                b"client-id" => client = number(value),
                _ => {
                    if let Some(name) = key.strip_prefix(b"engine-capacity-") {
                        usage.engine(name, |engine| engine.capacity = number(value).unwrap_or(1).max(1));
                    } else if let Some(name) = key.strip_prefix(b"engine-") {
                        usage.engine(name, |engine| engine.busy_ns = Fields::new(value).number());
                    } else if let Some(name) = key.strip_prefix(b"total-cycles-") {
                        usage.engine(name, |engine| engine.total_cycles = number(value));
                    } else if let Some(name) = key.strip_prefix(b"cycles-") {
                        usage.engine(name, |engine| engine.cycles = number(value));
                    } else if let Some(region) = key.strip_prefix(b"resident-") {
                        let sum = if is_own(region) { &mut own } else { &mut host };
                        *sum = (*sum).into_iter().chain(bytes_of(value)).reduce(u64::saturating_add);
                    }
                }
            }
        }
        usage.client = client?;
        usage.memory_bytes = own.or(host).and_then(|bytes| process_memory(bytes, None));
        Some(usage)
    }

    /// An engine by its name, unless what it does is no computing.
    fn engine(&mut self, name: &[u8], set: impl FnOnce(&mut Engine)) {
        if NOT_COMPUTING.iter().any(|other| name.starts_with(other)) {
            return;
        }
        let place = self.engines.iter().position(|engine| engine.name == name);
        if place.is_none() && self.engines.len() < MOST_ENGINES {
            self.engines.push(Engine { name: name.to_vec(), capacity: 1, ..Engine::default() });
        }
        let engine = match place {
            Some(at) => self.engines.get_mut(at),
            None => self.engines.last_mut(),
        };
        if let Some(engine) = engine.filter(|engine| engine.name == name) {
            set(engine);
        }
    }

    /// Whether two files, or one at two times, are those of one client.
    pub fn is_same_client(&self, other: &Self) -> bool {
        (self.client, &self.pci) == (other.client, &other.pci)
    }

    /// Share of the time since an earlier reading in which the client's busiest kind of engine worked, 0–1. `None` if only cycles are
    /// counted and none was added: before Linux 6.16, xe counts a context when it leaves the engine, which may take long.
    pub fn busy_since(&self, before: &Self, passed_ns: u64) -> Option<f64> {
        let share = |engine: &Engine| {
            let old = before.engines.iter().find(|old| old.name == engine.name)?;
            // A counter may run backwards for a moment (the document, on `drm-engine-*`).
            let (busy, passed) = match (engine.busy_ns, old.busy_ns) {
                (Some(now), Some(then)) => (now.saturating_sub(then), passed_ns),
                _ => {
                    let busy = engine.cycles?.saturating_sub(old.cycles?);
                    (busy, engine.total_cycles?.checked_sub(old.total_cycles?)?)
                }
            };
            let is_known = passed > 0 && (busy > 0 || engine.busy_ns.is_some());
            is_known.then(|| (busy as f64 / passed as f64 / engine.capacity as f64).clamp(0.0, 1.0))
        };
        self.engines.iter().filter_map(share).reduce(f64::max)
    }
}

/// `KEY:<tab>VALUE`.
fn pair(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|byte| *byte == b':')?;
    Some((line.get(..at)?.trim_ascii(), line.get(at + 1..)?.trim_ascii()))
}

/// Regions of the GPU's own memory: `vram` of amdgpu and xe (`vram0`), `local0` of i915.
fn is_own(region: &[u8]) -> bool {
    region.starts_with(b"vram") || region.starts_with(b"local")
}

/// A number of bytes, `KiB` or `MiB`.
fn bytes_of(value: &[u8]) -> Option<u64> {
    let mut fields = Fields::new(value);
    let amount: u64 = fields.number()?;
    amount.checked_mul(match fields.next() {
        None => 1,
        Some(b"KiB") => 1 << 10,
        Some(b"MiB") => 1 << 20,
        Some(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const XE: &[u8] = b"pos:\t0\nflags:\t0100002\ndrm-driver:\txe\ndrm-client-id:\t37\ndrm-pdev:\t0000:03:00.0\n\
        drm-total-system:\t0\ndrm-resident-vram0:\t2 MiB\ndrm-resident-system:\t 512 KiB\n\
        drm-cycles-rcs:\t100\ndrm-total-cycles-rcs:\t1000\ndrm-cycles-bcs:\t900\ndrm-total-cycles-bcs:\t1000\n\
        drm-cycles-ccs:\t800\ndrm-total-cycles-ccs:\t1000\ndrm-engine-capacity-ccs:\t4\n";

    #[test]
    fn xe_counts_cycles() {
        let before = DrmUsage::parse(XE).unwrap();
        assert_eq!((before.client, &before.pci[..], before.memory_bytes), (37, &b"0000:03:00.0"[..], Some(2 << 20)));
        let later =
            String::from_utf8_lossy(XE).replace("rcs:\t1000", "rcs:\t2000").replace("ccs:\t1000", "ccs:\t2000");
        let later = later
            .replace("cycles-rcs:\t100\n", "cycles-rcs:\t400\n")
            .replace("cycles-ccs:\t800", "cycles-ccs:\t2800");
        let busy = DrmUsage::parse(later.as_bytes()).unwrap().busy_since(&before, 1).unwrap();
        assert!((busy - 0.5).abs() < 1e-9, "four engines, each half of the time: {busy}");
        assert_eq!(before.busy_since(&before, 5), None, "no cycle has passed");
        let stalled = String::from_utf8_lossy(XE).replace("s:\t1000", "s:\t5000");
        assert_eq!(DrmUsage::parse(stalled.as_bytes()).unwrap().busy_since(&before, 5), None, "none was counted");
    }

    #[test]
    fn i915_counts_nanoseconds() {
        let at = |ns: u64| {
            let text = format!(
                "drm-client-id: 9\ndrm-engine-render: {ns} ns\ndrm-engine-video: 5 ns\ndrm-resident-system0: 64 KiB\n"
            );
            DrmUsage::parse(text.as_bytes()).unwrap()
        };
        assert_eq!(at(0).memory_bytes, Some(64 << 10));
        assert_eq!(at(750).busy_since(&at(0), 1000), Some(0.75));
        assert_eq!(at(0).busy_since(&at(750), 1000), Some(0.0), "backwards");
    }

    #[test]
    fn nanoseconds_win_over_cycles_without_a_total() {
        let at = |ns: u64| {
            let text = format!("drm-client-id: 9\ndrm-engine-fragment: {ns} ns\ndrm-cycles-fragment: {}\n", ns / 2);
            DrmUsage::parse(text.as_bytes()).unwrap()
        };
        assert_eq!(at(500).busy_since(&at(0), 1000), Some(0.5));
    }

    #[test]
    fn other_files_are_no_clients() {
        for text in [&b""[..], b"pos:\t0\n", b"drm-driver: xe\n", b"drm-client-id: x\n"] {
            assert_eq!(DrmUsage::parse(text), None);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_client_or_none(one in "(drm-(client-id|engine-[a-c]|cycles-a|total-cycles-a|resident-vram|engine-capacity-a):[ \t]*[0-9]{0,21} ?(KiB|ns|MiB|x)?\n){0,40}",
            two in "(drm-(client-id|engine-[a-c]|cycles-a|total-cycles-a):[ \t]*[0-9]{0,21}\n){0,40}", bytes in prop::collection::vec(any::<u8>(), 0..300), ns: u64) {
            let _ = DrmUsage::parse(&bytes);
            if let (Some(one), Some(two)) = (DrmUsage::parse(one.as_bytes()), DrmUsage::parse(two.as_bytes())) {
                prop_assert!(two.busy_since(&one, ns).is_none_or(|busy| (0.0..=1.0).contains(&busy)));
            }
        }
    }
}
