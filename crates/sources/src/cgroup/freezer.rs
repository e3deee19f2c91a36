//! Whether the job's control group is frozen, as by `docker pause`, and the command that thaws it.

use std::path::Path;
use std::sync::Arc;

use super::find::Hierarchy;
use super::small_file;
use crate::fields::keyed_number;
use crate::files::KeptPath;

/// Length of a container ID in hexadecimal digits, and how many of them identify it.
const ID: (usize, usize) = (64, 12);

/// The file that says whether the group or an ancestor is frozen: `cgroup.events` in v2
/// (Documentation/admin-guide/cgroup-v2.rst), `freezer.state` in v1 (cgroup-v1/freezer-subsystem.rst).
#[derive(Debug)]
pub(super) struct Freezer {
    hierarchy: Hierarchy,
    state: KeptPath,
}

impl Freezer {
    pub(super) fn new(hierarchy: &Hierarchy) -> Option<Self> {
        let name = if hierarchy.v2 { "cgroup.events" } else { "freezer.state" };
        let state = KeptPath::new(hierarchy.folders.first()?.join(name));
        Some(Self { hierarchy: hierarchy.clone(), state })
    }

    /// `None` where the file cannot be read: the root group has no such file.
    pub(super) fn is_frozen(&mut self, buffer: &mut Vec<u8>) -> Option<bool> {
        let text = self.state.read_short_records(buffer).ok()?;
        if self.hierarchy.v2 {
            Some(keyed_number(text, b"frozen")? == 1)
        } else {
            Some(text.trim_ascii() == b"FROZEN")
        }
    }

    /// The command that thaws a frozen group. `None` if the folder's name would need quoting in a shell.
    pub(super) fn thaw(&self) -> Option<Arc<str>> {
        let (switch, on, value) = if self.hierarchy.v2 {
            ("cgroup.freeze", "cgroup.freeze", "0")
        } else {
            ("freezer.state", "freezer.self_freezing", "THAWED")
        };
        let is_switched = |folder: &&Path| small_file(folder, on).is_some_and(|text| text.trim_ascii() == b"1");
        let folder = self.hierarchy.folders.iter().map(AsRef::as_ref).find(is_switched)?;
        if let Some((engine, id)) = container(folder) {
            return Some(format!("{engine} unpause {id}").into());
        }
        let path = folder.join(switch);
        let path = path.to_str().filter(|path| path.bytes().all(is_plain))?;
        let is_root = rustix::process::geteuid().is_root();
        Some(
            if is_root { format!("echo {value} > {path}") } else { format!("echo {value} | sudo tee {path}") }.into(),
        )
    }
}

/// Characters without a special meaning to a shell.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/_-.:@+,=".contains(&byte)
}

/// The engine and the ID of the container behind a group: `docker/ID`, `docker-ID.scope` or `libpod-ID.scope`.
fn container(folder: &Path) -> Option<(&'static str, &str)> {
    let name = folder.file_name()?.to_str()?;
    let parent = folder.parent()?.file_name();
    let (engine, id) = match name.strip_suffix(".scope").and_then(|name| name.split_once('-')) {
        Some(("docker", id)) => ("docker", id),
        Some(("libpod", id)) => ("podman", id),
        None if parent == Some("docker".as_ref()) => ("docker", name),
        None if parent == Some("libpod_parent".as_ref()) => ("podman", name.strip_prefix("libpod-").unwrap_or(name)),
        _ => return None,
    };
    let is_id = id.len() == ID.0 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Some((engine, id.get(..ID.1)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const OF: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn freezer(v2: bool, leaf: &Path, root: &Path) -> Freezer {
        let folders: Vec<PathBuf> =
            leaf.ancestors().take_while(|folder| *folder != root).map(Path::to_path_buf).collect();
        Freezer::new(&Hierarchy { v2, path: b"/x".to_vec(), folders }).unwrap()
    }

    #[test]
    fn the_group_that_was_switched_is_named() {
        let tree = tempfile::tempdir().unwrap();
        let (parent, leaf) = (tree.path().join("job.slice"), tree.path().join("job.slice/inner"));
        fs::create_dir_all(&leaf).unwrap();
        let write = |folder: &Path, name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let mut v2 = freezer(true, &leaf, tree.path());
        let mut buffer = Vec::new();
        assert_eq!(v2.is_frozen(&mut buffer), None);
        write(&leaf, "cgroup.events", "populated 1\nfrozen 0\n");
        write(&leaf, "cgroup.freeze", "0\n");
        let mut v2 = freezer(true, &leaf, tree.path());
        assert_eq!((v2.is_frozen(&mut buffer), v2.thaw()), (Some(false), None));
        write(&leaf, "cgroup.events", "populated 1\nfrozen 1\n");
        write(&parent, "cgroup.freeze", "1\n");
        assert_eq!(v2.is_frozen(&mut buffer), Some(true));
        let command = v2.thaw().unwrap();
        let switch = parent.join("cgroup.freeze");
        assert!(command.starts_with("echo 0 ") && command.ends_with(switch.to_str().unwrap()), "{command}");

        for (state, frozen) in [("THAWED", false), ("FREEZING", false), ("FROZEN", true)] {
            write(&leaf, "freezer.state", &format!("{state}\n"));
            assert_eq!(freezer(false, &leaf, tree.path()).is_frozen(&mut buffer), Some(frozen));
        }
        write(&leaf, "freezer.self_freezing", "1\n");
        let command = freezer(false, &leaf, tree.path()).thaw().unwrap();
        assert!(command.starts_with("echo THAWED ") && command.ends_with("inner/freezer.state"), "{command}");
    }

    #[test]
    fn a_container_is_resumed_by_its_engine() {
        let short = &OF[..12];
        for (folder, expected) in [
            (format!("/sys/fs/cgroup/system.slice/docker-{OF}.scope"), Some(("docker", short))),
            (format!("/sys/fs/cgroup/freezer/docker/{OF}"), Some(("docker", short))),
            (format!("/sys/fs/cgroup/machine.slice/libpod-{OF}.scope"), Some(("podman", short))),
            (format!("/sys/fs/cgroup/docker/{OF}/job"), None),
            ("/sys/fs/cgroup/docker/$(reboot)".to_owned(), None),
            ("/sys/fs/cgroup/docker-1.scope".to_owned(), None),
            (format!("/sys/fs/cgroup/kubepods/{OF}"), None),
        ] {
            assert_eq!(container(Path::new(&folder)), expected, "{folder}");
        }
    }

    #[test]
    fn a_name_that_a_shell_would_understand_is_in_no_command() {
        let tree = tempfile::tempdir().unwrap();
        let leaf = tree.path().join("a;reboot");
        fs::create_dir(&leaf).unwrap();
        fs::write(leaf.join("cgroup.freeze"), "1\n").unwrap();
        assert_eq!(freezer(true, &leaf, tree.path()).thaw(), None);
    }
}
