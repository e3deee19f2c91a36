//! What GPUs can do at most: operations per second without sparsity, by the format of the numbers, and bytes per second of their
//! memory. From the vendors' data sheets; where those name only the speed with sparsity, half of it.
//!
//! Long because it is one table, with a row for each GPU.
//!
//! Products of matrices run on the matrix units where a format has them: `f32` of NVIDIA's has none (TF32 does), `f32` and `f64` of
//! AMD's have. Half precision adds up in single precision, like torch's libraries, which halves the peak of GeForce GPUs.

use super::NumberFormat;

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
    words: &'static [&'static str],
    /// TFLOP/s, or TOP/s of integers.
    dense: &'static [(NumberFormat, f64)],
}

impl Peak {
    /// TFLOP/s of matrix products without sparsity, or TOP/s of integers; `None` where the GPU has no such unit or its data sheet
    /// says nothing.
    pub fn tflops(&self, number: NumberFormat) -> Option<f64> {
        self.dense.iter().find(|(format, _)| *format == number).map(|(_, tflops)| *tflops)
    }
}

/// The peaks of a GPU by its name, as NVML, CUDA or HIP report it: `NVIDIA A100-SXM4-80GB`. `None` for GPUs that are not in the table
/// and for parts of a GPU (MIG, vGPU).
pub fn peak_of(device_name: &str) -> Option<&'static Peak> {
    const LONGEST_NAME: usize = 256;
    if device_name.len() > LONGEST_NAME {
        return None;
    }
    let name = device_name.to_ascii_uppercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    // Others with the same number: Max-Q, RTX 4090 D, RTX 4090 Laptop, RTX 3090 Ti unless the row is its own.
    let is_other =
        |word: &&&str| ["MIG", "LAPTOP", "MOBILE", "MAX", "D", "SUPER", "GRID"].contains(*word) || is_virtual(word);
    if words.iter().any(|word| is_other(&word)) {
        return None;
    }
    let is_ti = words.contains(&"TI");
    PEAKS
        .iter()
        .find(|peak| peak.words.iter().all(|word| words.contains(word)) && is_ti == peak.words.contains(&"TI"))
}

/// Whether a word is the profile of a virtual GPU: `48Q`.
fn is_virtual(word: &str) -> bool {
    word.strip_suffix(['A', 'B', 'C', 'Q'])
        .is_some_and(|size| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The peaks of an AMD GPU to which the driver gives no name of its own (an empty one, or `AMD Radeon Graphics`), by its compute units
/// and the bytes of its memory.
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

use NumberFormat::{Bf16, F4, F8, F16, F32, F64, I8, Tf32};

const HOPPER_SXM: &[(NumberFormat, f64)] =
    &[(F64, 67.0), (F32, 67.0), (Tf32, 494.7), (F16, 989.4), (Bf16, 989.4), (F8, 1978.9), (I8, 1978.9)];
const HOPPER_NVL: &[(NumberFormat, f64)] =
    &[(F64, 60.0), (F32, 60.0), (Tf32, 417.5), (F16, 835.5), (Bf16, 835.5), (F8, 1670.5), (I8, 1670.5)];
const A100: &[(NumberFormat, f64)] =
    &[(F64, 19.5), (F32, 19.5), (Tf32, 156.0), (F16, 312.0), (Bf16, 312.0), (I8, 624.0)];
const MI300X: &[(NumberFormat, f64)] =
    &[(F64, 163.4), (F32, 163.4), (Tf32, 653.7), (F16, 1307.4), (Bf16, 1307.4), (F8, 2614.9), (I8, 2614.9)];
const V100_SXM: &[(NumberFormat, f64)] = &[(F64, 7.8), (F32, 15.7), (F16, 125.0)];
const GRACE_BLACKWELL: &[(NumberFormat, f64)] = &[
    (F64, 40.0),
    (F32, 80.0),
    (Tf32, 1250.0),
    (F16, 2500.0),
    (Bf16, 2500.0),
    (F8, 5000.0),
    (I8, 5000.0),
    (F4, 10_000.0),
];

/// The first row whose words are all in a name is the one.
const PEAKS: &[Peak] = &[
    Peak {
        name: "H100 PCIe",
        words: &["H100", "PCIE"],
        tb_per_s: 2.0,
        dense: &[(F64, 51.0), (F32, 51.0), (Tf32, 378.0), (F16, 756.5), (Bf16, 756.5), (F8, 1513.0), (I8, 1513.0)],
        source: "NVIDIA H100 Tensor Core GPU data sheet, 2022",
    },
    Peak {
        name: "H100 NVL",
        words: &["H100", "NVL"],
        tb_per_s: 3.9,
        dense: HOPPER_NVL,
        source: "NVIDIA H100 Tensor Core GPU data sheet, 2024",
    },
    Peak {
        name: "H100 SXM5",
        words: &["H100"],
        tb_per_s: 3.35,
        dense: HOPPER_SXM,
        source: "NVIDIA H100 Tensor Core GPU data sheet, 2022, and architecture white paper, 2023",
    },
    Peak {
        name: "H200 NVL",
        words: &["H200", "NVL"],
        tb_per_s: 4.8,
        dense: HOPPER_NVL,
        source: "NVIDIA H200 Tensor Core GPU data sheet, 2024",
    },
    Peak {
        name: "H200 SXM",
        words: &["H200"],
        tb_per_s: 4.8,
        dense: HOPPER_SXM,
        source: "NVIDIA H200 Tensor Core GPU data sheet, 2024",
    },
    Peak {
        name: "GH200 144 GB",
        words: &["GH200", "144G"],
        tb_per_s: 4.9,
        dense: HOPPER_SXM,
        source: "NVIDIA GH200 Grace Hopper Superchip data sheet, 2024",
    },
    Peak {
        name: "GH200",
        words: &["GH200"],
        tb_per_s: 4.0,
        dense: HOPPER_SXM,
        source: "NVIDIA GH200 Grace Hopper Superchip data sheet, 2023",
    },
    Peak {
        name: "B200",
        words: &["B200"],
        tb_per_s: 7.7,
        dense: &[
            (F64, 37.0),
            (F32, 75.0),
            (Tf32, 1125.0),
            (F16, 2250.0),
            (Bf16, 2250.0),
            (F8, 4500.0),
            (I8, 4500.0),
            (F4, 9000.0),
        ],
        source: "NVIDIA HGX B200 data sheet, 2025, an eighth of the board",
    },
    Peak {
        name: "GB200",
        words: &["GB200"],
        tb_per_s: 8.0,
        dense: GRACE_BLACKWELL,
        source: "NVIDIA GB200 NVL72 data sheet, 2024, half of a superchip",
    },
    Peak {
        name: "B300",
        words: &["B300"],
        tb_per_s: 8.0,
        dense: &[
            (F64, 1.25),
            (F32, 75.0),
            (Tf32, 1125.0),
            (F16, 2250.0),
            (Bf16, 2250.0),
            (F8, 4500.0),
            (F4, 13_500.0),
        ],
        source: "NVIDIA HGX B300 data sheet, 2025, an eighth of the board",
    },
    Peak {
        name: "A100 80 GB PCIe",
        words: &["A100", "80GB", "PCIE"],
        tb_per_s: 1.935,
        dense: A100,
        source: "NVIDIA A100 Tensor Core GPU data sheet, 2021",
    },
    Peak {
        name: "A100 80 GB SXM4",
        words: &["A100", "80GB"],
        tb_per_s: 2.039,
        dense: A100,
        source: "NVIDIA A100 Tensor Core GPU data sheet, 2021",
    },
    Peak {
        name: "A100 40 GB",
        words: &["A100", "40GB"],
        tb_per_s: 1.555,
        dense: A100,
        source: "NVIDIA A100 Tensor Core GPU data sheet, 2020",
    },
    // The board of the 40 GB module, whose name has no size.
    Peak {
        name: "A100 40 GB",
        words: &["A100", "PG509"],
        tb_per_s: 1.555,
        dense: A100,
        source: "NVIDIA A100 Tensor Core GPU data sheet, 2020",
    },
    Peak {
        name: "A10",
        words: &["A10"],
        tb_per_s: 0.6,
        dense: &[(F32, 31.2), (Tf32, 62.5), (F16, 125.0), (Bf16, 125.0), (I8, 250.0)],
        source: "NVIDIA A10 data sheet, 2021",
    },
    Peak {
        name: "A10G",
        words: &["A10G"],
        tb_per_s: 0.6,
        dense: &[(F32, 35.0), (Tf32, 35.0), (F16, 70.0), (Bf16, 70.0), (I8, 140.0)],
        source: "NVIDIA A10G data sheet, 2021",
    },
    Peak {
        name: "A30",
        words: &["A30"],
        tb_per_s: 0.933,
        dense: &[(F64, 10.3), (F32, 10.3), (Tf32, 82.0), (F16, 165.0), (Bf16, 165.0), (I8, 330.0)],
        source: "NVIDIA A30 data sheet, 2021",
    },
    Peak {
        name: "A40",
        words: &["A40"],
        tb_per_s: 0.696,
        dense: &[(F32, 37.4), (Tf32, 74.8), (F16, 149.7), (Bf16, 149.7), (I8, 299.3)],
        source: "NVIDIA A40 data sheet, 2021",
    },
    Peak {
        name: "L4",
        words: &["L4"],
        tb_per_s: 0.3,
        dense: &[(F32, 30.3), (Tf32, 60.0), (F16, 121.0), (Bf16, 121.0), (F8, 242.5), (I8, 242.5)],
        source: "NVIDIA L4 data sheet, 2023",
    },
    Peak {
        name: "L40",
        words: &["L40"],
        tb_per_s: 0.864,
        dense: &[(F32, 90.5), (Tf32, 90.5), (F16, 181.05), (Bf16, 181.05), (F8, 362.0), (I8, 362.0)],
        source: "NVIDIA L40 data sheet, 2023",
    },
    Peak {
        name: "L40S",
        words: &["L40S"],
        tb_per_s: 0.864,
        dense: &[(F32, 91.6), (Tf32, 183.0), (F16, 362.05), (Bf16, 362.05), (F8, 733.0), (I8, 733.0)],
        source: "NVIDIA L40S data sheet, 2023",
    },
    Peak {
        name: "V100S PCIe",
        words: &["V100S"],
        tb_per_s: 1.134,
        dense: &[(F64, 8.2), (F32, 16.4), (F16, 130.0)],
        source: "NVIDIA V100 Tensor Core GPU data sheet, 2020",
    },
    Peak {
        name: "V100 PCIe",
        words: &["V100", "PCIE"],
        tb_per_s: 0.9,
        dense: &[(F64, 7.0), (F32, 14.0), (F16, 112.0)],
        source: "NVIDIA V100 Tensor Core GPU data sheet, 2020",
    },
    Peak {
        name: "V100 SXM2",
        words: &["V100", "SXM2"],
        tb_per_s: 0.9,
        dense: V100_SXM,
        source: "NVIDIA V100 Tensor Core GPU data sheet, 2020",
    },
    Peak {
        name: "V100 DGX Station",
        words: &["V100", "DGXS"],
        tb_per_s: 0.9,
        dense: V100_SXM,
        source: "NVIDIA DGX Station data sheet, 2018: 500 TFLOPS of four, and V100 data sheet",
    },
    Peak {
        name: "T4",
        words: &["T4"],
        tb_per_s: 0.32,
        dense: &[(F32, 8.1), (F16, 65.0), (I8, 130.0)],
        source: "NVIDIA T4 Tensor Core GPU product brief, 2020",
    },
    Peak {
        name: "P100 PCIe 12 GB",
        words: &["P100", "PCIE", "12GB"],
        tb_per_s: 0.549,
        dense: &[(F64, 4.7), (F32, 9.3), (F16, 18.7)],
        source: "NVIDIA Tesla P100 data sheet, 2016",
    },
    Peak {
        name: "P100 PCIe",
        words: &["P100", "PCIE"],
        tb_per_s: 0.732,
        dense: &[(F64, 4.7), (F32, 9.3), (F16, 18.7)],
        source: "NVIDIA Tesla P100 data sheet, 2016",
    },
    Peak {
        name: "P100 SXM2",
        words: &["P100", "SXM2"],
        tb_per_s: 0.732,
        dense: &[(F64, 5.3), (F32, 10.6), (F16, 21.2)],
        source: "NVIDIA Tesla P100 data sheet, 2016",
    },
    Peak {
        name: "RTX 2080 Ti",
        words: &["RTX", "2080", "TI"],
        tb_per_s: 0.616,
        dense: &[(F32, 13.4), (F16, 53.8), (I8, 215.2)],
        source: "NVIDIA Turing GPU architecture white paper, 2018",
    },
    Peak {
        name: "RTX 3090",
        words: &["RTX", "3090"],
        tb_per_s: 0.936,
        dense: &[(F32, 35.6), (Tf32, 35.6), (F16, 71.2), (Bf16, 71.2), (I8, 284.7)],
        source: "NVIDIA Ampere GA102 GPU architecture white paper, 2021",
    },
    Peak {
        name: "RTX 3090 Ti",
        words: &["RTX", "3090", "TI"],
        tb_per_s: 1.008,
        dense: &[(F32, 40.0), (Tf32, 40.0), (F16, 80.0), (Bf16, 80.0), (I8, 320.0)],
        source: "NVIDIA Ada GPU architecture white paper, 2023",
    },
    Peak {
        name: "RTX 4090",
        words: &["RTX", "4090"],
        tb_per_s: 1.008,
        dense: &[(F32, 82.6), (Tf32, 82.6), (F16, 165.2), (Bf16, 165.2), (F8, 330.3), (I8, 660.6)],
        source: "NVIDIA Ada GPU architecture white paper, 2023",
    },
    Peak {
        name: "RTX 5090",
        words: &["RTX", "5090"],
        tb_per_s: 1.792,
        dense: &[(F32, 104.8), (Tf32, 104.8), (F16, 209.5), (Bf16, 209.5), (F8, 419.0), (I8, 838.0), (F4, 1676.0)],
        source: "NVIDIA RTX Blackwell GPU architecture white paper, 2025",
    },
    Peak {
        name: "RTX A6000",
        words: &["RTX", "A6000"],
        tb_per_s: 0.768,
        dense: &[(F32, 38.7), (Tf32, 77.4), (F16, 154.8), (Bf16, 154.8), (I8, 309.7)],
        source: "NVIDIA Ampere GA102 GPU architecture white paper, 2021",
    },
    Peak {
        name: "RTX 6000 Ada",
        words: &["RTX", "6000", "ADA"],
        tb_per_s: 0.96,
        dense: &[(F32, 91.1), (Tf32, 182.1), (F16, 364.2), (Bf16, 364.2), (F8, 728.5), (I8, 728.5)],
        source: "NVIDIA Ada GPU architecture white paper, 2023",
    },
    Peak {
        name: "MI210",
        words: &["MI210"],
        tb_per_s: 1.638,
        dense: &[(F64, 45.3), (F32, 45.3), (F16, 181.0), (Bf16, 181.0), (I8, 181.0)],
        source: "AMD Instinct MI210 data sheet, 2022",
    },
    // The driver shows each half as a GPU. Where it names both models, the larger one's peaks are meant.
    Peak {
        name: "MI250X (one of its two dies)",
        words: &["MI250X"],
        tb_per_s: 1.638,
        dense: &[(F64, 47.9), (F32, 47.9), (F16, 191.5), (Bf16, 191.5), (I8, 191.5)],
        source: "AMD Instinct MI250X data sheet, 2021, half of it",
    },
    Peak {
        name: "MI250 (one of its two dies)",
        words: &["MI250"],
        tb_per_s: 1.638,
        dense: &[(F64, 45.3), (F32, 45.3), (F16, 181.0), (Bf16, 181.0), (I8, 181.0)],
        source: "AMD Instinct MI250 data sheet, 2021, half of it",
    },
    Peak {
        name: "MI300X",
        words: &["MI300X"],
        tb_per_s: 5.3,
        dense: MI300X,
        source: "AMD Instinct MI300X data sheet, 2023",
    },
    Peak {
        name: "MI300A",
        words: &["MI300A"],
        tb_per_s: 5.3,
        dense: &[(F64, 122.6), (F32, 122.6), (Tf32, 490.3), (F16, 980.6), (Bf16, 980.6), (F8, 1961.2), (I8, 1961.2)],
        source: "AMD Instinct MI300A data sheet, 2023",
    },
    Peak {
        name: "MI325X",
        words: &["MI325X"],
        tb_per_s: 6.0,
        dense: MI300X,
        source: "AMD Instinct MI325X data sheet, 2024",
    },
    Peak {
        name: "MI355X",
        words: &["MI355X"],
        tb_per_s: 8.0,
        dense: &[
            (F64, 78.6),
            (F32, 157.3),
            (F16, 2516.6),
            (Bf16, 2516.6),
            (F8, 5033.2),
            (I8, 5033.2),
            (F4, 10_066.3),
        ],
        source: "AMD Instinct MI355X data sheet, 2025",
    },
    Peak {
        name: "MI350X",
        words: &["MI350X"],
        tb_per_s: 8.0,
        dense: &[(F64, 72.1), (F32, 144.2), (F16, 2306.9), (Bf16, 2306.9), (F8, 4613.7), (I8, 4613.7), (F4, 9227.5)],
        source: "AMD Instinct MI350X data sheet, 2025",
    },
];
