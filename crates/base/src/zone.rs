//! The local time zone, determined once, without trusting what `TZ` names: it may be an endless device file, a pipe
//! without a writer, or a link to either. jiff reads such files whole.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use rustix::fs::OFlags;

/// The largest file of tzdata 2025b has 3.6 KiB; with leap seconds and 64-bit times it stays below 8 KiB.
const LENGTH_MAX: u64 = 64 << 10;
/// Where the zones are unless `TZDIR` names another place (tzset(3)), and where BSD and some containers have them.
const FOLDERS: [&str; 3] = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo"];
/// The zone of the machine.
const LOCALTIME: &str = "/etc/localtime";

/// The local time zone: `TZ`, else `/etc/localtime`, else UTC. The same for as long as the process lives.
pub fn local() -> TimeZone {
    static LOCAL: OnceLock<TimeZone> = OnceLock::new();
    LOCAL.get_or_init(|| resolve(std::env::var_os("TZ").as_deref(), std::env::var_os("TZDIR").as_deref())).clone()
}

/// The current time in the local time zone.
pub fn now() -> Zoned {
    Timestamp::now().to_zoned(local())
}

/// A wall clock time: `14:03:27`; a dash for one that no clock shows.
pub fn clock(unix_ms: i64, zone: &TimeZone) -> String {
    moment(unix_ms, zone, "%H:%M:%S")
}

/// A moment in this form (strftime(3)).
pub fn moment(unix_ms: i64, zone: &TimeZone, form: &str) -> String {
    let Ok(moment) = Timestamp::from_millisecond(unix_ms) else { return "–".to_owned() };
    moment.to_zoned(zone.clone()).strftime(form).to_string()
}

/// The zone for these values of `TZ` and `TZDIR`; UTC if they name no zone.
fn resolve(tz: Option<&OsStr>, folder: Option<&OsStr>) -> TimeZone {
    let Some(tz) = tz else { return read(Path::new(LOCALTIME)).unwrap_or(TimeZone::UTC) };
    let Some(text) = tz.to_str() else { return TimeZone::UTC };
    // A rule (`CET-1CEST,M3.5.0,M10.5.0/3`), or the name or path of a file, with or without a colon.
    let name = match text.strip_prefix(':') {
        Some(name) => name,
        None => match TimeZone::posix(text) {
            Ok(zone) => return zone,
            Err(_) => text,
        },
    };
    files(name, folder).find_map(|path| read(&path)).unwrap_or(TimeZone::UTC)
}

/// The files that a name may mean.
fn files(name: &str, folder: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let path = PathBuf::from(name);
    // An absolute path replaces the folder that it is joined to; a name must not lead out of the folder.
    let is_usable = !name.is_empty() && path.components().all(|part| part != Component::ParentDir);
    let folders = match folder.filter(|folder| !folder.is_empty()) {
        Some(folder) => vec![PathBuf::from(folder)],
        None => FOLDERS.map(PathBuf::from).to_vec(),
    };
    folders.into_iter().filter(move |_| is_usable).map(move |folder| folder.join(&path))
}

/// Reads a zone from a small regular file; `None` if there is no such file, or no zone in it.
fn read(path: &Path) -> Option<TimeZone> {
    let is_file = |found: io::Result<Metadata>| found.is_ok_and(|found| found.is_file());
    // A device file is not even opened: opening alone may have an effect.
    if !is_file(std::fs::metadata(path)) {
        return None;
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut bytes = Vec::new();
    let is_small =
        is_file(file.metadata()) && file.take(LENGTH_MAX + 1).read_to_end(&mut bytes).ok()? as u64 <= LENGTH_MAX;
    is_small.then(|| TimeZone::tzif("Local", &bytes).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset_of(tz: &str, folder: Option<&Path>) -> i32 {
        let zone = resolve(Some(OsStr::new(tz)), folder.map(Path::as_os_str));
        // 2026-01-01T00:00:00Z
        Timestamp::from_second(1_767_225_600).unwrap().to_zoned(zone).offset().seconds()
    }

    #[test]
    fn rules_names_and_paths_are_zones() {
        assert_eq!(offset_of("XYZ-5:30", None), 19_800);
        assert_eq!(offset_of("CET-1CEST,M3.5.0,M10.5.0/3", None), 3600);
        assert_eq!(offset_of("", None), 0);
        let Some(folder) = FOLDERS.iter().find(|folder| Path::new(folder).join("Asia/Kolkata").exists()) else {
            println!("not checked with files: there is no tzdata here");
            return;
        };
        for tz in
            ["Asia/Kolkata", ":Asia/Kolkata", &format!("{folder}/Asia/Kolkata"), &format!(":{folder}/Asia/Kolkata")]
        {
            assert_eq!(offset_of(tz, None), 19_800, "{tz}");
        }
        assert_eq!(offset_of("Kolkata", Some(&Path::new(folder).join("Asia"))), 19_800);
    }

    #[test]
    fn what_is_no_small_file_is_utc_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let huge = folder.path().join("huge");
        File::create(&huge).unwrap().set_len(1 << 40).unwrap();
        std::fs::write(folder.path().join("text"), "no zone").unwrap();
        for tz in [":/dev/zero", "/dev/zero", "/dev/full", "../../dev/zero", "/", "no/such", "pipe", "huge", "text"] {
            assert_eq!(offset_of(tz, Some(folder.path())), 0, "{tz}");
        }
        assert_eq!(offset_of("zero", Some(Path::new("/dev"))), 0);
        assert!(read(&pipe).is_none() && read(&huge).is_none());
    }
}
