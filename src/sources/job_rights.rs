//! The rights of a job: root must neither read nor write for a job what its user cannot.
//!
//! A job chooses the file name under which its code is compiled. It could name a file that only root may read, whose
//! lines would then end up in root's recording. The same holds for its folder of temporary files. The kernel itself
//! decides, with the job's user, group and groups, on a separate thread, because credentials belong to threads
//! (credentials(7)). Only the effective ones are changed, so that the job's user cannot signal the thread (kill(2)
//! checks the real and saved ones).

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::fields::{lines, numbers};
use super::files::{READ_LIMIT, read_once};

/// The rights of a job: the lines `Uid`, `Gid` and `Groups` in `/proc/PID/status` (proc_pid_status(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobRights {
    /// Real, effective, saved and file-system user.
    users: Vec<u32>,
    groups: Vec<u32>,
    more_groups: Vec<u32>,
}

impl JobRights {
    /// The rights of a process, by its folder; `None` if they cannot be read.
    pub fn find(folder: &Path) -> Option<Self> {
        let status = read_once(folder.join("status"), READ_LIMIT).ok()?;
        let field =
            |name: &[u8]| lines(&status).find_map(|line| line.strip_prefix(name)).map(|ids| numbers(ids).collect());
        Some(Self { users: field(b"Uid:")?, groups: field(b"Gid:")?, more_groups: field(b"Groups:")? })
    }

    /// Does something with the rights of a job. An ordinary user's own rights go no further anyway: what belongs to
    /// others is refused. `None` if the kernel does not grant the job's rights.
    pub fn act<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Option<T> {
        let is_roots = self.users.iter().all(|&user| user == 0);
        if is_roots || !geteuid().is_root() {
            return Some(act());
        }
        let act = || self.become_them().ok().map(|()| act());
        let done = thread::scope(|scope| {
            let thread = thread::Builder::new().name("tm-job-rights".to_owned()).spawn_scoped(scope, act)?;
            io::Result::Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        done.ok().flatten()
    }

    /// Gives this thread the job's rights, for good.
    fn become_them(&self) -> rustix::io::Result<()> {
        // The real ones: a setuid program's effective ones come from its file.
        let (Some(&user), Some(&group)) = (self.users.first(), self.groups.first()) else {
            return Err(rustix::io::Errno::PERM);
        };
        let groups: Vec<Gid> = self.more_groups.iter().map(|&group| Gid::from_raw(group)).collect();
        set_thread_groups(&groups)?;
        set_thread_res_gid(None, Gid::from_raw(group), None)?;
        // This comes last, because it gives up the right to change the others, and the right to bypass file modes.
        set_thread_res_uid(None, Uid::from_raw(user), None)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_rights_of_a_process_are_in_its_status() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(JobRights::find(folder.path()), None);
        let status = "Name:\tpython\nUid:\t1000\t0\t0\t0\nGid:\t100\t100\t100\t100\nFDSize:\t64\nGroups:\t4 27 \n";
        fs::write(folder.path().join("status"), status).unwrap();
        let rights = JobRights::find(folder.path()).unwrap();
        assert_eq!(
            (rights.users, rights.groups, rights.more_groups),
            (vec![1000, 0, 0, 0], vec![100; 4], vec![4, 27])
        );
        assert!(JobRights::find(Path::new("/proc/self")).is_some());
    }

    #[test]
    fn what_a_user_may_not_read_is_not_read_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "secret").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        mode(folder.path(), 0o700);
        let us = JobRights::find(Path::new("/proc/self")).unwrap();
        assert_eq!(us.act(|| fs::read(&file).is_ok()), Some(true));
        if !geteuid().is_root() {
            return;
        }
        let them = JobRights { users: vec![65534; 4], groups: vec![65534; 4], more_groups: Vec::new() };
        assert_ne!(them.act(|| fs::read(&file).is_ok()), Some(true), "the folder is closed to them");
        // A setuid program's effective user is root.
        let setuid = JobRights { users: vec![65534, 0, 0, 0], ..them.clone() };
        assert_ne!(setuid.act(|| fs::read(&file).is_ok()), Some(true));
        assert!(fs::read(&file).is_ok(), "our own rights are as they were");
        let group = JobRights { more_groups: vec![0], ..them };
        mode(folder.path(), 0o710);
        mode(&file, 0o640);
        assert_eq!(group.act(|| fs::read(&file).is_ok()), Some(true), "their groups count");
    }
}
