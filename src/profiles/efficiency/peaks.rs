//! What GPUs can do at most: operations per second without sparsity, by the format of the numbers, and bytes per
//! second of their memory. From the vendors' data sheets; where those name only the speed with sparsity, half of it.
//!
//! Products of matrices run on the matrix units where a format has them: `f32` of NVIDIA's has none (TF32 does),
//! `f32` and `f64` of AMD's have. Half precision adds up in single precision, like torch's libraries, which halves
//! the peak of GeForce GPUs.

use super::NumberFormat;

/// The formats that have peaks.
const FORMATS: [NumberFormat; 8] = {
    use NumberFormat::{Bf16, F4, F8, F16, F32, F64, I8, Tf32};
    [F64, F32, Tf32, F16, Bf16, F8, F4, I8]
};

/// The peaks of a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Its name, as a person writes it.
    pub name: &'static str,
    /// Bandwidth of its memory, in TB/s.
    pub tb_per_s: f64,
    /// The document that the numbers come from, and its year.
    pub source: &'static str,
    /// Words of its name that tell it from others, in capitals.
    words: &'static str,
    /// TFLOP/s, or TOP/s of integers, in the order of [`FORMATS`].
    dense: [f64; FORMATS.len()],
}

impl Peak {
    /// TFLOP/s of matrix products without sparsity, or TOP/s of integers; `None` where the GPU has no such unit or
    /// its data sheet says nothing.
    pub fn tflops(&self, number: NumberFormat) -> Option<f64> {
        let mut peaks = FORMATS.iter().zip(self.dense).filter(|(_, tflops)| *tflops > NO);
        peaks.find(|(format, _)| **format == number).map(|(_, tflops)| tflops)
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
    let name = match (compute_units, memory_bytes >> 30) {
        (104, 60..=64) => "MI210",
        (110, 60..=64) => "MI250X",
        (228, 100..=128) => "MI300A",
        (304, 180..=192) => "MI300X",
        (304, 240..=256) => "MI325X",
        _ => return None,
    };
    peak_of(name)
}

const H100_SHEET: &str = "NVIDIA H100 Tensor Core GPU data sheet, 2024";
const H100_PAPER: &str = "NVIDIA H100 Tensor Core GPU architecture white paper, 2023";
const GH200_SHEET: &str = "NVIDIA GH200 Grace Hopper Superchip data sheet, 2024";
const B200_SHEET: &str = "NVIDIA HGX B200 data sheet, 2025: an eighth of the board";
const GB200_SHEET: &str = "NVIDIA GB200 NVL72 data sheet, 2024: a 72nd of the rack";
const B300_SHEET: &str = "NVIDIA HGX B300 data sheet, 2025: an eighth of the board";
const DGXS_SHEET: &str = "NVIDIA DGX Station data sheet, 2018: a quarter of it";
const TURING_PAPER: &str = "NVIDIA Turing GPU architecture white paper, 2018";
const BLACKWELL_PAPER: &str = "NVIDIA RTX Blackwell GPU architecture white paper, 2025";
const MI300X_SHEET: &str = "AMD Instinct MI300X data sheet, 2023";
const MI300A_SHEET: &str = "AMD Instinct MI300A data sheet, 2023";
const MI325X_SHEET: &str = "AMD Instinct MI325X data sheet, 2024";
const MI355X_SHEET: &str = "AMD Instinct MI355X data sheet, 2025";
const MI350X_SHEET: &str = "AMD Instinct MI350X data sheet, 2025";
const MI250X_SHEET: &str = "AMD Instinct MI250X data sheet, 2021: half of it";
const MI250_SHEET: &str = "AMD Instinct MI250 data sheet, 2021: half of it";
const H200_SHEET: &str = "NVIDIA H200 Tensor Core GPU data sheet, 2024";
const A100_SHEET: &str = "NVIDIA A100 Tensor Core GPU data sheet, 2021";
const V100_SHEET: &str = "NVIDIA V100 Tensor Core GPU data sheet, 2020";
const P100_SHEET: &str = "NVIDIA Tesla P100 data sheet, 2016";
const GA102_PAPER: &str = "NVIDIA Ampere GA102 GPU architecture white paper, 2021";
const ADA_PAPER: &str = "NVIDIA Ada GPU architecture white paper, 2023";
/// No such unit, or no word of it in the data sheet.
const NO: f64 = 0.0;

/// The first row whose words are all in a name is the one.
const PEAKS: &[Peak] = &[
    // Name, words of it, TB/s, TFLOP/s of f64, f32, tf32, f16, bf16, f8, f4 and TOP/s of i8, source.
    row("H100 PCIe", "H100 PCIE", 2.0, [51.0, 51.0, 378.0, 756.5, 756.5, 1513.0, NO, 1513.0], H100_PAPER),
    row("H100 NVL", "H100 NVL", 3.9, [60.0, 60.0, 417.5, 835.5, 835.5, 1670.5, NO, 1670.5], H100_SHEET),
    row("H100 SXM5", "H100", 3.35, [67.0, 67.0, 494.7, 989.4, 989.4, 1978.9, NO, 1978.9], H100_PAPER),
    row("H200 NVL", "H200 NVL", 4.8, [60.0, 60.0, 417.5, 835.5, 835.5, 1670.5, NO, 1670.5], H200_SHEET),
    row("H200 SXM", "H200", 4.8, [67.0, 67.0, 494.7, 989.4, 989.4, 1978.9, NO, 1978.9], H200_SHEET),
    row("GH200 144 GB", "GH200 144G", 4.9, [67.0, 67.0, 494.7, 989.4, 989.4, 1978.9, NO, 1978.9], GH200_SHEET),
    row("GH200", "GH200", 4.0, [67.0, 67.0, 494.7, 989.4, 989.4, 1978.9, NO, 1978.9], GH200_SHEET),
    row("B200", "B200", 7.7, [37.0, 75.0, 1125.0, 2250.0, 2250.0, 4500.0, 9000.0, 4500.0], B200_SHEET),
    row("GB200", "GB200", 8.0, [40.0, 80.0, 1250.0, 2500.0, 2500.0, 5000.0, 10_000.0, 5000.0], GB200_SHEET),
    row("B300", "B300", 8.0, [1.25, 75.0, 1125.0, 2250.0, 2250.0, 4500.0, 13_500.0, NO], B300_SHEET),
    row("A100 80 GB PCIe", "A100 80GB PCIE", 1.935, [19.5, 19.5, 156.0, 312.0, 312.0, NO, NO, 624.0], A100_SHEET),
    row("A100 80 GB SXM4", "A100 80GB", 2.039, [19.5, 19.5, 156.0, 312.0, 312.0, NO, NO, 624.0], A100_SHEET),
    row("A100 40 GB", "A100 40GB", 1.555, [19.5, 19.5, 156.0, 312.0, 312.0, NO, NO, 624.0], A100_SHEET),
    // The board of the 40 GB module, whose name has no size.
    row("A100 40 GB", "A100 PG509", 1.555, [19.5, 19.5, 156.0, 312.0, 312.0, NO, NO, 624.0], A100_SHEET),
    row("A10", "A10", 0.6, [NO, 31.2, 62.5, 125.0, 125.0, NO, NO, 250.0], "NVIDIA A10 data sheet, 2021"),
    row("A10G", "A10G", 0.6, [NO, 35.0, 35.0, 70.0, 70.0, NO, NO, 140.0], "NVIDIA A10G data sheet, 2021"),
    row("A30", "A30", 0.933, [10.3, 10.3, 82.0, 165.0, 165.0, NO, NO, 330.0], "NVIDIA A30 data sheet, 2021"),
    row("A40", "A40", 0.696, [NO, 37.4, 74.8, 149.7, 149.7, NO, NO, 299.3], "NVIDIA A40 data sheet, 2021"),
    row("L4", "L4", 0.3, [NO, 30.3, 60.0, 121.0, 121.0, 242.5, NO, 242.5], "NVIDIA L4 data sheet, 2023"),
    row("L40", "L40", 0.864, [NO, 90.5, 90.5, 181.05, 181.05, 362.0, NO, 362.0], "NVIDIA L40 data sheet, 2023"),
    row("L40S", "L40S", 0.864, [NO, 91.6, 183.0, 362.05, 362.05, 733.0, NO, 733.0], "NVIDIA L40S data sheet, 2023"),
    row("V100S PCIe", "V100S", 1.134, [8.2, 16.4, NO, 130.0, NO, NO, NO, NO], V100_SHEET),
    row("V100 PCIe", "V100 PCIE", 0.9, [7.0, 14.0, NO, 112.0, NO, NO, NO, NO], V100_SHEET),
    row("V100 SXM2", "V100 SXM2", 0.9, [7.8, 15.7, NO, 125.0, NO, NO, NO, NO], V100_SHEET),
    row("V100 DGX Station", "V100 DGXS", 0.9, [7.8, 15.7, NO, 125.0, NO, NO, NO, NO], DGXS_SHEET),
    row("T4", "T4", 0.32, [NO, 8.1, NO, 65.0, NO, NO, NO, 130.0], "NVIDIA T4 Tensor Core GPU product brief, 2020"),
    row("P100 PCIe 12 GB", "P100 PCIE 12GB", 0.549, [4.7, 9.3, NO, 18.7, NO, NO, NO, NO], P100_SHEET),
    row("P100 PCIe", "P100 PCIE", 0.732, [4.7, 9.3, NO, 18.7, NO, NO, NO, NO], P100_SHEET),
    row("P100 SXM2", "P100 SXM2", 0.732, [5.3, 10.6, NO, 21.2, NO, NO, NO, NO], P100_SHEET),
    row("RTX 2080 Ti", "RTX 2080 TI", 0.616, [NO, 13.4, NO, 53.8, NO, NO, NO, 215.2], TURING_PAPER),
    row("RTX 3090", "RTX 3090", 0.936, [NO, 35.6, 35.6, 71.2, 71.2, NO, NO, 284.7], GA102_PAPER),
    row("RTX 3090 Ti", "RTX 3090 TI", 1.008, [NO, 40.0, 40.0, 80.0, 80.0, NO, NO, 320.0], ADA_PAPER),
    row("RTX 4090", "RTX 4090", 1.008, [NO, 82.6, 82.6, 165.2, 165.2, 330.3, NO, 660.6], ADA_PAPER),
    row("RTX 5090", "RTX 5090", 1.792, [NO, 104.8, 104.8, 209.5, 209.5, 419.0, 1676.0, 838.0], BLACKWELL_PAPER),
    row("RTX A6000", "RTX A6000", 0.768, [NO, 38.7, 77.4, 154.8, 154.8, NO, NO, 309.7], GA102_PAPER),
    row("RTX 6000 Ada", "RTX 6000 ADA", 0.96, [NO, 91.1, 182.1, 364.2, 364.2, 728.5, NO, 728.5], ADA_PAPER),
    row(
        "MI210",
        "MI210",
        1.638,
        [45.3, 45.3, NO, 181.0, 181.0, NO, NO, 181.0],
        "AMD Instinct MI210 data sheet, 2022",
    ),
    // The driver shows each half as a GPU. Where it names both models, the larger one's peaks are meant.
    row("MI250X, half", "MI250X", 1.638, [47.9, 47.9, NO, 191.5, 191.5, NO, NO, 191.5], MI250X_SHEET),
    row("MI250, half", "MI250", 1.638, [45.3, 45.3, NO, 181.0, 181.0, NO, NO, 181.0], MI250_SHEET),
    row("MI300X", "MI300X", 5.3, [163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, NO, 2614.9], MI300X_SHEET),
    row("MI300A", "MI300A", 5.3, [122.6, 122.6, 490.3, 980.6, 980.6, 1961.2, NO, 1961.2], MI300A_SHEET),
    row("MI325X", "MI325X", 6.0, [163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, NO, 2614.9], MI325X_SHEET),
    row("MI355X", "MI355X", 8.0, [78.6, 157.3, NO, 2516.6, 2516.6, 5033.2, 10_066.3, 5033.2], MI355X_SHEET),
    row("MI350X", "MI350X", 8.0, [72.1, 144.2, NO, 2306.9, 2306.9, 4613.7, 9227.5, 4613.7], MI350X_SHEET),
];

const fn row(
    name: &'static str,
    words: &'static str,
    tb_per_s: f64,
    dense: [f64; FORMATS.len()],
    source: &'static str,
) -> Peak {
    Peak { name, tb_per_s, source, words, dense }
}
