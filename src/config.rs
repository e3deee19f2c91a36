//! One validated set of settings: command line over configuration file over defaults. It acts on none of them: `commands` do.
//!
//! The file is TOML, `$XDG_CONFIG_HOME/trainmon/config.toml` or `-c FILE`. A key that is not known is refused with
//! its line and column, so that a misspelt setting is never silently without effect. `assets/config.toml` is what is
//! printed by default: every key with its default. Each option is defined once, in [`options`].
//!
//! How the screen is arranged is kept from one time to the next as well; what the command line or the file says about it
//! wins over what was kept.

mod file;
pub mod layout_store;
mod options;
mod print;
mod small_file;
pub mod themes;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};

pub use options::{Call, Settings};
use trainmon_base::errors::Failure;
use trainmon_base::trust;
use trainmon_tui::arrangement::check_distinct;
use trainmon_tui::theme;
pub use values::{parse_pid, parse_profile_length, parse_window};

/// How long `diagnose` watches without `--duration`.
pub const DIAGNOSE_DURATION: Duration = Duration::from_secs(20);

impl Settings {
    /// Lays what was said on the command line over the environment over the configuration file over the defaults.
    /// `file` is the one of `-c`; `environment` gives environment variables.
    pub fn load(
        file: Option<&Path>,
        matches: &ArgMatches,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        if trust::is_secure() {
            refuse_named(file, matches)?;
        }
        let mut settings = match (file, default_path(&environment)) {
            (Some(path), _) => file::read(path, true)?,
            (None, Some(path)) => file::read(&path, false)?,
            (None, None) => Self::default(),
        };
        // https://no-color.org: present and not empty.
        settings.color &= environment("NO_COLOR").is_none_or(|value| value.is_empty());
        settings.ascii |= !utf8_locale(&environment);
        let usage = |error: clap::Error| Failure::usage(error.to_string());
        settings.update_from_arg_matches(&without_defaults(matches)).map_err(usage)?;
        let layout = &mut settings.layout;
        layout.theme = layout.theme.take().map(|theme| themes::beside(theme, Path::new("")));
        if let Some(Err(why)) = layout.columns.as_deref().map(check_distinct) {
            return Err(Failure::usage(format!("--columns: {why}")));
        }
        let keeps_layout = settings.keep_layout && !trust::is_secure();
        settings.layout_file = keeps_layout.then(|| layout_path(&environment)).flatten();
        Ok(settings)
    }
}

/// Refuses what a caller without these rights may not name. Logs and recordings are allowed: the caller's own rights open them.
fn refuse_named(file: Option<&Path>, matches: &ArgMatches) -> Result<(), Failure> {
    let named = options::NAMING.into_iter().find(|id| is_said(matches, id)).or(file.map(|_| "config"));
    named.map_or(Ok(()), |id| {
        Err(Failure::usage(format!(
            "--{} is refused: this trainmon is setuid or has file capabilities; use a copy without them",
            id.replace('_', "-")
        )))
    })
}

/// What was said on the command line: the parser fills its own defaults in, which must not win over a file.
fn without_defaults(matches: &ArgMatches) -> ArgMatches {
    let mut said = matches.clone();
    for id in matches.ids().filter(|id| !is_said(matches, id.as_str())) {
        // It is there: it was listed just now.
        let _ = said.try_clear_id(id.as_str());
    }
    said
}

/// Whether an option was said on the command line.
pub fn is_said(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// `$XDG_CONFIG_HOME/trainmon/config.toml`, else `~/.config/trainmon/config.toml` (XDG base directories).
fn default_path(environment: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(folder(environment, "XDG_CONFIG_HOME", ".config")?.join("config.toml"))
}

/// `$XDG_STATE_HOME/trainmon/layout.toml`, else `~/.local/state/trainmon/layout.toml`.
fn layout_path(environment: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A home that is not there, as services have, is not made.
    let here = |name: &str| environment(name).filter(|path| name != "HOME" || Path::new(path).is_dir());
    Some(state_folder(&here)?.join("layout.toml"))
}

/// `$XDG_STATE_HOME/trainmon`, else `~/.local/state/trainmon`.
pub fn state_folder(environment: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    folder(environment, "XDG_STATE_HOME", ".local/state")
}

/// Our folder in a base directory: the variable's where it is an absolute path, else the one in the home directory.
fn folder(environment: &impl Fn(&str) -> Option<OsString>, variable: &str, at_home: &str) -> Option<PathBuf> {
    let base = environment(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(PathBuf::from(environment("HOME")?).join(at_home)))?;
    Some(base.join("trainmon"))
}

/// Whether the locale's characters are UTF-8. Where nothing is set, as in most containers, the terminal outside
/// decides, and all but the Linux console draw braille and boxes.
pub fn utf8_locale(environment: &impl Fn(&str) -> Option<OsString>) -> bool {
    let variable = |name: &str| Some(environment(name)?.to_string_lossy().into_owned());
    theme::utf8_locale(&variable).unwrap_or_else(|| environment("TERM").is_none_or(|term| term != "linux"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;

    use super::file::parse;
    use super::*;
    use trainmon_rates::GpuChoice;
    use trainmon_tui::pages::Page;

    const SAMPLE: &str = include_str!("../assets/config.toml");

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    /// The settings of a command line.
    fn load(
        file: Option<&Path>,
        arguments: &[&str],
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Settings, Failure> {
        let matches = Settings::command().try_get_matches_from([&["trainmon"], arguments].concat()).unwrap();
        Settings::load(file, &matches, environment)
    }

    #[test]
    fn the_sample_is_the_defaults() {
        assert_eq!(parse(SAMPLE).unwrap(), Settings::default());
    }

    #[test]
    fn the_sample_shows_every_key() {
        let unknown = parse("x = 1").unwrap_err();
        let keys: Vec<&str> = unknown.split('`').skip(3).step_by(2).collect();
        assert_eq!(keys.len(), options::of_files().len(), "{unknown}");
        for key in keys {
            let shown = SAMPLE.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{key} = ")));
            assert!(shown, "{key} is missing from assets/config.toml");
        }
        // What is commented out must be right as well.
        let all: String = SAMPLE
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line))
            .fold(String::new(), |text, line| text + line + "\n");
        assert!(parse(&all).is_ok(), "{:?}", parse(&all));
    }

    #[test]
    fn bad_values_are_refused_with_their_place() {
        for (text, expected) in [
            ("theme = \"pink\"", "line 1, column 9: `pink` is not one of auto, dark"),
            ("\npage = \"home\"", "line 2, column 8: `home` is not one of overview, chain"),
            ("time-scale = \"7m\"", "line 1, column 14: `7m` is not one of auto, 10s, 30s"),
            ("columns = [\"pid\", \"pid\"]", "line 1, column 11: `pid` is listed twice"),
            ("columns = []", "line 1, column 11: at least one"),
            ("sort = \"-size\"", "line 1, column 8: `size` is not one of"),
            ("history = \"30s\"", "line 1, column 11: use a history of 1m to 24h"),
            ("tree = 1", "line 1, column 8: invalid type"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.starts_with(expected), "{text}: {why}");
        }
    }

    #[test]
    fn the_screen_is_arranged_by_the_command_line_then_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.toml");
        let text = "theme = \"mine.toml\"\nlow-bandwidth = false\nmouse = true\ntree = true\nkeep-layout = false\n";
        std::fs::write(&path, text).unwrap();
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/me"));
        let settings = load(Some(&path), &[], home).unwrap();
        let theme = directory.path().join("mine.toml");
        assert_eq!(settings.layout.theme.unwrap().as_str(), theme.to_str().unwrap(), "beside the configuration");
        assert_eq!((settings.layout.low_bandwidth, settings.layout.page), (Some(false), None));
        assert_eq!(settings.layout_file, None);
        let arguments = ["--low-bandwidth", "--no-mouse", "--theme", "light", "--page", "gpu"];
        let layout = load(Some(&path), &arguments, home).unwrap().layout;
        assert_eq!((layout.low_bandwidth, layout.mouse, layout.tree), (Some(true), Some(false), Some(true)));
        assert_eq!((layout.theme.unwrap().as_str(), layout.page), ("light", Some(Page::Gpu)));
        let why = load(None, &["--columns", "pid,cpu,pid"], home).unwrap_err().to_string();
        assert_eq!(why, "--columns: `pid` is listed twice");
    }

    #[test]
    fn the_layout_is_kept_among_the_state_of_programs() {
        let home = tempfile::tempdir().unwrap();
        let load = |variable: &str, path: &Path| {
            let environment = |name: &str| (name == variable).then(|| path.as_os_str().to_owned());
            load(None, &[], environment).unwrap().layout_file
        };
        assert_eq!(load("HOME", home.path()), Some(home.path().join(".local/state/trainmon/layout.toml")));
        assert_eq!(load("HOME", Path::new("/nonexistent")), None);
        assert_eq!(load("XDG_STATE_HOME", Path::new("/x")), Some(PathBuf::from("/x/trainmon/layout.toml")));
    }

    #[test]
    fn unknown_keys_are_refused_with_their_place() {
        let why = parse("interval = 2\n  intervall = 3\nan-other = 4").unwrap_err();
        assert!(why.starts_with("line 2, column 3: unknown key `intervall`"), "{why}");
        assert_eq!(why.lines().count(), 1);
        let why = parse("interval = 2\n[keys]\nquit = [\"Q\"]").unwrap_err();
        assert!(why.starts_with("line 2, column 2: unknown key `keys`") && why.lines().count() == 1, "{why}");
        let why = parse("interval = \"0\"").unwrap_err();
        assert!(why.contains("100ms to 1h"), "{why}");
        let why = parse("interval = [").unwrap_err();
        assert_eq!(why.lines().count(), 1);
    }

    #[test]
    fn the_command_line_beats_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.toml");
        std::fs::write(&path, "interval = \"5s\"\nascii = true\ngpu = [0, \"GPU-1\"]\nstacks = false\n").unwrap();
        let settings = load(Some(&path), &[], nothing).unwrap();
        assert_eq!(settings.interval, Duration::from_secs(5));
        assert!(settings.ascii && !settings.stacks);
        assert_eq!(settings.gpus.as_ref().unwrap().len(), 2);
        // Also where it says what is the default.
        let settings = load(Some(&path), &["--interval", "1s", "--gpu", "1"], nothing).unwrap();
        assert_eq!(settings.interval, Duration::from_secs(1));
        assert_eq!(settings.gpus, Some(vec![GpuChoice::Index(1)]));
        assert!(settings.ascii && !settings.stacks);
    }

    #[test]
    fn a_named_file_must_exist_the_usual_one_need_not() {
        assert!(load(Some(Path::new("/nonexistent/x.toml")), &[], nothing).is_err());
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/nonexistent"));
        let settings = load(None, &[], home).unwrap();
        assert_eq!(Settings { layout_file: None, ..settings }, Settings::default());
    }

    #[test]
    fn the_locale_decides_on_ascii() {
        let with = |variable: &'static str, value: &'static str| {
            move |name: &str| (name == variable).then(|| OsString::from(value))
        };
        assert!(utf8_locale(&nothing));
        assert!(!utf8_locale(&with("LC_ALL", "C")));
        assert!(utf8_locale(&with("LANG", "en_US.UTF-8")));
        assert!(!utf8_locale(&with("TERM", "linux")));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(text in "\\PC*|([a-z-]{1,9} = [0-9a-z\".\\[\\]]{0,9}\n)*") {
            if let Err(why) = parse(&text) { prop_assert_eq!(why.lines().count(), 1); }
        }
    }
}
