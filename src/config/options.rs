//! Every option, once: the field holds its value, its doc comment is its help on the command line and its comment in the
//! printed configuration, `default_value` its default, `value_parser` (or its type) its check.
//!
//! The name of a field is its key in the configuration file and, unless `long` says otherwise, its flag. A switch that is
//! on by default has the flag `--no-KEY`, and its help says what the flag does.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, CommandFactory, Parser};
use serde::{Deserialize, Serialize};

use super::values;
use crate::outputs::log::Existing;
use crate::rates::GpuChoice;
use crate::tui::Layout;
use crate::tui::keys::Keymap;

/// Options that name what is executed, loaded, or read with the rights of trainmon's own file, which are not the caller's.
pub(super) const NAMING: [&str; 4] = ["py_spy", "nvml_lib", "proc_root", "sys_root"];

/// What every command works with.
#[derive(Debug, Clone, PartialEq, Parser, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Settings {
    /// What only the command line says.
    #[command(flatten)]
    #[serde(skip)]
    pub call: Call,

    /// Time between two frames or rows: 100ms to 1h, a bare number is seconds.
    #[arg(short, long, value_name = "TIME", value_parser = values::parse_interval, default_value = "1s",
        allow_negative_numbers = true, help_heading = "Timing")]
    #[serde(deserialize_with = "values::interval", serialize_with = "values::write_time")]
    pub interval: Duration,
    /// Devices to watch, by index (0) or UUID (GPU-8f3c5a90), instead of those that the job is seen to use.
    #[arg(id = "gpu", long, value_name = "GPU[,GPU]", value_delimiter = ',', help_heading = "Target")]
    #[serde(rename = "gpu")]
    pub gpus: Option<Vec<GpuChoice>>,

    /// Write trainmon's own messages to this file (RUST_LOG sets how many).
    #[arg(long, value_name = "PATH", help_heading = "Log")]
    pub log_file: Option<PathBuf>,

    /// Never start py-spy: no worker stages and no source lines.
    #[arg(long = "no-stacks", action = ArgAction::SetFalse, help_heading = "Sources")]
    pub stacks: bool,
    /// The py-spy program, where it is not beside trainmon, on the path or beside the target's interpreter.
    #[arg(long, value_name = "PATH", help_heading = "Sources")]
    pub py_spy: Option<PathBuf>,
    /// Never read what needs the right to attach with ptrace (/proc/PID/syscall).
    #[arg(long = "no-ptrace", action = ArgAction::SetFalse, help_heading = "Sources")]
    pub ptrace: bool,
    /// NVML library to load instead of libnvidia-ml.so.1.
    #[arg(long, value_name = "PATH", help_heading = "Sources")]
    pub nvml_lib: Option<PathBuf>,
    /// Show and store passwords, tokens and keys in command lines, paths and source lines as they are, instead of `***`.
    #[arg(long, help_heading = "Sources")]
    pub show_secrets: bool,
    /// Read this tree instead of /proc.
    #[arg(long, value_name = "PATH", default_value = "/proc", hide_default_value = true, help_heading = "Sources")]
    pub proc_root: PathBuf,
    /// Read this tree instead of /sys.
    #[arg(long, value_name = "PATH", default_value = "/sys", hide_default_value = true, help_heading = "Sources")]
    pub sys_root: PathBuf,

    /// Draw with ASCII characters only; set by itself where the locale is not UTF-8.
    #[arg(short = 'U', long, help_heading = "Screen")]
    pub ascii: bool,
    /// No colours (also: NO_COLOR in the environment).
    #[arg(long = "no-color", visible_alias = "no-colour", action = ArgAction::SetFalse,
        help_heading = "Screen")]
    pub color: bool,
    /// No signals and no renice: look only.
    #[arg(long, help_heading = "Screen")]
    pub readonly: bool,
    /// Signals and nice values may be sent from the page of processes, each after a question; --readonly wins.
    #[arg(long, help_heading = "Screen", hide_short_help = true)]
    pub signals: bool,
    /// How long moments are kept to go back to: 1m to 24h. Their memory is bounded as well, at 24 MiB for each job.
    #[arg(long, value_name = "TIME", value_parser = values::parse_history, default_value = "1h",
        allow_negative_numbers = true, help_heading = "Screen", hide_short_help = true)]
    #[serde(deserialize_with = "values::history", serialize_with = "values::write_time")]
    pub history: Duration,
    /// Do not open the screen as it was left the last time, nor keep how it is left.
    ///
    /// It is kept in $XDG_STATE_HOME/trainmon/layout.toml: theme, low bandwidth, mouse, time scale, and the table of
    /// processes. What the configuration or the command line says of these wins over what was kept.
    #[arg(long = "no-keep-layout", action = ArgAction::SetFalse, help_heading = "Screen",
        hide_short_help = true)]
    pub keep_layout: bool,
    /// What the command line and the file say of how the screen is arranged.
    #[command(flatten, next_help_heading = "Screen")]
    #[serde(skip)]
    pub layout: Layout,

    /// Which key does what: the file's `[keys]`.
    #[arg(skip)]
    #[serde(skip)]
    pub keymap: Keymap,
    /// What was left out of these settings and why, a line each, for standard error.
    #[arg(skip)]
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Where the layout is stored; none where nothing is.
    #[arg(skip)]
    #[serde(skip)]
    pub layout_file: Option<PathBuf>,
}

/// Options of one call: they stand on the command line only.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Call {
    /// The process to attach to, with everything it starts.
    #[arg(short, long, value_name = "PID", value_parser = values::parse_pid,
        allow_negative_numbers = true, help_heading = "Target")]
    pub pid: Option<u32>,
    /// Stop after this time (500ms, 20s, 5m, 1h) [diagnose: 20s].
    #[arg(long, value_name = "TIME", value_parser = values::parse_duration,
        allow_negative_numbers = true, help_heading = "Timing")]
    pub duration: Option<Duration>,
    /// Stop after this many frames or rows.
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..),
        allow_negative_numbers = true, help_heading = "Timing")]
    pub iterations: Option<u64>,
    /// Headless: write one CSV row per interval to this file, or to standard output with `-`.
    #[arg(long, value_name = "PATH|-", help_heading = "Log")]
    pub log: Option<PathBuf>,
    /// Overwrite an existing --log file or recording.
    #[arg(long, help_heading = "Log")]
    pub force: bool,
    /// Go on at the end of an existing --log file, whose header must match.
    #[arg(long, conflicts_with = "force", help_heading = "Log")]
    pub append: bool,
}

impl Call {
    /// What to do where the file of a log or recording exists.
    pub fn existing(&self) -> Existing {
        match (self.force, self.append) {
            (true, _) => Existing::Overwrite,
            (_, true) => Existing::Append,
            _ => Existing::Refuse,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self::parse_from([""]);
        // Defaults of the screen's arrangement are the screen's to take: said here they would win over what was kept.
        settings.layout = Layout::default();
        settings
    }
}

/// The options that a file says as well, in the order in which they stand here.
pub(super) fn of_files() -> Vec<Arg> {
    let of_calls = Call::augment_args(clap::Command::new("call"));
    let of_calls: Vec<_> = of_calls.get_arguments().map(Arg::get_id).collect();
    Settings::command().get_arguments().filter(|option| !of_calls.contains(&option.get_id())).cloned().collect()
}

/// The key of an option in files.
pub(super) fn key(option: &Arg) -> String {
    option.get_id().as_str().replace('_', "-")
}
