//! The mounts that hold the job's data: their path, their kind of storage, how much the job reads from it, and some
//! files.

use ratatui::style::Style;

use super::{Detail, cause};
use crate::format;
use crate::widgets::table::{self, Column};
use crate::widgets::{Scene, Text, cells};
use trainmon_base::text::{fit, sanitize};
use trainmon_diagnosis::diagnosis::verdict::Subject;
use trainmon_rates::frame::MountRates;
use trainmon_sample::MountKind;
use trainmon_waits::Frame;

/// Maximum number of mounts listed.
const MOUNTS: usize = 12;

/// Adds heading and lines.
pub fn add(text: &mut Text, frame: &Frame, scene: &Scene<'_>, detail: Detail) {
    let mounts = &frame.storage.mounts;
    if mounts.is_empty() {
        match scene.not_seen(Subject::Fd) {
            Some(told) => {
                let what = format!("Cannot tell where the job's data is: {}.", cause(&told.why));
                text.missing(&what, told.fix.as_deref());
            }
            None if frame.storage.devices.is_empty() => {}
            None => text.missing(
                "No data file was open or mapped lately: the data is in memory, comes over sockets, or is read between two \
                 samples.",
                None,
            ),
        }
        return;
    }
    let mount_cells = (text.width / 4).clamp(16, 48) as i16 + 1;
    let columns: [Column; 4] = [("DATA OF THE JOB", -mount_cells), ("TYPE", -9), ("KIND", -9), ("FILES", 6)];
    text.table_heading(&format!("{}  FROM", table::headings(&columns)));
    for mount in mounts.iter().take(MOUNTS) {
        let files = mount.files.to_string();
        let start = table::row(&columns, [&*mount.mount_point, &*mount.fs_type, kind(mount.kind), &files]) + "  ";
        let room = text.width.saturating_sub(usize::from(cells(&start)));
        text.line(&(start + &from(mount, room)), Style::new());
        for example in mount.examples.iter().take(detail.examples) {
            let room = text.width.saturating_sub(2);
            text.line(&format!("  {}", fit(&tail(example, room), room)), text.theme.dim());
        }
    }
    if mounts.len() > MOUNTS {
        text.line(&format!("{} more mounts", mounts.len() - MOUNTS), text.theme.dim());
    }
}

/// The end of a path, which tells files apart.
fn tail(path: &str, room: usize) -> String {
    let whole = sanitize(path);
    let over = usize::from(cells(&whole)).saturating_sub(room);
    if over == 0 {
        return whole.into_owned();
    }
    let cut: String = whole.chars().skip(over + 1).collect();
    format!("…{cut}")
}

fn kind(kind: MountKind) -> &'static str {
    match kind {
        MountKind::Local => "local",
        MountKind::Network => "network",
        MountKind::Fuse => "fuse",
        MountKind::Memory => "memory",
        MountKind::Other => "unknown",
    }
}

/// The kind of storage and how much comes from it, in `room` cells.
fn from(mount: &MountRates, room: usize) -> String {
    let disks: Vec<String> = mount.disks.iter().take(4).map(|disk| fit(disk, 16)).collect();
    let mut pieces = Vec::new();
    if !disks.is_empty() {
        let more = mount.disks.len() - disks.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        pieces.push(format!("{}{more}", disks.join(" ")));
    }
    if mount.disks_read_bytes_per_s.is_some() || mount.disks_write_bytes_per_s.is_some() {
        pieces.push(format!("{} read by all processes", format::rate(mount.disks_read_bytes_per_s)));
        pieces.push(format!("{} written", format::rate(mount.disks_write_bytes_per_s)));
    }
    if mount.nfs_read_bytes_per_s.is_some() || mount.nfs_read_rtt_ms.is_some() {
        let trip = format::number(mount.nfs_read_rtt_ms);
        pieces.push(format!("{}, {trip} ms round trip", format::rate(mount.nfs_read_bytes_per_s)));
    }
    if pieces.is_empty() {
        let what = match mount.kind {
            MountKind::Memory => "memory: no storage underneath",
            MountKind::Network => "a server; its rates are unknown",
            MountKind::Fuse => "a FUSE program: the storage may be anywhere",
            MountKind::Local | MountKind::Other => "disks unknown",
        };
        return fit(what, room);
    }
    // Whole pieces only, but at least the first.
    while pieces.len() > 1 && usize::from(cells(&pieces.join(", "))) > room {
        pieces.pop();
    }
    fit(&pieces.join(", "), room)
}
