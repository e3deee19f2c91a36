//! `--print-config`: the settings that are in effect, as a file that can be used as the configuration.
//!
//! How the screen is arranged is printed as a comment where nothing was set: set in the file it would win over what is
//! kept from the last time.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::Settings;
use crate::cli::GpuSelector;
use crate::tui::kept::{Scale, Word};
use crate::tui::page::Page;
use crate::tui::processes::{COLUMNS, Sort};

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Texts as a TOML array.
fn list(texts: impl Iterator<Item = String>) -> String {
    format!("[{}]", texts.map(|text| quoted(&text)).collect::<Vec<_>>().join(", "))
}

/// A path; TOML is UTF-8, so that one that is not loses its other bytes.
fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A time in its shortest exact words, to the microsecond.
fn time(time: Duration) -> String {
    let micros = time.as_micros();
    for (unit, length) in [("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000)] {
        if micros.is_multiple_of(length) {
            return quoted(&format!("{}{unit}", micros / length));
        }
    }
    quoted(&format!("{}.{:06}s", micros / 1_000_000, micros % 1_000_000))
}

impl Settings {
    /// The settings in effect as a configuration file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# trainmon's settings as they are in effect; usable as a configuration file.\n");
        let mut line = |key: &str, value: Option<String>, otherwise: &str| {
            // Writing to a String cannot fail.
            let _ = match value {
                Some(value) => writeln!(text, "{key} = {value}"),
                None => writeln!(text, "# {key} = {otherwise}"),
            };
        };
        let on = |on: bool| Some(on.to_string());
        line("interval", Some(time(self.interval)), "");
        let gpus = self.gpus.as_ref().map(|gpus| {
            let gpus = gpus.iter().map(|gpu| match gpu {
                GpuSelector::Index(index) => index.to_string(),
                GpuSelector::Uuid(uuid) => quoted(uuid),
            });
            format!("[{}]", gpus.collect::<Vec<_>>().join(", "))
        });
        line("gpu", gpus, "[0]");
        line("nvml-lib", self.nvml_lib.as_deref().map(path), "\"libnvidia-ml.so.1\"");
        line("ptrace", on(self.ptrace), "");
        line("stacks", on(self.stacks), "");
        line("py-spy", self.py_spy.as_deref().map(path), "\"py-spy\"");
        line("proc-root", Some(path(&self.proc_root)), "");
        line("sys-root", Some(path(&self.sys_root)), "");
        line("log-file", self.log_file.as_deref().map(path), "\"trainmon.log\"");
        line("ascii", on(self.ascii), "");
        line("color", on(self.color), "");
        line("readonly", on(self.readonly), "");
        line("signals", on(self.signals), "");
        line("history", Some(time(self.history)), "");
        line("keep-layout", on(self.keep_layout), "");
        let layout = &self.layout;
        let columns = |columns: &[_]| list(columns.iter().map(Word::to_word));
        let word = |word: String| quoted(&word);
        line("theme", layout.theme.as_ref().map(|theme| word(theme.to_word())), "\"auto\"");
        line("low-bandwidth", layout.low_bandwidth.and_then(on), "false");
        line("mouse", layout.mouse.and_then(on), "true");
        line("page", layout.page.map(|page| word(page.to_word())), &word(Page::default().to_word()));
        let scale = |scale: Scale| word(scale.to_word());
        line("time-scale", layout.time_scale.map(scale), &scale(Scale::default()));
        line("sort", layout.sort.map(|sort| word(sort.to_word())), &word(Sort::default().to_word()));
        line("columns", layout.columns.as_deref().map(columns), &columns(&COLUMNS));
        line("tree", layout.tree.and_then(on), "false");
        line("threads", layout.threads.and_then(on), "false");
        text.push_str("\n[keys]\n");
        for (binding, keys) in self.keymap.lines() {
            let keys = list(keys.iter().map(ToString::to_string));
            let _ = writeln!(text, "{} = {keys}", binding.id);
        }
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::super::file::parse;
    use super::*;
    use crate::tui::kept::{Layout, ThemeName};
    use crate::tui::keys::{Chord, Keymap};
    use crate::tui::processes::Column;

    /// The settings that a printed configuration makes.
    fn back(text: &str) -> Settings {
        let mut settings = Settings::default();
        settings.take_file(parse(text).unwrap());
        settings
    }

    #[test]
    fn the_defaults_are_read_back() {
        let text = Settings::default().to_toml();
        assert_eq!(back(&text), Settings::default());
        // What is a comment must be right as well: it is there to be used.
        let all: Vec<_> = text.lines().map(|l| l.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(l)).collect();
        parse(&all.join("\n")).unwrap();
    }

    fn choice<T: std::fmt::Debug + Clone + 'static>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
        prop::option::of(of)
    }

    prop_compose! {
        fn layouts()(
            page in choice(prop::sample::select(Page::ALL.to_vec())),
            scale in choice(prop::sample::select(vec!["10s", "1m", "1h"])),
            column in choice(prop::sample::select(Column::ALL.to_vec())),
            reversed in any::<bool>(),
            columns in choice(prop::sample::subsequence(Column::ALL.to_vec(), 1..5).prop_shuffle()),
            switches in prop::array::uniform4(prop::option::of(any::<bool>())),
            theme in choice(prop_oneof![Just("dark".to_owned()), "[a-z\"' \\\\]{1,8}/x\\.toml"]),
        ) -> Layout {
            let [tree, threads, low_bandwidth, mouse] = switches;
            Layout {
                page,
                time_scale: scale.map(|word| Scale::of_word(word).unwrap()),
                sort: column.map(|column| Sort { column, reversed }),
                columns,
                tree,
                threads,
                theme: theme.map(|name| ThemeName::of_word(&name).unwrap()),
                low_bandwidth,
                mouse,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            layout in layouts(),
            micros in 100_000u64..3_600_000_000,
            minutes in 1u64..=1440,
            switches in prop::array::uniform8(any::<bool>()),
            root in "/\\PC{0,12}",
            py_spy in choice("\\PC{1,12}"),
            gpus in choice(prop::collection::vec(0u32..16, 0..3)),
            key in prop::sample::select(vec!["x", "Ctrl-x", "\"", "Shift-F3", "é"]),
        ) {
            let [ptrace, stacks, ascii, color, readonly, signals, keep_layout, bound] = switches;
            let keys = if bound { vec![key.parse::<Chord>().unwrap()] } else { Vec::new() };
            let settings = Settings {
                interval: Duration::from_micros(micros),
                history: Duration::from_secs(minutes * 60),
                proc_root: root.into(),
                py_spy: py_spy.map(Into::into),
                gpus: gpus.map(|gpus| gpus.into_iter().map(GpuSelector::Index).collect()),
                keymap: Keymap::default().rebind(&[("copy", keys)]).unwrap(),
                layout, ptrace, stacks, ascii, color, readonly, signals, keep_layout,
                ..Settings::default()
            };
            prop_assert_eq!(back(&settings.to_toml()), settings);
        }
    }
}
