//! One validated set of settings: command line over configuration file over defaults.
//!
//! The file is TOML, `$XDG_CONFIG_HOME/trainmon/config.toml` or `-c FILE`. A key that is not known is refused with
//! its line and column, so that a misspelt setting is never silently without effect. `assets/config.toml` shows
//! every key with its default.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::cli::{self, Command, Common, DiagnoseArgs, GpuSelector};
use crate::errors::Failure;

/// How long `diagnose` watches without `--duration`.
pub const DIAGNOSE_DURATION: Duration = Duration::from_secs(20);
/// A configuration file longer than this is not one.
const FILE_MAX: u64 = 1 << 20;

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
    /// The mouse may be used.
    pub mouse: bool,
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
            mouse: true,
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

/// The configuration file. Every key may be left out.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    interval: Option<Interval>,
    gpu: Option<Vec<Gpu>>,
    log_file: Option<PathBuf>,
    stacks: Option<bool>,
    py_spy: Option<PathBuf>,
    ptrace: Option<bool>,
    nvml_lib: Option<PathBuf>,
    proc_root: Option<PathBuf>,
    sys_root: Option<PathBuf>,
    ascii: Option<bool>,
    color: Option<bool>,
    readonly: Option<bool>,
    mouse: Option<bool>,
}

/// `"500ms"` or a number of seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Word")]
struct Interval(Duration);

impl TryFrom<Word> for Interval {
    type Error = String;

    fn try_from(word: Word) -> Result<Self, String> {
        cli::parse_interval(&word.text()).map(Self)
    }
}

/// `0` or `"GPU-…"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Word")]
struct Gpu(GpuSelector);

impl TryFrom<Word> for Gpu {
    type Error = String;

    fn try_from(word: Word) -> Result<Self, String> {
        cli::parse_gpu(&word.text()).map(Self)
    }
}

/// A value that may be written with or without quotes.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a number is expected")]
enum Word {
    Text(String),
    Whole(i64),
    Number(f64),
}

impl Word {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
        }
    }
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
            (Some(path), _) => read(path, true)?,
            (None, Some(path)) => read(&path, false)?,
            (None, None) => File::default(),
        };
        let mut settings = Self::default();
        settings.take_file(file);
        settings.take_environment(&environment);
        settings.take_command_line(common);
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
        set(&mut self.mouse, file.mouse);
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

    fn take_command_line(&mut self, common: &Common) {
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
        self.mouse &= !common.no_mouse;
        self.ascii |= common.ascii;
        self.readonly |= common.readonly;
        self.existing = match (common.force, common.append) {
            (true, _) => Existing::Overwrite,
            (_, true) => Existing::Append,
            _ => Existing::Refuse,
        };
        self.log = common.log.as_ref().map(|path| LogSettings { path: path.clone(), existing: self.existing });
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
    let base = environment("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(base.join("trainmon").join("config.toml"))
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

fn read(path: &Path, wanted: bool) -> Result<File, Failure> {
    let fail = |why: String| Failure::usage(format!("configuration {}: {why}", path.display()));
    let mut text = String::new();
    match std::fs::File::open(path) {
        Ok(file) => {
            file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !wanted => return Ok(File::default()),
        Err(error) => return Err(fail(error.to_string())),
    }
    if text.len() as u64 > FILE_MAX {
        return Err(fail("longer than 1 MiB: not a configuration".to_owned()));
    }
    parse(&text).map_err(fail)
}

/// Parses the text of a configuration file.
fn parse(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        let message = error.message().replace("unknown field", "unknown key").replace('\n', " ");
        format!("line {line}, column {column}: {message}")
    })
}

/// Line and column of a byte offset, counted from 1, columns in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert_eq!(keys.len(), 13, "{unknown}");
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
        assert_eq!(Settings::load(&Common::default(), None, home).unwrap(), Settings::default());
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
