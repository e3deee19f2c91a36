//! One validated set of settings: command line over configuration file over defaults.
//!
//! The file is TOML, `$XDG_CONFIG_HOME/trainmon/config.toml` or `-c FILE`. A key that is not known is refused with
//! its line and column, so that a misspelt setting is never silently without effect. `assets/config.toml` shows
//! every key with its default.
//!
//! How the screen is arranged is kept from one time to the next as well; what the command line or the file says about it
//! wins over what was kept.

mod file;
mod keys;
mod print;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::{Command, Common, DiagnoseArgs, GpuSelector};
use crate::errors::Failure;
use crate::tui::kept::{Layout, ThemeName, Word};
use crate::tui::keys::Keymap;
use file::File;

/// How long `diagnose` watches without `--duration`.
pub const DIAGNOSE_DURATION: Duration = Duration::from_secs(20);
/// How long moments are kept unless the configuration says otherwise.
pub const HISTORY: Duration = Duration::from_secs(3600);

/// What every command works with.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The process to attach to.
    pub pid: Option<u32>,
    /// Devices named by hand.
    pub gpus: Option<Vec<GpuSelector>>,
    /// Time between two frames.
    pub interval: Duration,
    /// When to stop.
    pub duration: Option<Duration>,
    /// After how many frames to stop.
    pub iterations: Option<u64>,
    /// Where the CSV goes; `None` means the screen.
    pub log: Option<LogSettings>,
    /// What to do where the file of a log or recording exists.
    pub existing: Existing,
    /// Where trainmon's own messages go.
    pub log_file: Option<PathBuf>,
    /// py-spy may be started.
    pub stacks: bool,
    /// The py-spy program, where it is not the one on the path.
    pub py_spy: Option<PathBuf>,
    /// Files that need the right to attach with ptrace may be read.
    pub ptrace: bool,
    /// NVML library instead of `libnvidia-ml.so.1`.
    pub nvml_lib: Option<PathBuf>,
    /// Instead of `/proc`.
    pub proc_root: PathBuf,
    /// Instead of `/sys`.
    pub sys_root: PathBuf,
    /// ASCII characters only.
    pub ascii: bool,
    /// Colours may be used.
    pub color: bool,
    /// No signals and no renice.
    pub readonly: bool,
    /// Signals and nice values may be sent from the screen, unless `readonly` says otherwise.
    pub signals: bool,
    /// How long moments are kept.
    pub history: Duration,
    /// How the screen is arranged is kept from one time to the next.
    pub keep_layout: bool,
    /// Where it is kept; none where nothing is.
    pub layout_file: Option<PathBuf>,
    /// What the command line and the file say of how the screen is arranged.
    pub layout: Layout,
    /// Which key does what.
    pub keymap: Keymap,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pid: None,
            gpus: None,
            interval: Duration::from_secs(1),
            duration: None,
            iterations: None,
            log: None,
            existing: Existing::Refuse,
            log_file: None,
            stacks: true,
            py_spy: None,
            ptrace: true,
            nvml_lib: None,
            proc_root: PathBuf::from("/proc"),
            sys_root: PathBuf::from("/sys"),
            ascii: false,
            color: true,
            readonly: false,
            signals: false,
            history: HISTORY,
            keep_layout: true,
            layout_file: None,
            layout: Layout::default(),
            keymap: Keymap::default(),
        }
    }
}

/// Where the CSV goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// File, or `-` for standard output.
    pub path: PathBuf,
    /// What to do where the file exists.
    pub existing: Existing,
}

/// What to do with an existing log file or recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    #[default]
    Refuse,
    /// Overwrite (`--force`).
    Overwrite,
    /// Go on at its end (`--append`).
    Append,
}

impl Settings {
    /// Merges the command line over the configuration file over the defaults and checks that they fit together.
    /// `environment` gives environment variables.
    ///
    /// # Errors
    /// A [`Failure`] of kind usage, one line.
    pub fn load(
        common: &Common,
        command: Option<&Command>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        let file = match (&common.config, default_path(&environment)) {
            (Some(path), _) => file::read(path, true)?,
            (None, Some(path)) => file::read(&path, false)?,
            (None, None) => File::default(),
        };
        let mut settings = Self::default();
        settings.take_file(file);
        settings.take_environment(&environment);
        settings.take_command_line(common)?;
        settings.layout_file = settings.keep_layout.then(|| layout_path(&environment)).flatten();
        check(common, command)?;
        Ok(settings)
    }

    fn take_file(&mut self, file: File) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut self.interval, file.interval.map(|interval| interval.0));
        set(&mut self.stacks, file.stacks);
        set(&mut self.ptrace, file.ptrace);
        set(&mut self.proc_root, file.proc_root);
        set(&mut self.sys_root, file.sys_root);
        set(&mut self.ascii, file.ascii);
        set(&mut self.color, file.color);
        set(&mut self.readonly, file.readonly);
        set(&mut self.signals, file.signals);
        set(&mut self.history, file.history.map(|history| history.0));
        set(&mut self.keep_layout, file.keep_layout);
        self.layout = file.layout;
        self.keymap = file.keymap;
        self.gpus = file.gpu.map(|gpus| gpus.into_iter().map(|gpu| gpu.0).collect());
        self.log_file = file.log_file;
        self.py_spy = file.py_spy;
        self.nvml_lib = file.nvml_lib;
    }

    fn take_environment(&mut self, environment: &impl Fn(&str) -> Option<OsString>) {
        // https://no-color.org: present and not empty.
        if environment("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            self.color = false;
        }
        if !utf8_locale(environment) {
            self.ascii = true;
        }
    }

    fn take_command_line(&mut self, common: &Common) -> Result<(), Failure> {
        self.pid = common.pid;
        self.duration = common.duration;
        self.iterations = common.iterations;
        if let Some(interval) = common.interval {
            self.interval = interval;
        }
        for (place, value) in [
            (&mut self.log_file, &common.log_file),
            (&mut self.py_spy, &common.py_spy),
            (&mut self.nvml_lib, &common.nvml_lib),
        ] {
            if value.is_some() {
                place.clone_from(value);
            }
        }
        if let Some(root) = &common.proc_root {
            self.proc_root.clone_from(root);
        }
        if let Some(root) = &common.sys_root {
            self.sys_root.clone_from(root);
        }
        if common.gpu.is_some() {
            self.gpus.clone_from(&common.gpu);
        }
        self.stacks &= !common.no_stacks;
        self.ptrace &= !common.no_ptrace;
        self.color &= !common.no_color;
        let theme = common.theme.as_deref().map(ThemeName::of_word).transpose();
        let theme = theme.map_err(|why| Failure::usage(format!("--theme: {why}")))?;
        let said = Layout {
            theme: theme.map(|theme| file::beside(theme, Path::new(""))),
            low_bandwidth: common.low_bandwidth.then_some(true),
            mouse: common.no_mouse.then_some(false),
            ..Layout::default()
        };
        self.layout = said.or(std::mem::take(&mut self.layout));
        self.ascii |= common.ascii;
        self.readonly |= common.readonly;
        self.existing = match (common.force, common.append) {
            (true, _) => Existing::Overwrite,
            (_, true) => Existing::Append,
            _ => Existing::Refuse,
        };
        self.log = common.log.as_ref().map(|path| LogSettings { path: path.clone(), existing: self.existing });
        Ok(())
    }
}

/// Refuses options that the command has no use for.
fn check(common: &Common, command: Option<&Command>) -> Result<(), Failure> {
    let word = command.map_or("trainmon", Command::word);
    let logs = matches!(command, None | Some(Command::Run(_) | Command::Demo(_)));
    if common.log.is_some() && !logs {
        return Err(Failure::usage(format!("{word} writes no log: leave --log out")));
    }
    let records = matches!(command, Some(Command::Record(_)));
    if records && common.append {
        return Err(Failure::usage("a recording begins anew: leave --append out"));
    }
    for (given, name) in [(common.force, "--force"), (common.append, "--append")] {
        if given && common.log.is_none() && !records {
            return Err(Failure::usage(format!(
                "{name} says what to do with an existing --log file: give --log PATH too"
            )));
        }
    }
    if common.log.as_deref() == Some(Path::new("-")) && (common.force || common.append) {
        return Err(Failure::usage("standard output (--log -) is not a file: leave --force and --append out"));
    }
    let replays = matches!(
        command,
        Some(Command::Replay(_) | Command::Diagnose(DiagnoseArgs { replay: Some(_), .. }))
    );
    let live = [
        (common.pid.is_some(), "--pid"),
        (common.interval.is_some(), "--interval"),
        (common.duration.is_some(), "--duration"),
        (common.iterations.is_some(), "--iterations"),
    ];
    if let Some((_, name)) = live.iter().find(|(given, _)| replays && *given) {
        return Err(Failure::usage(format!("a recording is taken as it is: leave {name} out")));
    }
    let starts_its_own = matches!(command, Some(Command::Run(_) | Command::Demo(_)));
    if starts_its_own && common.pid.is_some() {
        return Err(Failure::usage(format!("{word} starts the process it attaches to: leave --pid out")));
    }
    Ok(())
}

/// `$XDG_CONFIG_HOME/trainmon/config.toml`, else `~/.config/trainmon/config.toml` (XDG base directories).
fn default_path(environment: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(base(environment, "XDG_CONFIG_HOME", ".config")?.join("trainmon").join("config.toml"))
}

/// `$XDG_STATE_HOME/trainmon/layout.toml`, else `~/.local/state/trainmon/layout.toml`.
fn layout_path(environment: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A home that is not there, as services have, is not made.
    let here = |name: &str| environment(name).filter(|path| name != "HOME" || Path::new(path).is_dir());
    Some(base(&here, "XDG_STATE_HOME", ".local/state")?.join("trainmon").join("layout.toml"))
}

/// A base directory: the variable where it is an absolute path, else the folder in the home directory.
fn base(environment: &impl Fn(&str) -> Option<OsString>, variable: &str, at_home: &str) -> Option<PathBuf> {
    environment(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(at_home)))
}

/// Whether the locale's characters are UTF-8. Where nothing is set, as in most containers, the terminal outside
/// decides, and all but the Linux console draw braille and boxes.
#[must_use]
pub fn utf8_locale(environment: &impl Fn(&str) -> Option<OsString>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(environment)
        .find(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().to_ascii_lowercase());
    match locale {
        Some(locale) => locale.contains("utf-8") || locale.contains("utf8"),
        None => environment("TERM").is_none_or(|term| term != "linux"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::file::parse;
    use super::*;
    use crate::tui::keys::TABLE;

    const SAMPLE: &str = include_str!("../assets/config.toml");

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    #[test]
    fn the_sample_is_the_defaults() {
        let mut settings = Settings::default();
        settings.take_file(parse(SAMPLE).unwrap());
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn the_sample_shows_every_key() {
        let unknown = parse("x = 1").unwrap_err();
        let keys: Vec<&str> = unknown.split('`').skip(3).step_by(2).collect();
        assert_eq!(keys.len(), 25, "{unknown}");
        for key in keys.into_iter().filter(|key| *key != "keys") {
            let shown = SAMPLE.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{key} = ")));
            assert!(shown, "{key} is missing from assets/config.toml");
        }
        // What is commented out must be right as well.
        let all: String = SAMPLE
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line))
            .fold(String::new(), |text, line| text + line + "\n");
        assert!(parse(&all).is_ok(), "{:?}", parse(&all));
        // All keys, with their defaults.
        let shown = SAMPLE.split_once("[keys]\n").unwrap().1;
        let expected: String = TABLE
            .iter()
            .map(|b| {
                let keys: Vec<_> = b.keys.iter().map(|k| toml::Value::String(k.to_string()).to_string()).collect();
                format!("# {} = [{}]\n", b.id, keys.join(", "))
            })
            .collect();
        assert_eq!(shown, expected);
        assert_eq!(parse(&all).unwrap().keymap, Keymap::default());
    }

    #[test]
    fn bad_values_are_refused_with_their_place() {
        for (text, expected) in [
            ("theme = \"pink\"", "line 1, column 9: `pink` is none of auto, dark"),
            ("\npage = \"home\"", "line 2, column 8: `home` is none of overview, gpu"),
            ("time-scale = \"7m\"", "line 1, column 14: `7m` is none of 10s, 30s"),
            ("columns = [\"pid\", \"pid\"]", "line 1, column 11: `pid` stands there twice"),
            ("columns = []", "line 1, column 11: at least one"),
            ("sort = \"-size\"", "line 1, column 8: `size` is none of"),
            ("history = \"30s\"", "line 1, column 11: a history is 1m to 24h"),
            ("tree = 1", "line 1, column 8: invalid type"),
            ("[keys]\nquit = [\"banana\"]", "line 2, column 9: `banana` is no key"),
            ("[keys]\nfly = [\"x\"]", "line 2, column 1: unknown action `fly`"),
            ("[keys]\ncopy = [\"x\", \"F5\"]", "line 2, column 14: F5 would do `copy` and `tree`"),
            ("[keys]\nquit = []", "line 2, column 1: `quit` needs at least one key"),
            ("[keys]\nquit = \"q\"", "line 2, column 8: invalid type: string"),
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
        let mut common = Common { config: Some(path), ..Common::default() };
        let settings = Settings::load(&common, None, home).unwrap();
        let theme = directory.path().join("mine.toml");
        assert_eq!(settings.layout.theme.unwrap().as_str(), theme.to_str().unwrap(), "beside the configuration");
        assert_eq!((settings.layout.low_bandwidth, settings.layout.page), (Some(false), None));
        assert_eq!(settings.layout_file, None);
        (common.low_bandwidth, common.no_mouse, common.theme) = (true, true, Some("light".to_owned()));
        let layout = Settings::load(&common, None, home).unwrap().layout;
        assert_eq!((layout.low_bandwidth, layout.mouse, layout.tree), (Some(true), Some(false), Some(true)));
        assert_eq!(layout.theme.unwrap().as_str(), "light");
        common.theme = Some("pink".to_owned());
        assert!(Settings::load(&common, None, home).unwrap_err().to_string().starts_with("--theme: `pink` is none of"));
    }

    #[test]
    fn the_layout_is_kept_among_the_state_of_programs() {
        let home = tempfile::tempdir().unwrap();
        let load = |variable: &str, path: &Path| {
            let environment = |name: &str| (name == variable).then(|| path.as_os_str().to_owned());
            Settings::load(&Common::default(), None, environment).unwrap().layout_file
        };
        assert_eq!(load("HOME", home.path()), Some(home.path().join(".local/state/trainmon/layout.toml")));
        assert_eq!(load("HOME", Path::new("/nonexistent")), None);
        assert_eq!(load("XDG_STATE_HOME", Path::new("/x")), Some(PathBuf::from("/x/trainmon/layout.toml")));
    }

    #[test]
    fn unknown_keys_are_refused_with_their_place() {
        let why = parse("interval = 2\n  intervall = 3\n").unwrap_err();
        assert!(why.starts_with("line 2, column 3: unknown key `intervall`"), "{why}");
        assert_eq!(why.lines().count(), 1);
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
        let mut common = Common { config: Some(path), ..Common::default() };
        let settings = Settings::load(&common, None, nothing).unwrap();
        assert_eq!(settings.interval, Duration::from_secs(5));
        assert!(settings.ascii && !settings.stacks);
        assert_eq!(settings.gpus.as_ref().unwrap().len(), 2);
        common.interval = Some(Duration::from_secs(2));
        common.gpu = Some(vec![GpuSelector::Index(1)]);
        let settings = Settings::load(&common, None, nothing).unwrap();
        assert_eq!(settings.interval, Duration::from_secs(2));
        assert_eq!(settings.gpus, Some(vec![GpuSelector::Index(1)]));
    }

    #[test]
    fn a_named_file_must_exist_the_usual_one_need_not() {
        let common = Common { config: Some(PathBuf::from("/nonexistent/x.toml")), ..Common::default() };
        assert!(Settings::load(&common, None, nothing).is_err());
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/nonexistent"));
        let settings = Settings::load(&Common::default(), None, home).unwrap();
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
