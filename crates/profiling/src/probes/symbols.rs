//! The functions of CUDA and HIP that are counted.

use trainmon_sample::probe_counts::GpuCallKind;

/// Which library a function is part of: the runtime calls the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallLayer {
    /// `cuda…`, `hip…`.
    Runtime,
    /// `cu…`.
    Driver,
}

/// Functions whose calls are counted. Versions (`_v2`) and forms for other default streams (`_ptsz`, `_ptds`) are the same calls.
const KNOWN_CALLS: &[(GpuCallKind, &[&str])] = &[
    (
        GpuCallKind::Launch,
        &[
            "cudaLaunchKernel",
            "cudaLaunchKernelExC",
            "cudaLaunchCooperativeKernel",
            "cuLaunchKernel",
            "cuLaunchKernelEx",
            "cuLaunchCooperativeKernel",
            "hipLaunchKernel",
            "hipLaunchKernelExC",
            "hipExtLaunchKernel",
            "hipLaunchCooperativeKernel",
            "hipModuleLaunchKernel",
            "hipExtModuleLaunchKernel",
        ],
    ),
    (GpuCallKind::GraphLaunch, &["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"]),
    (
        GpuCallKind::Sync,
        &[
            "cudaDeviceSynchronize",
            "cudaStreamSynchronize",
            "cudaEventSynchronize",
            "cuCtxSynchronize",
            "cuStreamSynchronize",
            "cuEventSynchronize",
            "hipDeviceSynchronize",
            "hipStreamSynchronize",
            "hipEventSynchronize",
        ],
    ),
    (
        GpuCallKind::Copy,
        &[
            "cudaMemcpy",
            "cudaMemcpyAsync",
            "cudaMemcpy2D",
            "cudaMemcpy2DAsync",
            "cudaMemcpy3D",
            "cudaMemcpy3DAsync",
            "cudaMemcpyPeer",
            "cudaMemcpyPeerAsync",
            "cuMemcpy",
            "cuMemcpyAsync",
            "cuMemcpyHtoD",
            "cuMemcpyHtoDAsync",
            "cuMemcpyDtoH",
            "cuMemcpyDtoHAsync",
            "cuMemcpyDtoD",
            "cuMemcpyDtoDAsync",
            "cuMemcpyPeer",
            "cuMemcpyPeerAsync",
            "cuMemcpy2D",
            "cuMemcpy2DUnaligned",
            "cuMemcpy2DAsync",
            "cuMemcpy3D",
            "cuMemcpy3DAsync",
            "hipMemcpy",
            "hipMemcpyAsync",
            "hipMemcpyWithStream",
            "hipMemcpyHtoD",
            "hipMemcpyHtoDAsync",
            "hipMemcpyDtoH",
            "hipMemcpyDtoHAsync",
            "hipMemcpyDtoD",
            "hipMemcpyDtoDAsync",
            "hipMemcpyPeer",
            "hipMemcpyPeerAsync",
            "hipMemcpy2D",
            "hipMemcpy2DAsync",
        ],
    ),
    (
        GpuCallKind::Allocation,
        &[
            "cudaMalloc",
            "cudaMallocAsync",
            "cudaMallocHost",
            "cudaHostAlloc",
            "cudaFree",
            "cudaFreeAsync",
            "cudaFreeHost",
            "cuMemAlloc",
            "cuMemAllocAsync",
            "cuMemHostAlloc",
            "cuMemAllocHost",
            "cuMemCreate",
            "cuMemRelease",
            "cuMemFree",
            "cuMemFreeAsync",
            "cuMemFreeHost",
            "hipMalloc",
            "hipMallocAsync",
            "hipHostMalloc",
            "hipFree",
            "hipFreeAsync",
            "hipHostFree",
        ],
    ),
];

/// A function that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownCall {
    /// What it does.
    pub kind: GpuCallKind,
    /// Whose it is.
    pub layer: CallLayer,
    /// Its name without version and form.
    pub name: &'static str,
}

/// The call that a symbol is.
pub(crate) fn known_call(symbol: &[u8]) -> Option<KnownCall> {
    let symbol = std::str::from_utf8(symbol).ok()?;
    let plain = symbol.strip_suffix("_ptsz").or(symbol.strip_suffix("_ptds")).unwrap_or(symbol);
    let versioned = plain.rsplit_once("_v").filter(|(_, version)| version.bytes().all(|byte| byte.is_ascii_digit()));
    let plain = versioned.map_or(plain, |(name, _)| name);
    KNOWN_CALLS.iter().find_map(|(kind, names)| {
        let name = names.iter().find(|name| **name == plain)?;
        let of_runtime = name.starts_with("cuda") || name.starts_with("hip");
        let layer = if of_runtime { CallLayer::Runtime } else { CallLayer::Driver };
        Some(KnownCall { kind: *kind, layer, name })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_forms_are_the_same_call() {
        for (symbol, known) in [
            ("cudaLaunchKernel", Some(("cudaLaunchKernel", GpuCallKind::Launch, CallLayer::Runtime))),
            ("cudaLaunchKernel_ptsz", Some(("cudaLaunchKernel", GpuCallKind::Launch, CallLayer::Runtime))),
            ("cuMemcpyHtoDAsync_v2_ptsz", Some(("cuMemcpyHtoDAsync", GpuCallKind::Copy, CallLayer::Driver))),
            ("cuMemAlloc_v2", Some(("cuMemAlloc", GpuCallKind::Allocation, CallLayer::Driver))),
            ("hipStreamSynchronize", Some(("hipStreamSynchronize", GpuCallKind::Sync, CallLayer::Runtime))),
            ("cuMemcpyHtoDAsync_vx", None),
            ("cudaLaunchKernelX", None),
            ("cudaStreamQuery", None),
            ("", None),
        ] {
            let found = known_call(symbol.as_bytes()).map(|call| (call.name, call.kind, call.layer));
            assert_eq!(found, known, "{symbol}");
        }
        assert_eq!(known_call(b"cuda\xff"), None);
    }
}
