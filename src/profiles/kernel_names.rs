//! Names of kernels as a person reads them.

/// Whether a kernel is a collective, by its raw name.
pub fn is_collective(raw: &str) -> bool {
    let lower = raw.to_ascii_lowercase();
    ["nccl", "rccl", "allreduce", "allgather", "reducescatter", "sendrecv"].iter().any(|word| lower.contains(word))
}

/// A kernel as a person reads it.
pub struct KernelName {
    /// Its name.
    pub readable: String,
}

/// The name of a kernel.
pub fn kernel_name(raw: &str) -> KernelName {
    KernelName { readable: raw.chars().take(48).collect() }
}
