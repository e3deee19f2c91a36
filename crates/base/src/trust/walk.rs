//! The way from `/` to a file, one name at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, fstatfs, openat, readlinkat};
use rustix::io::Errno;

use crate::errors::without_number;
use crate::text::{fit, shell_word};

/// Most links followed on one path, as in the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// `PROC_SUPER_MAGIC` and `FUSE_SUPER_MAGIC`, linux/magic.h and statfs(2).
const PROC: u64 = 0x9fa0;
const FUSE: u64 = 0x6573_5546;
/// Write permission of group and others, and the sticky bit, in a file's mode (inode(7)).
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// Longest path in a message, terminal cells.
const WIDTH: usize = 160;

/// Why a file is not used.
#[derive(Debug)]
pub struct Untrusted {
    /// What is wrong with it: a file, or a folder or link on the way.
    path: PathBuf,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    /// The system did not open it.
    System(io::Error),
    /// It belongs to this user, which is not a trusted one.
    Owner { uid: u32, trusted: Vec<u32> },
    /// Group or others may write to it, and to these other paths: paths with their modes.
    Modes(Vec<(PathBuf, u32)>),
    /// It is not a regular file, but this.
    Kind(&'static str),
    /// It is a link of /proc, which leads wherever a process has something open.
    Proc,
    /// It is in a file system that this user has mounted and that can claim any owner and mode.
    Mount { uid: u32 },
    /// Several names lead to this file, one of them in a folder where everyone may create names.
    Linked,
}

impl Untrusted {
    /// Whether there simply is no such file or folder.
    pub fn is_missing(&self) -> bool {
        let missing =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        matches!(&self.fault, Fault::System(error) if missing(error))
    }

    /// The command that makes the file trusted, if only modes are wrong.
    pub fn fix(&self) -> Option<String> {
        let Fault::Modes(modes) = &self.fault else { return None };
        let mode = modes.iter().fold(0, |all, (_, mode)| all | mode);
        let paths: Vec<_> = modes.iter().map(|(path, _)| shell_word(path)).collect();
        let who = match (mode & GROUP_WRITES != 0, mode & OTHERS_WRITE != 0) {
            (true, true) => "go",
            (true, false) => "g",
            _ => "o",
        };
        Some(format!("chmod {who}-w {}", paths.join(" ")))
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = fit(&self.path.to_string_lossy(), WIDTH);
        match &self.fault {
            Fault::System(error) => {
                write!(out, "{path}: {}", without_number(error))
            }
            Fault::Owner { uid, trusted } => {
                write!(out, "{path} belongs to user {uid}, not to root")?;
                trusted.iter().filter(|&&uid| uid != 0).try_for_each(|uid| write!(out, " or user {uid}"))
            }
            Fault::Modes(modes) => {
                let mode = modes.first().map_or(0, |(_, mode)| *mode);
                let others = mode & OTHERS_WRITE != 0;
                let who = if others { "everyone" } else { "its group" };
                write!(out, "{path} can be written by {who} (mode {:04o})", mode & 0o7777)
            }
            Fault::Kind(kind) => write!(out, "{path} is {kind}, not a regular file"),
            Fault::Proc => write!(out, "{path} is a link of /proc"),
            Fault::Mount { uid } => write!(out, "{path} is in a file system mounted by user {uid}"),
            Fault::Linked => {
                write!(out, "{path} has several names, one of them in a folder that everyone can write to")
            }
        }
    }
}

impl std::error::Error for Untrusted {}

impl From<Untrusted> for io::Error {
    fn from(why: Untrusted) -> Self {
        match why.fault {
            Fault::System(error) => error,
            _ => Self::new(io::ErrorKind::PermissionDenied, why),
        }
    }
}

/// Opens a regular file for reading if only `owners` can have put it there.
pub(super) fn open(path: &Path, owners: &[u32]) -> Result<File, Untrusted> {
    let (mut walk, mut names) = Walk::begin(path, owners)?;
    loop {
        let Some(name) = names.pop_front() else { return Err(walk.fault(Fault::Kind("a folder"))) };
        let Some((entry, stat)) = walk.step(&name, &mut names)? else { continue };
        let kind = kind_of(&stat);
        if kind != "a regular file" {
            return Err(walk.fault(Fault::Kind(kind)));
        }
        walk.check(&entry, &stat)?;
        walk.check_modes()?;
        if walk.in_sticky && stat.st_nlink > 1 {
            return Err(walk.fault(Fault::Linked));
        }
        // The file that was checked, not whatever has its name by now.
        let reopened = File::open(format!("/proc/self/fd/{}", entry.as_raw_fd()));
        return reopened.map_err(|error| walk.fault(Fault::System(error)));
    }
}

/// Checks a folder, or as much of its path as exists.
pub(super) fn folder(path: &Path, owners: &[u32]) -> Result<(), Untrusted> {
    let (mut walk, mut names) = Walk::begin(path, owners)?;
    while let Some(name) = names.pop_front() {
        match walk.step(&name, &mut names) {
            Ok(None) => {}
            Ok(Some(_)) => return Err(walk.fault(Fault::System(Errno::NOTDIR.into()))),
            // Only users who may write to the folder above can create it.
            Err(Untrusted { fault: Fault::System(error), .. }) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    // An untrusted user's file may already be there under the name to be written.
    if walk.in_sticky {
        walk.writable.push((walk.shown.clone(), walk.mode));
    }
    walk.check_modes()
}

/// The state of a walk.
struct Walk<'a> {
    owners: &'a [u32],
    folder: OwnedFd,
    /// The file system of the folder checked last.
    device: u64,
    mode: u32,
    /// Others may create names in the folder, but not replace those of trusted users.
    in_sticky: bool,
    /// Path of the folder, and of what was checked last.
    shown: PathBuf,
    looked_at: PathBuf,
    links: usize,
    /// What group or others may write to, with its mode.
    writable: Vec<(PathBuf, u32)>,
}

impl<'a> Walk<'a> {
    /// Starts at `/`, with the names left to walk.
    fn begin(path: &Path, owners: &'a [u32]) -> Result<(Self, VecDeque<OsString>), Untrusted> {
        let fault = |error: io::Error| Untrusted { path: path.to_path_buf(), fault: Fault::System(error) };
        let path = std::path::absolute(path).map_err(fault)?;
        let mut walk = Self {
            owners,
            folder: root().map_err(fault)?,
            device: 0,
            mode: 0,
            in_sticky: false,
            shown: PathBuf::new(),
            looked_at: PathBuf::new(),
            links: 0,
            writable: Vec::new(),
        };
        walk.enter_root()?;
        Ok((walk, names_of(&path)))
    }

    fn enter_root(&mut self) -> Result<(), Untrusted> {
        self.shown = PathBuf::from("/");
        self.looked_at.clone_from(&self.shown);
        let root = root().map_err(|error| self.fault(Fault::System(error)))?;
        let stat = fstat(&root).map_err(|error| self.fault(Fault::System(error.into())))?;
        self.check(&root, &stat)?;
        self.stand_in(root, &stat);
        Ok(())
    }

    fn stand_in(&mut self, folder: OwnedFd, stat: &Stat) {
        self.folder = folder;
        self.device = stat.st_dev;
        self.mode = stat.st_mode;
        self.in_sticky = stat.st_mode & STICKY != 0 && stat.st_mode & (GROUP_WRITES | OTHERS_WRITE) != 0;
    }

    /// Walks one name: into a folder, or along a link, whose names are put before those that are left. Anything else is
    /// returned, opened as a mere path and not yet checked.
    fn step(&mut self, name: &OsStr, left: &mut VecDeque<OsString>) -> Result<Option<(OwnedFd, Stat)>, Untrusted> {
        self.looked_at = if name == ".." {
            self.shown.parent().unwrap_or(Path::new("/")).to_path_buf()
        } else {
            self.shown.join(name)
        };
        let system = |error: Errno| Fault::System(error.into());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = openat(&self.folder, name, flags, Mode::empty()).map_err(|error| self.fault(system(error)))?;
        let stat = fstat(&entry).map_err(|error| self.fault(system(error)))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.check(&entry, &stat)?;
                self.shown.clone_from(&self.looked_at);
                self.stand_in(entry, &stat);
                Ok(None)
            }
            FileType::Symlink => {
                self.check(&entry, &stat)?;
                self.links += 1;
                if self.links > MOST_LINKS {
                    return Err(self.fault(system(Errno::LOOP)));
                }
                if fstatfs(&entry).is_ok_and(|system| system.f_type as u64 == PROC) {
                    return Err(self.fault(Fault::Proc));
                }
                let text = readlinkat(&entry, "", Vec::new()).map_err(|error| self.fault(system(error)))?;
                let target = PathBuf::from(OsString::from_vec(text.into_bytes()));
                if target.is_absolute() {
                    self.enter_root()?;
                }
                for name in names_of(&target).into_iter().rev() {
                    left.push_front(name);
                }
                Ok(None)
            }
            _ if left.is_empty() => Ok(Some((entry, stat))),
            _ => Err(self.fault(system(Errno::NOTDIR))),
        }
    }

    /// Whether only trusted users decide about this file, folder or link. Modes are recorded, so that one command can
    /// change all that are wrong.
    fn check(&mut self, entry: &OwnedFd, stat: &Stat) -> Result<(), Untrusted> {
        if !self.owners.contains(&stat.st_uid) {
            return Err(self.fault(Fault::Owner { uid: stat.st_uid, trusted: self.owners.to_vec() }));
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        let sticky = kind == FileType::Directory && stat.st_mode & STICKY != 0;
        // The mode of a link means nothing. An access control list shows in the group's bits (acl(5)).
        if kind != FileType::Symlink && stat.st_mode & (GROUP_WRITES | OTHERS_WRITE) != 0 && !sticky {
            let seen = (self.looked_at.clone(), stat.st_mode);
            // Absolute links lead through the same folders again.
            if !self.writable.contains(&seen) {
                self.writable.push(seen);
            }
        }
        if stat.st_dev != self.device
            && fstatfs(entry).is_ok_and(|system| system.f_type as u64 == FUSE)
            && let Some(uid) = mounted_by(entry).filter(|uid| !self.owners.contains(uid))
        {
            return Err(self.fault(Fault::Mount { uid }));
        }
        Ok(())
    }

    fn check_modes(&self) -> Result<(), Untrusted> {
        let Some((path, _)) = self.writable.first() else { return Ok(()) };
        Err(Untrusted { path: path.clone(), fault: Fault::Modes(self.writable.clone()) })
    }

    fn fault(&self, fault: Fault) -> Untrusted {
        Untrusted { path: self.looked_at.clone(), fault }
    }
}

fn root() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/", flags, Mode::empty())?)
}

/// The names in a path, from the left.
fn names_of(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

/// The UID that mounted the FUSE file system containing a file, from its mount options (fuse(8)). `None` if they name
/// none, as for virtiofs, or cannot be read.
fn mounted_by(entry: &OwnedFd) -> Option<u32> {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", entry.as_raw_fd())).ok()?;
    let id = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().to_owned();
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let line = mounts
        .split(|&byte| byte == b'\n')
        .find(|line| line.split(|&byte| byte == b' ').next() == Some(id.as_bytes()))?;
    user_of_mount(&String::from_utf8_lossy(line))
}

/// The option `user_id=` in a line of mountinfo.
fn user_of_mount(line: &str) -> Option<u32> {
    line.rsplit(' ').next()?.split(',').find_map(|option| option.strip_prefix("user_id="))?.parse().ok()
}

fn kind_of(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device file",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests;
