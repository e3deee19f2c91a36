use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use super::*;

/// Somebody who is not trusted. The tests are run by root and by ordinary users: these cannot give files away, so that it is
/// their own files that are not trusted then.
const STRANGER: u32 = 65534;

/// A folder with `bin/tool`, whose owner is trusted.
struct Place {
    root: tempfile::TempDir,
    owners: Vec<u32>,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let own = fs::metadata(root.path()).unwrap().uid();
        let place = Self { root, owners: vec![0, own] };
        fs::create_dir(place.at("bin")).unwrap();
        fs::write(place.at("bin/tool"), "tool").unwrap();
        place.mode("bin", 0o755);
        place.mode("bin/tool", 0o755);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let mut file = open(&self.at(name), &self.owners).map_err(|error| error.to_string())?;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    fn refusal(&self, name: &str) -> String {
        let line = self.read(name).unwrap_err();
        assert_eq!(line.lines().count(), 1);
        line
    }
}

#[test]
fn a_file_that_only_trusted_users_can_have_put_there_is_opened() {
    let place = Place::new();
    assert_eq!(place.read("bin/tool").unwrap(), "tool");
    symlink("bin", place.at("also")).unwrap();
    symlink(place.at("also/../bin/tool"), place.at("link")).unwrap();
    assert_eq!(place.read("link").unwrap(), "tool", "links are followed");
    assert_eq!(place.read("bin/../bin/./tool").unwrap(), "tool");
}

#[test]
fn group_and_others_may_write_to_nothing_on_the_way() {
    let place = Place::new();
    for (name, mode, says) in [
        ("bin/tool", 0o775, "its group (mode 0775)"),
        ("bin/tool", 0o757, "everyone (mode 0757)"),
        ("bin", 0o775, "its group (mode 0775)"),
        ("bin", 0o777, "everyone (mode 0777)"),
    ] {
        place.mode(name, mode);
        let error = open(&place.at("bin/tool"), &place.owners).unwrap_err();
        assert_eq!(error.to_string(), format!("{} can be written by {says}", place.at(name).display()));
        let who = if mode == 0o757 { "o" } else { "g" };
        let who = if mode == 0o777 { "go" } else { who };
        assert_eq!(error.fix().unwrap(), format!("chmod {who}-w {}", place.at(name).display()));
        place.mode(name, 0o755);
    }
    // One command for all of them.
    place.mode("bin", 0o775);
    place.mode("bin/tool", 0o757);
    let error = open(&place.at("bin/tool"), &place.owners).unwrap_err();
    let both = ["bin", "bin/tool"].map(|name| place.at(name).display().to_string());
    assert_eq!(error.fix().unwrap(), format!("chmod go-w {}", both.join(" ")));
    place.mode("bin/tool", 0o755);
    // Everyone may write to a folder like /tmp, but not replace what belongs to others there.
    place.mode("bin", 0o1777);
    assert_eq!(place.read("bin/tool").unwrap(), "tool");
    fs::hard_link(place.at("bin/tool"), place.at("other-name")).unwrap();
    assert!(place.refusal("bin/tool").contains("several names"));
    assert!(folder(&place.at("bin"), &place.owners).unwrap_err().to_string().contains("mode 1777"));
}

#[test]
fn the_owner_counts_of_the_file_the_folders_and_the_links() {
    let mut place = Place::new();
    symlink("bin", place.at("door")).unwrap();
    if !rustix::process::geteuid().is_root() {
        place.owners = vec![0];
        assert!(place.refusal("bin/tool").contains("belongs to user"));
        return;
    }
    let shown =
        |place: &Place, name: &str| format!("{} belongs to user 65534, not to root", place.at(name).display());
    chown(place.at("bin/tool"), Some(STRANGER), None).unwrap();
    assert_eq!(place.refusal("bin/tool"), shown(&place, "bin/tool"));
    chown(place.at("bin/tool"), Some(0), None).unwrap();
    chown(place.at("bin"), Some(STRANGER), None).unwrap();
    assert_eq!(place.refusal("bin/tool"), shown(&place, "bin"));
    chown(place.at("bin"), Some(0), None).unwrap();
    // A link that somebody laid may lead to any program of root's.
    std::os::unix::fs::lchown(place.at("door"), Some(STRANGER), None).unwrap();
    assert_eq!(place.refusal("door/tool"), shown(&place, "door"));
    place.owners.push(STRANGER);
    assert_eq!(place.read("door/tool").unwrap(), "tool");
}

#[test]
fn only_regular_files_are_opened_and_nothing_waits() {
    let place = Place::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.at("pipe"), 0o600.into()).unwrap();
    assert!(place.refusal("pipe").ends_with("is a pipe, not a regular file"));
    assert!(place.refusal("bin").ends_with("is a folder, not a regular file"));
    assert!(place.refusal("bin/none").ends_with("none: No such file or directory"));
    assert!(place.refusal("bin/tool/x").ends_with("tool: Not a directory"));
    symlink("loop", place.at("loop")).unwrap();
    assert!(place.refusal("loop").contains("Too many levels of symbolic links"));
    let why = open(Path::new("/proc/self/exe"), &place.owners).unwrap_err().to_string();
    assert!(why.contains("a link of /proc"), "{why}");
    let why = open(Path::new("/dev/zero"), &place.owners).unwrap_err().to_string();
    assert_eq!(why, "/dev/zero is a device file, not a regular file");
}

#[test]
fn a_folder_that_is_not_there_yet_is_judged_by_the_ones_above() {
    let place = Place::new();
    folder(&place.at("bin"), &place.owners).unwrap();
    folder(&place.at("bin/new/newer"), &place.owners).unwrap();
    assert!(folder(&place.at("bin/tool"), &place.owners).is_err());
    place.mode("bin", 0o775);
    assert!(folder(&place.at("bin/new/newer"), &place.owners).is_err());
}

#[test]
fn who_mounted_a_file_system_is_in_its_options() {
    let line =
        "61 29 0:48 / /tmp/x rw,nosuid,nodev,relatime shared:1 - fuse.sshfs me@host:/ rw,user_id=1000,group_id=1000";
    assert_eq!(user_of_mount(line), Some(1000));
    assert_eq!(user_of_mount("1 0 0:1 / / rw - virtiofs root rw"), None);
}
