//! Which files may be executed, loaded or read if trainmon has more rights than other users.
//!
//! Under sudo, trainmon must not do what an ordinary user arranges: execute a planted py-spy, load a planted library,
//! or take settings from a HOME that sudo kept. Root is trusted. The owner of trainmon's own program is trusted too,
//! because they decide what runs here anyway. `SUDO_UID` is not: sudo may allow its user nothing but trainmon.
//!
//! A path is walked one name at a time, without following links blindly: every folder and every link on the way, and
//! the file at the end, must belong to a trusted user, and only trusted users may write to the folders and the file. So
//! only they can have decided what the name refers to, and the file that was opened is the one that is used. This
//! folder does not care what a file contains.

pub mod rights;
mod walk;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

pub use rights::{is_secure, privileged};
pub use walk::Untrusted;

/// This program's own file.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Opens a regular file for reading if only trusted users can have put it there. It never blocks: pipes and device
/// files are refused without being opened.
///
/// # Errors
/// [`Untrusted`] says in one line what is wrong with the file, or with a folder or link on the way to it.
pub fn open(path: &Path) -> Result<File, Untrusted> {
    walk::open(path, owners())
}

/// Checks a folder in which a file is to be written: only trusted users may write to it and to the folders above.
/// Folders that do not exist yet are skipped, because only trusted users can create them. If trainmon's rights are not
/// the caller's own, nothing is checked: the file is then written with the caller's rights ([`rights`]).
///
/// # Errors
/// [`Untrusted`], as for [`open`].
pub fn folder(path: &Path) -> Result<(), Untrusted> {
    if rights::is_secure() { Ok(()) } else { walk::folder(path, owners()) }
}

/// The UIDs that are trusted here.
fn owners() -> &'static [u32] {
    static OWNERS: OnceLock<Vec<u32>> = OnceLock::new();
    OWNERS.get_or_init(|| {
        let (caller, effective) = (rights::start().uid.as_raw(), rights::start().euid.as_raw());
        let mut owners = vec![0, effective];
        // With capabilities from the file, the effective user is the caller, and the file's owner did not set them.
        if rights::is_secure() {
            owners.retain(|&owner| owner != caller || owner == 0);
        } else {
            owners.extend(std::fs::metadata(OWN_PROGRAM).map(|own| own.uid()));
        }
        owners.sort_unstable();
        owners.dedup();
        owners
    })
}
