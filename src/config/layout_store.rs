//! The layout of the screen, kept from one session to the next in a small state file.
//!
//! It is a convenience: any problem with it is logged and never keeps the screen from opening or closing.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::small_file;
use trainmon_base::trust;
use trainmon_tui::Layout;

/// What was stored; nothing where there is nothing that can be used.
pub fn read(path: &Path) -> Layout {
    let why = match small_file::read(path).map(|text| toml::from_str(&text)) {
        Ok(Ok(layout)) => return layout,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Layout::default(),
        Ok(Err(error)) => error.message().replace('\n', " "),
        Err(error) => error.to_string(),
    };
    tracing::warn!("ignoring the saved layout {}: {why}", path.display());
    Layout::default()
}

/// Stores what was changed, with what is stored already.
pub fn write(path: &Path, changed: &Layout) {
    if *changed == Layout::default() {
        return;
    }
    // Another screen may have been left meanwhile: only what was changed on this one is written over.
    if let Err(error) = try_write(path, &changed.or(&read(path))) {
        tracing::warn!("cannot save the layout in {}: {error}", path.display());
    }
}

/// Writes a file beside it and puts that in its place, so that it is never half written.
fn try_write(path: &Path, layout: &Layout) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("no folder"))?;
    // Root would make folders and files wherever the links of another user's home lead.
    if trust::privileged() {
        trust::folder(folder)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let text = toml::to_string(layout).map_err(io::Error::other)?;
    // Only its owner may read it.
    let mut file = tempfile::Builder::new().prefix(".layout.").tempfile_in(folder)?;
    write!(file, "# The layout of trainmon's screen when it was last closed.\n{text}")?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;
    use trainmon_tui::pages::Page;
    use trainmon_tui::pages::processes::{ProcessColumn, Sort};

    #[test]
    fn what_is_written_is_read_and_belongs_to_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/trainmon/layout.toml");
        assert_eq!(read(&path), Layout::default());
        let first = Layout {
            page: Some(Page::Gpu),
            sort: Some(Sort { column: ProcessColumn::Memory, reversed: true }),
            columns: Some(vec![ProcessColumn::Cpu, ProcessColumn::Pid]),
            time_scale: "5m".parse().ok(),
            theme: "light".parse().ok(),
            ..Layout::default()
        };
        write(&path, &first);
        assert_eq!(read(&path), first);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // Another screen's changes stay.
        write(&path, &Layout { page: Some(Page::Io), mouse: Some(false), ..Layout::default() });
        assert_eq!(read(&path), Layout { page: Some(Page::Io), mouse: Some(false), ..first });
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_cannot_be_used_is_no_layout_and_is_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("layout.toml");
        for text in ["page = ", "page = \"home\"", "colour = 1", "tree = 7", "\u{0}", &"#".repeat(70_000)] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path), Layout::default(), "{}", &text[..text.len().min(20)]);
        }
        let changed = Layout { tree: Some(true), ..Layout::default() };
        write(&path, &changed);
        assert_eq!(read(&path), changed);
    }

    #[test]
    fn a_pipe_or_a_folder_in_its_place_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()), Layout::default());
        write(directory.path(), &Layout { tree: Some(true), ..Layout::default() });
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read(&pipe), Layout::default());
    }

    proptest! {
        #[test]
        fn any_text_is_a_layout_or_none(text in "\\PC*|((page|sort|tree|mouse|theme) = (\"[a-z]{0,5}\"|true|1)\n)*") {
            let _: Result<Layout, _> = toml::from_str(&text);
        }
    }
}
