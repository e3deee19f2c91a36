//! What GPUs can do at most, by their names.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::NumberFormat;

/// The peaks of a GPU.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Peak {
    /// Its name, as a person writes it.
    pub name: String,
    /// Bandwidth of its memory, in TB/s.
    pub tb_per_s: f64,
    /// Words of its name that tell it from others, in capitals.
    words: String,
    peaks: HashMap<NumberFormat, f64>,
    /// Its size, where the driver may give it no name: compute units, and the range of its memory, GiB.
    compute_units: Option<u32>,
    memory_gib: Option<[u64; 2]>,
}

/// All of `assets/gpu-peaks.toml`: of the rows whose words are all in a name, the first is the one.
static PEAKS: LazyLock<Vec<Peak>> = LazyLock::new(|| {
    let mut tables: HashMap<String, Vec<Peak>> =
        toml::from_str(include_str!("../../assets/gpu-peaks.toml")).unwrap_or_default();
    tables.remove("gpus").unwrap_or_default()
});

impl Peak {
    /// TFLOP/s of matrix products without sparsity, or TOP/s of integers; `None` where the GPU has no such unit or
    /// its data sheet says nothing.
    pub(crate) fn tflops(&self, number: NumberFormat) -> Option<f64> {
        self.peaks.get(&number).copied()
    }
}

/// The peaks of a GPU by its name, as NVML, CUDA or HIP report it: `NVIDIA A100-SXM4-80GB`. `None` for GPUs that are
/// not in the table and for parts of a GPU (MIG, vGPU).
pub fn peak_of(device_name: &str) -> Option<&'static Peak> {
    const LONGEST_NAME: usize = 256;
    if device_name.len() > LONGEST_NAME {
        return None;
    }
    let name = device_name.to_ascii_uppercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    // Others of the same number, as RTX 4090 D and RTX 4090 Laptop are. A Ti is one as well, unless it has its row.
    let is_other = |word: &str| ["MIG", "LAPTOP", "MOBILE", "MAX", "D", "SUPER", "GRID"].contains(&word);
    if words.iter().any(|word| is_other(word) || is_virtual(word)) {
        return None;
    }
    let is_ti = words.contains(&"TI");
    PEAKS.iter().find(|peak| {
        let mut own = peak.words.split_whitespace();
        own.all(|word| words.contains(&word)) && is_ti == peak.words.ends_with("TI")
    })
}

/// Whether a word is the profile of a virtual GPU: `48Q`.
fn is_virtual(word: &str) -> bool {
    word.strip_suffix(['A', 'B', 'C', 'Q'])
        .is_some_and(|size| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The peaks of an AMD GPU to which the driver gives no name of its own (an empty one, or `AMD Radeon Graphics`), by
/// its compute units and the bytes of its memory.
pub fn peak_of_unnamed(compute_units: u32, memory_bytes: u64) -> Option<&'static Peak> {
    PEAKS.iter().find(|peak| {
        let gib = |[least, most]: [u64; 2]| (least..=most).contains(&(memory_bytes >> 30));
        peak.compute_units == Some(compute_units) && peak.memory_gib.is_some_and(gib)
    })
}
