//! The files of GPUs and other accelerators that a process has open.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::links::each_link;
use crate::sample::job::is_unread_accelerator;

/// Most descriptors of one process that are looked at for GPU device files.
const MOST_DESCRIPTORS: usize = 4096;

/// The files of GPUs and other accelerators that a process has open.
#[derive(Debug, Default)]
pub struct OpenDevices {
    /// Minors of `/dev/nvidiaN`.
    pub minors: BTreeSet<u32>,
    /// Paths of those that cannot be read.
    pub accelerators: BTreeSet<Arc<str>>,
}

impl OpenDevices {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        !(self.minors.is_empty() && self.accelerators.is_empty())
    }

    /// Those of the process whose folder under `/proc` this is; none where its descriptors may not be read.
    pub fn find(folder: &Path) -> Self {
        let mut open = Self::default();
        let mut nvidia = false;
        // Where they may not be read there are none.
        let _ = each_link(folder, MOST_DESCRIPTORS, |link| {
            let Ok(path) = std::str::from_utf8(link.target) else { return };
            if let Some(name) = path.strip_prefix("/dev/nvidia") {
                nvidia = true;
                open.minors.extend(name.parse::<u32>());
            } else if is_unread_accelerator(path) {
                open.accelerators.insert(path.into());
            }
        });
        // NVIDIA's cards have render nodes as well.
        open.accelerators.retain(|path| !(nvidia && path.starts_with("/dev/dri/")));
        open
    }
}
