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
use trainmon_outputs::log::Existing;
use trainmon_rates::GpuChoice;
use trainmon_tui::Layout;
use trainmon_views::cost::Price;

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

    /// Time between two samples, 100ms to 1h; a bare number is seconds.
    #[arg(short, long, value_name = "TIME", value_parser = values::parse_interval, default_value = "1s",
        allow_negative_numbers = true, help_heading = "Timing")]
    #[serde(deserialize_with = "values::interval", serialize_with = "values::write_time")]
    pub interval: Duration,
    /// GPUs to watch instead of the job's, by index (0) or UUID (GPU-8f3c5a90).
    #[arg(id = "gpu", long, value_name = "GPU[,GPU]", value_delimiter = ',', help_heading = "Target")]
    #[serde(rename = "gpu")]
    pub gpus: Option<Vec<GpuChoice>>,

    /// Price of a GPU hour, 1.21 or $1.21: reports and the History page then show what waiting costs.
    #[arg(long, value_name = "$1.21", value_parser = str::parse::<Price>, help_heading = "Target")]
    pub price: Option<Price>,

    /// Write trainmon's own messages to this file; RUST_LOG sets the level.
    #[arg(long, value_name = "PATH", help_heading = "Log")]
    pub log_file: Option<PathBuf>,

    /// Do not run py-spy: no worker stages, no source lines.
    #[arg(long = "no-stacks", action = ArgAction::SetFalse, help_heading = "Sources")]
    pub stacks: bool,
    /// py-spy to use, instead of the one next to trainmon, on PATH or next to the job's Python.
    #[arg(long, value_name = "PATH", help_heading = "Sources")]
    pub py_spy: Option<PathBuf>,
    /// Do not read /proc/PID/syscall, which needs permission to ptrace the job.
    #[arg(long = "no-ptrace", action = ArgAction::SetFalse, help_heading = "Sources")]
    pub ptrace: bool,
    /// NVML library to load instead of libnvidia-ml.so.1.
    #[arg(long, value_name = "PATH", help_heading = "Sources")]
    pub nvml_lib: Option<PathBuf>,
    /// Show passwords, tokens and keys as they are instead of `***`.
    ///
    /// They occur in command lines, paths and source lines. Recordings then hold them too.
    #[arg(long, help_heading = "Sources")]
    pub show_secrets: bool,
    /// Read this directory instead of /proc.
    #[arg(long, value_name = "PATH", default_value = "/proc", hide_default_value = true, help_heading = "Sources")]
    pub proc_root: PathBuf,
    /// Read this directory instead of /sys.
    #[arg(long, value_name = "PATH", default_value = "/sys", hide_default_value = true, help_heading = "Sources")]
    pub sys_root: PathBuf,

    /// Draw in ASCII; the default if the locale is not UTF-8.
    #[arg(short = 'U', long, help_heading = "Screen")]
    pub ascii: bool,
    /// Do not use colors, like NO_COLOR=1.
    #[arg(long = "no-color", visible_alias = "no-colour", action = ArgAction::SetFalse,
        help_heading = "Screen")]
    pub color: bool,
    /// Never send signals; wins over --signals.
    #[arg(long, help_heading = "Screen")]
    pub readonly: bool,
    /// Allow signals on the Processes page; it asks first.
    #[arg(long, help_heading = "Screen")]
    pub signals: bool,
    /// How far back the screen can go: 1m to 24h, and 24 MiB per job.
    #[arg(long, value_name = "TIME", value_parser = values::parse_history, default_value = "1h",
        allow_negative_numbers = true, help_heading = "Screen")]
    #[serde(deserialize_with = "values::history", serialize_with = "values::write_time")]
    pub history: Duration,
    /// Do not restore the layout of the last session, and do not save this one.
    ///
    /// The layout is theme, low bandwidth, mouse, time scale and process table, in $XDG_STATE_HOME/trainmon/layout.toml.
    /// The configuration file and the command line win over it.
    #[arg(long = "no-keep-layout", action = ArgAction::SetFalse, help_heading = "Screen")]
    pub keep_layout: bool,
    /// What the command line and the file say of how the screen is arranged.
    #[command(flatten, next_help_heading = "Screen")]
    #[serde(skip)]
    pub layout: Layout,

    /// What was left out of these settings and why, a line each, for standard error.
    #[arg(skip)]
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Where the layout is stored; none where nothing is.
    #[arg(skip)]
    #[serde(skip)]
    pub layout_file: Option<PathBuf>,
}

/// Options of one call, on the command line only.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Call {
    /// The same as a bare PID.
    #[arg(short, long, value_name = "PID", value_parser = values::parse_pid,
        allow_negative_numbers = true, help_heading = "Target")]
    pub pid: Option<u32>,
    /// Stop after this time: 500ms, 20s, 5m, 1h [diagnose default: 20s].
    #[arg(long, value_name = "TIME", value_parser = values::parse_duration,
        allow_negative_numbers = true, help_heading = "Timing")]
    pub duration: Option<Duration>,
    /// Stop after this many intervals.
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..),
        allow_negative_numbers = true, help_heading = "Timing")]
    pub iterations: Option<u64>,
    /// Compare the steps on the screen with those of an earlier run: a recording or a log.
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    pub against: Option<PathBuf>,
    /// Write one CSV row per interval to this file or `-`, without a screen.
    #[arg(long, value_name = "PATH|-", help_heading = "Log")]
    pub log: Option<PathBuf>,
    /// Overwrite an existing log or recording.
    #[arg(long, help_heading = "Log")]
    pub force: bool,
    /// Append to an existing log with the same header.
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
