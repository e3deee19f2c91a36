//! What NVML does not tell and the host's files do: the memory of a GPU without its own, and the names of processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fields::keyed_number;
use crate::files::{KeptPath, read_once};

/// How often DCGM's process is searched for, nanoseconds.
const SEARCH_EVERY_NS: u64 = 60_000_000_000;
/// How the name of MPS's server begins; the kernel keeps 15 bytes of `nvidia-cuda-mps-server`.
const MPS_SERVER: &[u8] = b"nvidia-cuda-mps";
/// DCGM's processes that read performance counters.
const DCGM: [&str; 2] = ["nv-hostengine", "dcgm-exporter"];
/// Room for the name of a process; the kernel's has 16 bytes at most (TASK_COMM_LEN).
const NAME: usize = 64;

/// Files of the host.
pub(super) struct HostFiles {
    meminfo: KeptPath,
    proc: PathBuf,
    dcgm: Option<Arc<str>>,
    search_next_ns: u64,
}

impl HostFiles {
    pub(super) fn new(proc: &Path) -> Self {
        Self { meminfo: KeptPath::new(proc.join("meminfo")), proc: proc.to_owned(), dcgm: None, search_next_ns: 0 }
    }

    /// The memory of the host: in use, and all of it, bytes.
    pub(super) fn memory(&mut self) -> (Option<u64>, Option<u64>) {
        let mut room = [0; 4096];
        let read = self.meminfo.read_page(&mut room).unwrap_or_default();
        let bytes = |key: &[u8]| keyed_number(read, key).and_then(|kib| kib.checked_mul(1024));
        let (total, free) = (bytes(b"MemTotal:"), bytes(b"MemAvailable:"));
        (total.and_then(|total| total.checked_sub(free?)), total)
    }

    /// Whether a process is the server of MPS. In another PID namespace NVML's PIDs name other processes, or none.
    pub(super) fn is_mps_server(&self, pid: u32) -> bool {
        self.name(pid).is_some_and(|name| name.starts_with(MPS_SERVER))
    }

    /// DCGM's process on this machine: its name and PID.
    pub(super) fn dcgm(&mut self, now_ns: u64) -> Option<Arc<str>> {
        if now_ns >= self.search_next_ns {
            self.search_next_ns = now_ns.saturating_add(SEARCH_EVERY_NS);
            self.dcgm = self.search();
        }
        self.dcgm.clone()
    }

    fn search(&self) -> Option<Arc<str>> {
        fs::read_dir(&self.proc).ok()?.flatten().find_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let name = self.name(pid)?;
            let known = DCGM.iter().find(|known| known.as_bytes() == name.trim_ascii_end())?;
            Some(format!("{known} ({pid})").into())
        })
    }

    fn name(&self, pid: u32) -> Option<Vec<u8>> {
        read_once(self.proc.join(pid.to_string()).join("comm"), NAME).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_by_their_names() {
        let root = tempfile::tempdir().unwrap();
        for (pid, name) in
            [("7", "nvidia-cuda-mps"), ("8", "python"), ("9", "nv-hostengine"), ("self", "dcgm-exporter")]
        {
            fs::create_dir(root.path().join(pid)).unwrap();
            fs::write(root.path().join(pid).join("comm"), format!("{name}\n")).unwrap();
        }
        let mut host = HostFiles::new(root.path());
        assert_eq!([7, 8, 10].map(|pid| host.is_mps_server(pid)), [true, false, false]);
        assert_eq!(host.dcgm(0).as_deref(), Some("nv-hostengine (9)"));
        fs::remove_dir_all(root.path().join("9")).unwrap();
        assert!(host.dcgm(SEARCH_EVERY_NS - 1).is_some(), "searched for once a minute");
        assert_eq!(host.dcgm(SEARCH_EVERY_NS), None);
    }
}
