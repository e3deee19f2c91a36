//! Which GPU and other accelerator files a process has open.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::links::each_link;
use trainmon_sample::job::is_accelerator;

/// How many descriptors of one process are searched for accelerator files.
const MOST_DESCRIPTORS: usize = 4096;

/// The GPU and other accelerator files that a process has open.
#[derive(Debug, Default)]
pub struct OpenDevices {
    /// Minors of `/dev/nvidiaN`.
    pub minors: BTreeSet<u32>,
    /// Paths of other accelerators.
    pub accelerators: BTreeSet<Arc<str>>,
}

impl OpenDevices {
    /// Whether any is open.
    pub fn any(&self) -> bool {
        !(self.minors.is_empty() && self.accelerators.is_empty())
    }

    /// The files open in the process with this folder under `/proc`; empty where its descriptors cannot be read.
    pub fn find(folder: &Path) -> Self {
        let mut open = Self::default();
        let mut nvidia = false;
        // Unreadable descriptors count as no open files.
        let _ = each_link(folder, MOST_DESCRIPTORS, |link| {
            let Ok(path) = std::str::from_utf8(link.target) else { return };
            if let Some(name) = path.strip_prefix("/dev/nvidia") {
                nvidia = true;
                open.minors.extend(name.parse::<u32>());
            } else if is_accelerator(path) {
                open.accelerators.insert(path.into());
            }
        });
        // NVIDIA cards have render nodes too.
        open.accelerators.retain(|path| !(nvidia && path.starts_with("/dev/dri/")));
        open
    }
}
