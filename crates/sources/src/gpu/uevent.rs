//! What the kernel says of a PCI function when it appears: `KEY=value` lines of its `uevent` (lib/kobject_uevent.c).

use std::path::Path;

use crate::fields::lines;
use crate::files::read_once;

/// More than any of these files has.
const UEVENT_MOST: usize = 4096;

/// The file of one.
pub(super) struct Uevent(Vec<u8>);

impl Uevent {
    pub(super) fn read(folder: &Path) -> Option<Self> {
        read_once(folder.join("uevent"), UEVENT_MOST).ok().map(Self)
    }

    /// The value of a key, which is given with its `=`.
    pub(super) fn value(&self, key: &str) -> Option<&[u8]> {
        lines(&self.0).find_map(|line| line.strip_prefix(key.as_bytes()))
    }
}
