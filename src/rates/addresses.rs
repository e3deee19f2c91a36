//! In what kind of code the threads spent their CPU time: their sampled instruction pointers, by the library that they fell
//! into.
//!
//! The clock behind the samples counts a thread's time on a CPU and drops what falls into the kernel, so the number of
//! samples is the time that the thread computed outside of it.
//!
//! Nothing is decided by them yet; samples, frames and recordings hold them. What they are to tell is a host that waits
//! for the device by spinning, which looks like work: of such a thread's samples libcuda had 36 % and the vdso, whose clock it
//! asks in between, 57 %.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::threads::ThreadRates;
use crate::sample::{AddressesSample, ProcessId, ThreadAddresses};
use crate::text::named_enum;

named_enum! {
    /// Kind of library.
    pub enum LibraryKind {
        /// The CUDA driver's part in the process.
        CudaDriver = "cuda-driver",
        /// The kernel's clocks in user space: who polls for an end asks for the time in between.
        Vdso = "vdso",
        /// torch.
        Torch = "torch",
        /// The interpreter.
        Python = "python",
        /// Pictures, sound and video.
        Decode = "decode",
        /// Compression.
        Compress = "compress",
        /// Arithmetic on the host: NumPy, BLAS, OpenMP.
        Numeric = "numeric",
        /// The C library.
        Libc = "libc",
        /// Anything else, and code without a file.
        Other = "other",
    }
}

/// Beginnings of file names, then folders that a path goes through; the first that fits counts.
const NAMES: &[(LibraryKind, &[&str])] = &[
    (LibraryKind::Vdso, &["[vdso]", "[vsyscall]"]),
    (LibraryKind::CudaDriver, &["libcuda.", "libnvidia-"]),
    (LibraryKind::Torch, &["libtorch", "libc10", "libcaffe2"]),
    (LibraryKind::Python, &["libpython", "python3", "python2", "pypy3", "libpypy"]),
    (
        LibraryKind::Decode,
        &[
            "libjpeg",
            "libturbojpeg",
            "libpng",
            "libwebp",
            "libtiff",
            "libopenjp2",
            "libavif",
            "_imaging",
            "_webp",
            "cv2.",
            "libopencv",
            "libavcodec",
            "libavformat",
            "libavutil",
            "libavfilter",
            "libswscale",
            "libswresample",
            "libsndfile",
            "libFLAC",
            "libvorbis",
            "libopus",
            "libmpg123",
            "libdecord",
            "libtorchcodec",
            "libnvjpeg",
        ],
    ),
    (
        LibraryKind::Compress,
        &[
            "libz.",
            "libz-",
            "zlib.",
            "libzstd",
            "_zstd",
            "liblzma",
            "_lzma",
            "liblz4",
            "libbz2",
            "_bz2",
            "libbrotli",
            "_brotli",
            "libsnappy",
            "libdeflate",
            "libblosc",
        ],
    ),
    (
        LibraryKind::Numeric,
        &[
            "libopenblas",
            "libscipy_openblas",
            "libmkl",
            "libblas",
            "libcblas",
            "liblapack",
            "libblis",
            "libgomp",
            "libiomp",
            "libomp",
            "_multiarray_umath",
            "libgfortran",
            "libquadmath",
        ],
    ),
    (
        LibraryKind::Libc,
        &["libc.", "libc-", "libm.", "libm-", "libmvec", "libpthread", "ld-linux", "ld-musl", "ld-2"],
    ),
];
const FOLDERS: &[(LibraryKind, &str)] = &[
    (LibraryKind::Decode, "/PIL/"),
    (LibraryKind::Decode, "/cv2/"),
    (LibraryKind::Numeric, "/numpy/"),
    (LibraryKind::Numeric, "/scipy/"),
    (LibraryKind::Torch, "/torch/"),
    (LibraryKind::Python, "/lib-dynload/"),
];

impl LibraryKind {
    /// Of a file as `/proc/PID/maps` names it.
    #[must_use]
    pub fn of(file: &str) -> Self {
        let name = file.rsplit('/').next().unwrap_or_default();
        let by_name = NAMES.iter().find(|(_, begins)| begins.iter().any(|begin| name.starts_with(begin)));
        let by_folder = || FOLDERS.iter().find(|(_, folder)| file.contains(folder)).map(|(kind, _)| *kind);
        by_name.map(|(kind, _)| *kind).or_else(by_folder).unwrap_or(Self::Other)
    }
}

/// In what kind of code one thread spent its time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadCode {
    /// Its process.
    pub process: ProcessId,
    /// TID.
    pub tid: u32,
    /// Samples that this rests on.
    pub samples: u32,
    /// Share of the interval that it computed outside of the kernel, 0–1.
    pub user: f64,
    /// Share of the interval that it was on a CPU, 0–1, where known.
    pub cpu: Option<f64>,
    /// Shares of the samples, 0–1; kinds without one are left out.
    pub shares: BTreeMap<LibraryKind, f64>,
}

/// The threads of a window, those without a sample left out; `threads` says how long each was on a CPU. Nothing where the
/// window is the one that the sample before had: then the source is late, and it has been counted.
pub(super) fn fold(
    before: Option<&AddressesSample>,
    sample: Option<&AddressesSample>,
    threads: &[ThreadRates],
) -> Vec<ThreadCode> {
    let is_stale = |sample: &AddressesSample| before.is_some_and(|before| before.monotonic_ns == sample.monotonic_ns);
    let Some(sample) = sample.filter(|sample| !is_stale(sample)) else { return Vec::new() };
    let kinds: Vec<LibraryKind> = sample.files.iter().map(|file| LibraryKind::of(file)).collect();
    let most = sample.window_ns as f64 / 1e9 * f64::from(sample.rate_hz);
    let of_thread = |thread: &ThreadAddresses| {
        let mut counts: BTreeMap<LibraryKind, u64> = BTreeMap::new();
        let rest = (thread.rest > 0).then_some((u32::MAX, thread.rest));
        for (file, count) in thread.files.iter().copied().chain(rest) {
            let kind = usize::try_from(file).ok().and_then(|at| kinds.get(at)).copied();
            *counts.entry(kind.unwrap_or(LibraryKind::Other)).or_default() += u64::from(count);
        }
        counts.retain(|_, count| *count > 0);
        let samples: u64 = counts.values().sum();
        let known = threads.iter().find(|known| known.tid == thread.tid && known.process == thread.process);
        (samples > 0 && most > 0.0).then(|| ThreadCode {
            process: thread.process,
            tid: thread.tid,
            samples: u32::try_from(samples).unwrap_or(u32::MAX),
            user: (samples as f64 / most).min(1.0),
            cpu: known.map(|known| f64::from(known.cpu_pct) / 100.0),
            shares: counts.into_iter().map(|(kind, count)| (kind, count as f64 / samples as f64)).collect(),
        })
    };
    sample.threads.iter().filter_map(of_thread).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_have_their_kind() {
        use LibraryKind as K;
        for (file, wanted) in [
            ("/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", K::CudaDriver),
            ("/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.550.54.15", K::CudaDriver),
            ("/opt/conda/lib/libcudart.so.12", K::Other),
            ("[vdso]", K::Vdso),
            ("/v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so", K::Torch),
            ("/v/lib/python3.11/site-packages/torch/lib/libc10.so", K::Torch),
            ("/v/lib/python3.11/site-packages/torch/_C.cpython-311-x86_64-linux-gnu.so", K::Torch),
            ("/v/lib/python3.11/site-packages/torch/lib/libgomp-a34b3233.so.1", K::Numeric),
            ("/usr/bin/python3.11", K::Python),
            ("/usr/lib/libpython3.12.so.1.0 (deleted)", K::Python),
            ("/v/lib/python3.11/site-packages/PIL/_imaging.cpython-311-x86_64-linux-gnu.so", K::Decode),
            ("/v/lib/python3.11/site-packages/pillow.libs/libjpeg-77ae51ab.so.62.4.0", K::Decode),
            ("/v/lib/python3.11/site-packages/pillow.libs/liblzma-13fa198c.so.5.4.5", K::Compress),
            ("/v/lib/python3.11/site-packages/cv2/cv2.abi3.so", K::Decode),
            ("/lib/libavcodec.so.60", K::Decode),
            ("/lib/x86_64-linux-gnu/libz.so.1.2.13", K::Compress),
            ("/lib/x86_64-linux-gnu/libzstd.so.1", K::Compress),
            ("/lib/libzmq.so.5", K::Other),
            ("/v/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so", K::Numeric),
            ("/v/numpy/random/mtrand.cpython-311-x86_64-linux-gnu.so", K::Numeric),
            ("/v/numpy.libs/libopenblas64_p-r0-0cf96a72.3.23.dev.so", K::Numeric),
            ("/lib/x86_64-linux-gnu/libc.so.6", K::Libc),
            ("/lib/x86_64-linux-gnu/libc-2.31.so", K::Libc),
            ("/lib/x86_64-linux-gnu/libm.so.6", K::Libc),
            ("/lib64/ld-linux-x86-64.so.2", K::Libc),
            ("", K::Other),
            ("/home/ann/train", K::Other),
        ] {
            assert_eq!(LibraryKind::of(file), wanted, "{file}");
        }
    }

    /// A window of a second, and a thread that ran for `cpu_pct` of it.
    fn thread(files: &[(&str, u32)], cpu_pct: f32) -> Option<ThreadCode> {
        let sample = AddressesSample {
            monotonic_ns: 2,
            window_ns: 1_000_000_000,
            rate_hz: 50,
            files: files.iter().map(|(file, _)| (*file).into()).collect(),
            threads: vec![ThreadAddresses {
                tid: 9,
                files: (0..).zip(files).map(|(at, (_, count))| (at, *count)).collect(),
                ..ThreadAddresses::default()
            }],
            ..AddressesSample::default()
        };
        let known = [ThreadRates { tid: 9, cpu_pct, ..ThreadRates::default() }];
        assert!(fold(Some(&sample), Some(&sample), &known).is_empty(), "counted already");
        fold(None, Some(&sample), &known).pop()
    }

    #[test]
    fn samples_are_shared_out_by_library() {
        let spinning =
            thread(&[("[vdso]", 28), ("/lib/libcuda.so.1", 18), ("/usr/bin/python3.11", 3)], 98.0).unwrap();
        assert_eq!((spinning.samples, spinning.user), (49, 0.98));
        assert!(spinning.cpu.is_some_and(|cpu| (cpu - 0.98).abs() < 1e-6));
        let shares = [(LibraryKind::CudaDriver, 18.0), (LibraryKind::Vdso, 28.0), (LibraryKind::Python, 3.0)];
        assert_eq!(spinning.shares, shares.map(|(kind, samples)| (kind, samples / 49.0)).into());
        assert_eq!(thread(&[], 50.0), None);
    }

    proptest! {
        #[test]
        fn shares_add_up_whatever_the_sample_says(
            files in proptest::collection::vec("(/[a-z/.]{0,12})?", 0..6),
            counts in proptest::collection::vec((0_u32..12, any::<u32>()), 0..8),
            rest: u32,
            window_ns: u64,
            rate_hz: u32,
        ) {
            let sample = AddressesSample {
                window_ns,
                rate_hz,
                files: files.iter().map(|file| file.as_str().into()).collect(),
                threads: vec![ThreadAddresses { files: counts, rest, ..ThreadAddresses::default() }],
                ..AddressesSample::default()
            };
            for thread in fold(None, Some(&sample), &[]) {
                prop_assert!((thread.shares.values().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert!((0.0..=1.0).contains(&thread.user) && thread.samples > 0);
                let json = serde_json::to_string(&thread).unwrap();
                let read: ThreadCode = serde_json::from_str(&json).unwrap();
                prop_assert_eq!(read.samples, thread.samples);
            }
        }
    }
}
