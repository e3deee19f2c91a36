//! The mounts that the job's data lies on: where, what kind of storage, how much comes from it, and some of the files.

use ratatui::text::{Line, Span};

use super::{Detail, Text, missing, not_seen};
use crate::rates::Frame;
use crate::rates::frame::MountRates;
use crate::sample::MountKind;
use crate::text::{fit, sanitise};
use crate::tui::app::App;
use crate::tui::format;
use crate::tui::views::cells;

/// Most mounts listed.
const MOUNTS: usize = 12;

/// Adds heading and lines.
pub fn add(text: &mut Text, frame: &Frame, app: &App, width: u16, detail: Detail) {
    let theme = app.theme();
    let mounts = &frame.storage.mounts;
    if mounts.is_empty() {
        let told = not_seen(app, "fd");
        let lines = match told {
            Some(told) => missing(
                &format!(
                    "Where the job's data lies is not known: {}.",
                    told.why.split(", so ").next().unwrap_or_default()
                ),
                told.mend.as_deref(),
                width,
                theme,
            ),
            None if frame.storage.devices.is_empty() => return,
            None => missing(
                "No data file of the job was open or mapped lately: its data is in memory, comes over sockets, or is read \
                 faster than anybody looks.",
                None,
                width,
                theme,
            ),
        };
        text.lines.extend(lines);
        return;
    }
    let mount_cells = (usize::from(width) / 4).clamp(16, 48);
    let heading =
        format!("{:<mount_cells$} {:<8} {:<8} {:>6}  {}", "DATA OF THE JOB", "TYPE", "KIND", "FILES", "FROM");
    text.lines.push(Line::from(Span::styled(format!("{heading:<0$}", usize::from(width)), theme.heading())));
    for mount in mounts.iter().take(MOUNTS) {
        let point = fit(&mount.mount_point, mount_cells);
        let pad = mount_cells.saturating_sub(usize::from(cells(&point)));
        let fs = fit(&mount.fs_type, 8);
        let fs_pad = 8usize.saturating_sub(usize::from(cells(&fs)));
        let start = format!("{}{:pad$} {fs}{:fs_pad$} {:<8} {:>6}  ", point, "", "", kind(mount.kind), mount.files);
        let room = usize::from(width.saturating_sub(cells(&start)));
        text.lines.push(Line::from(start + &from(mount, room)));
        for example in mount.examples.iter().take(detail.examples) {
            let file = format!(
                "  {}",
                fit(&tail(example, usize::from(width.saturating_sub(2))), usize::from(width.saturating_sub(2)))
            );
            text.lines.push(Line::from(Span::styled(file, theme.dim())));
        }
    }
    if mounts.len() > MOUNTS {
        text.lines.push(Line::from(Span::styled(format!("{} more mounts", mounts.len() - MOUNTS), theme.dim())));
    }
}

/// The end of a path: it tells files apart.
fn tail(path: &str, room: usize) -> String {
    let whole = sanitise(path);
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

/// What storage it is and how much comes from there, in `room` cells.
fn from(mount: &MountRates, room: usize) -> String {
    let disks: Vec<String> = mount.disks.iter().take(4).map(|disk| fit(disk, 16)).collect();
    let mut pieces = Vec::new();
    if !disks.is_empty() {
        let more = mount.disks.len() - disks.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        pieces.push(format!("{}{more}", disks.join(" ")));
    }
    if mount.disks_read_bytes_s.is_some() || mount.disks_write_bytes_s.is_some() {
        pieces.push(format!("{} read by all", format::rate(mount.disks_read_bytes_s)));
        pieces.push(format!("{} written", format::rate(mount.disks_write_bytes_s)));
    }
    if mount.nfs_read_bytes_s.is_some() || mount.nfs_read_rtt_ms.is_some() {
        let trip = format::number(mount.nfs_read_rtt_ms);
        pieces.push(format!("{}, {trip} ms round trip", format::rate(mount.nfs_read_bytes_s)));
    }
    if pieces.is_empty() {
        let what = match mount.kind {
            MountKind::Memory => "memory: no storage underneath",
            MountKind::Network => "a server; its rates are not known",
            MountKind::Fuse => "a program (FUSE): storage anywhere",
            MountKind::Local | MountKind::Other => "disks not known",
        };
        return fit(what, room);
    }
    // Whole pieces only, but at least the first.
    while pieces.len() > 1 && usize::from(cells(&pieces.join(", "))) > room {
        pieces.pop();
    }
    fit(&pieces.join(", "), room)
}
