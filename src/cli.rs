//! The command line: every command and option of this version, and the small parsers of their values.
//!
//! What the words mean is decided here (durations, GPU lists, class lists), so that a bad value is refused before
//! anything starts. The values of the configuration file are merged in `config`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Parser, Subcommand, ValueEnum};

use crate::diagnosis::causes;
use crate::diagnosis::verdict::Class;

/// Shortest interval between two rows or frames.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest interval.
pub const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// Highest PID of Linux (`PID_MAX_LIMIT`, include/linux/threads.h: 4 Mi on 64-bit machines).
pub const PID_MAX: u32 = 4 * 1024 * 1024;

/// Attach to a running training job and see whether CPU, GPU, IO or the data-loader holds it back.
///
/// Without a command: the live screen, or with --log one CSV row per interval. Nothing is injected into the job and
/// nothing in it has to be changed or restarted.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "trainmon",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Exit status: 0 done · 1 failed · 2 bad usage · 3 no such process, or not allowed to see it · \
                  4 diagnose --fail-on matched"
)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub common: Common,
    /// The command; none means the live screen or the log.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands of this version.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Watch for a while, print one verdict with evidence and advice, and exit.
    Diagnose(DiagnoseArgs),
    /// Write every sample to a file, so that the run can be judged again later or elsewhere.
    Record(RecordArgs),
    /// Look at a recording: the same screen, over time.
    Replay(ReplayArgs),
    /// Start a program and attach to it; its exit code is passed on.
    Run(RunArgs),
    /// A small training-like program of our own, attached to; works on a machine without a GPU.
    Demo(DemoArgs),
    /// What can be seen from here, what cannot, and the command that mends it.
    Doctor(DoctorArgs),
    /// What the causes of verdicts mean, how each is recognised, and what to do about it.
    Explain(ExplainArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man {
        /// The page of one command (diagnose, run, …) instead of the main page.
        page: Option<String>,
    },
}

impl Command {
    /// The word on the command line.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Diagnose(_) => "diagnose",
            Self::Record(_) => "record",
            Self::Replay(_) => "replay",
            Self::Run(_) => "run",
            Self::Demo(_) => "demo",
            Self::Doctor(_) => "doctor",
            Self::Explain(_) => "explain",
            Self::Completions { .. } => "completions",
            Self::Man { .. } => "man",
        }
    }
}

/// `diagnose`.
#[derive(Debug, Clone, Default, Args)]
pub struct DiagnoseArgs {
    /// Print the verdict as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Exit with status 4 when the verdict is one of these classes.
    #[arg(long, value_name = "CLASS[,CLASS]", value_parser = parse_class, value_delimiter = ',')]
    pub fail_on: Vec<Class>,
    /// Judge a recording of `trainmon record` instead of a running process.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

/// `record`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    after_help = "A recording is JSON lines in zstd frames: zstdcat FILE | jq reads it, trainmon diagnose --replay \
                  FILE judges it."
)]
pub struct RecordArgs {
    /// The file to write, or `-` for standard output; an existing one is refused without --force.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: PathBuf,
    /// Leave out the directories in command lines, mounts and control groups, for a recording that is given to others.
    /// Other arguments stay, and so do the names of programs, disks, network interfaces and GPUs.
    #[arg(long, visible_alias = "anonymize")]
    pub anonymise: bool,
}

/// `replay`.
#[derive(Debug, Clone, Default, Args)]
pub struct ReplayArgs {
    /// A recording of `trainmon record`.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub program: Vec<OsString>,
}

/// `demo`.
#[derive(Debug, Clone, Default, Args)]
pub struct DemoArgs {
    /// What shall hold the demo back.
    #[arg(long, value_enum, default_value_t)]
    pub bottleneck: Bottleneck,
    /// Data workers of the demo, instead of those that the bottleneck needs: try what the advice says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: Option<u8>,
}

/// `doctor`.
#[derive(Debug, Clone, Default, Args)]
pub struct DoctorArgs {
    /// Print the findings as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `explain`.
#[derive(Debug, Clone, Default, Args)]
pub struct ExplainArgs {
    /// A cause, a class, or class/cause where two classes have it; without one, all of them with a line each.
    #[arg(value_name = "CAUSE", value_parser = CauseName, hide_possible_values = true)]
    pub cause: Option<String>,
    /// Print the same as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Takes what [`causes::named`] knows; completions offer the names.
#[derive(Debug, Clone)]
struct CauseName;

impl TypedValueParser for CauseName {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, _: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let text = value.to_string_lossy();
        if !causes::named(&text).is_empty() {
            return Ok(text.into_owned());
        }
        let near = causes::near(&text);
        let hint = if near.is_empty() {
            "trainmon explain lists them".to_owned()
        } else {
            format!("did you mean {}?", near.join(", "))
        };
        let message = format!("no cause is called `{}`: {hint}", crate::text::fit(&text, 40));
        Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let classes = Class::ALL.iter().map(|class| class.word());
        let mut names: Vec<_> = classes.chain(causes::all().map(|cause| cause.name)).collect();
        names.sort_unstable();
        names.dedup();
        Some(Box::new(names.into_iter().map(PossibleValue::new)))
    }
}

/// What holds the demo back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Bottleneck {
    /// One worker that is too slow, with CPUs left free.
    #[default]
    DataLoader,
    /// Work of the main thread between launches.
    Cpu,
    /// Workers that wait for a slow storage server (local, loopback only).
    Io,
    /// A simulated device that is always busy.
    Gpu,
    /// Nothing costs more than a few percent.
    Balanced,
}

impl Bottleneck {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::DataLoader, Self::Cpu, Self::Io, Self::Gpu, Self::Balanced];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::DataLoader => "data-loader",
            Self::Cpu => "cpu",
            Self::Io => "io",
            Self::Gpu => "gpu",
            Self::Balanced => "balanced",
        }
    }
}

/// Options that every command takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// The process to attach to, with everything it starts.
    #[arg(short, long, global = true, value_name = "PID", value_parser = parse_pid, allow_negative_numbers = true,
        help_heading = "Target")]
    pub pid: Option<u32>,
    /// Devices to watch, by index or UUID, instead of those that the job is seen to use.
    #[arg(long, global = true, value_name = "GPU[,GPU]", value_parser = parse_gpu, value_delimiter = ',',
        help_heading = "Target")]
    pub gpu: Option<Vec<GpuSelector>>,

    /// Time between two frames or rows: 100ms to 1h, a bare number is seconds [default: 1s].
    #[arg(short, long, global = true, value_name = "TIME", value_parser = parse_interval,
        allow_negative_numbers = true, help_heading = "Timing")]
    pub interval: Option<Duration>,
    /// Stop after this time (500ms, 20s, 5m, 1h) [diagnose: 20s].
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration_option,
        allow_negative_numbers = true, help_heading = "Timing")]
    pub duration: Option<Duration>,
    /// Stop after this many frames or rows.
    #[arg(short = 'n', long, global = true, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..),
        allow_negative_numbers = true, help_heading = "Timing")]
    pub iterations: Option<u64>,

    /// Headless: write one CSV row per interval to this file, or to standard output with `-`.
    #[arg(long, global = true, value_name = "PATH|-", help_heading = "Log")]
    pub log: Option<PathBuf>,
    /// Overwrite an existing --log file or recording.
    #[arg(long, global = true, help_heading = "Log")]
    pub force: bool,
    /// Go on at the end of an existing --log file, whose header must match.
    #[arg(long, global = true, conflicts_with = "force", help_heading = "Log")]
    pub append: bool,
    /// Write trainmon's own messages to this file (RUST_LOG sets how many).
    #[arg(long, global = true, value_name = "PATH", help_heading = "Log")]
    pub log_file: Option<PathBuf>,

    /// Never start py-spy: no worker stages and no source lines
    #[arg(long, global = true, help_heading = "Sources")]
    pub no_stacks: bool,
    /// The py-spy program, where it is neither on the path nor beside the target's interpreter
    #[arg(long, global = true, value_name = "PATH", help_heading = "Sources")]
    pub py_spy: Option<PathBuf>,
    /// Never read what needs the right to attach with ptrace (/proc/PID/syscall).
    #[arg(long, global = true, help_heading = "Sources")]
    pub no_ptrace: bool,
    /// NVML library to load instead of libnvidia-ml.so.1.
    #[arg(long, global = true, value_name = "PATH", help_heading = "Sources")]
    pub nvml_lib: Option<PathBuf>,
    /// Read this tree instead of /proc.
    #[arg(long, global = true, value_name = "PATH", help_heading = "Sources")]
    pub proc_root: Option<PathBuf>,
    /// Read this tree instead of /sys.
    #[arg(long, global = true, value_name = "PATH", help_heading = "Sources")]
    pub sys_root: Option<PathBuf>,

    /// Configuration file instead of $XDG_CONFIG_HOME/trainmon/config.toml.
    #[arg(short, long, global = true, value_name = "FILE", help_heading = "Screen")]
    pub config: Option<PathBuf>,
    /// Print the settings in effect as a configuration file, and exit.
    #[arg(long, global = true, help_heading = "Screen")]
    pub print_config: bool,
    /// Colours: auto, dark, light, high-contrast, or the path of a theme file.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Screen")]
    pub theme: Option<String>,
    /// Send few bytes to the terminal: charts sweep in place, numbers change every 5 s.
    #[arg(long, global = true, help_heading = "Screen")]
    pub low_bandwidth: bool,
    /// Draw with ASCII characters only.
    #[arg(short = 'U', long, global = true, help_heading = "Screen")]
    pub ascii: bool,
    /// No colours (also: NO_COLOR in the environment).
    #[arg(long, global = true, visible_alias = "no-colour", help_heading = "Screen")]
    pub no_color: bool,
    /// No signals and no renice: look only.
    #[arg(long, global = true, help_heading = "Screen")]
    pub readonly: bool,
    /// Leave the mouse to the terminal.
    #[arg(long, global = true, help_heading = "Screen")]
    pub no_mouse: bool,
}

/// A device named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuSelector {
    /// NVML index.
    Index(u32),
    /// UUID, or the beginning of one, as `nvidia-smi -L` prints it (`GPU-…`, `MIG-…`).
    Uuid(String),
}

impl GpuSelector {
    /// Whether a device with this index and UUID is meant.
    #[must_use]
    pub fn matches(&self, index: u32, uuid: Option<&str>) -> bool {
        match self {
            Self::Index(wanted) => *wanted == index,
            Self::Uuid(wanted) => uuid
                .is_some_and(|uuid| uuid.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted))),
        }
    }
}

/// Parses `500ms`, `20s`, `5m`, `1h`, `1.5` (seconds), `0.5s`.
///
/// # Errors
/// One short sentence for anything else, for negative times and for times over a thousand years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim_start() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ if text.starts_with('-') => return Err("a time cannot be negative".to_owned()),
        _ => return Err("write a time as 500ms, 20s, 5m or 1h".to_owned()),
    };
    let dots = number.bytes().filter(|&b| b == b'.').count();
    if number.is_empty() || dots > 1 || number.len() == dots {
        return Err("write a time as 500ms, 20s, 5m or 1h".to_owned());
    }
    let number: f64 = number.parse().map_err(|_| "write a time as 500ms, 20s, 5m or 1h".to_owned())?;
    let seconds = number * scale;
    if seconds > 1000.0 * 365.25 * 86_400.0 {
        return Err("that is more than a thousand years".to_owned());
    }
    // In whole microseconds, so that 123ms does not become 122.999…ms.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// Parses an interval between [`INTERVAL_MIN`] and [`INTERVAL_MAX`].
///
/// # Errors
/// One short sentence.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval is 100ms to 1h".to_owned())
    }
}

fn parse_duration_option(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err("the duration must be longer than 0".to_owned()) } else { Ok(duration) }
}

fn parse_pid(text: &str) -> Result<u32, String> {
    match text.trim().parse::<i64>() {
        Ok(pid) if pid >= 1 && pid <= i64::from(PID_MAX) => u32::try_from(pid).map_err(|error| error.to_string()),
        Ok(_) => Err(format!("a PID is 1 to {PID_MAX}")),
        Err(_) => Err("a PID is a number, as ps and nvidia-smi show it".to_owned()),
    }
}

/// Parses one entry of `--gpu`.
///
/// # Errors
/// One short sentence.
pub fn parse_gpu(text: &str) -> Result<GpuSelector, String> {
    let text = text.trim();
    if let Ok(index) = text.parse::<u32>()
        && index < 1024
    {
        return Ok(GpuSelector::Index(index));
    }
    let named =
        text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("GPU-") || start.eq_ignore_ascii_case("MIG-"));
    if named && text.len() > 4 && text.len() <= 128 && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(GpuSelector::Uuid(text.to_owned()));
    }
    Err("name a GPU by its index (0) or its UUID (GPU-…), as nvidia-smi -L shows them".to_owned())
}

fn parse_class(text: &str) -> Result<Class, String> {
    let text = text.trim();
    Class::ALL.into_iter().find(|class| class.word() == text).ok_or_else(|| {
        let words: Vec<_> = Class::ALL.iter().map(|class| class.word()).collect();
        format!("the classes are {}", words.join(", "))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::CommandFactory;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_as_written() {
        for (text, ms) in [
            ("500ms", 500),
            ("20s", 20_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1.5", 1500),
            ("0.5s", 500),
            (".5", 500),
            ("1.", 1000),
            ("2 s", 2000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            ".",
            "s",
            "1x",
            "-1",
            "-1s",
            "1.2.3",
            "1e3",
            "inf",
            "NaN",
            "1 0",
            "1s2",
            "٣s",
            "9".repeat(400).as_str(),
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn intervals_have_bounds() {
        assert!(parse_interval("0").is_err());
        assert!(parse_interval("99ms").is_err());
        assert!(parse_interval("100ms").is_ok());
        assert!(parse_interval("1h").is_ok());
        assert!(parse_interval("3601").is_err());
    }

    #[test]
    fn pids_have_bounds() {
        for bad in ["0", "-1", "x", "", "99999999999999999999", "4194305"] {
            assert!(parse_pid(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_pid("4194304"), Ok(4_194_304));
    }

    #[test]
    fn devices_by_index_or_uuid() {
        assert_eq!(parse_gpu("3"), Ok(GpuSelector::Index(3)));
        let uuid = parse_gpu("GPU-1f2e").unwrap();
        assert!(uuid.matches(7, Some("GPU-1F2E-99")));
        assert!(!uuid.matches(7, Some("GPU-2")));
        assert!(!uuid.matches(7, None));
        for bad in ["", "-1", "cuda:0", "GPU-", "GPU-a b", "gpuµ"] {
            assert!(parse_gpu(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_a_sentence(text in "\\PC*") {
            if let Err(why) = parse_duration(&text) { prop_assert!(!why.contains('\n')); }
            let _ = parse_gpu(&text);
            let _ = parse_pid(&text);
        }

        #[test]
        fn milliseconds_round_trip(ms in 0u64..100_000_000_000) {
            prop_assert_eq!(parse_duration(&format!("{ms}ms")).unwrap().as_millis(), u128::from(ms));
            let seconds = parse_duration(&format!("{}.{:03}", ms / 1000, ms % 1000)).unwrap();
            prop_assert!(seconds.abs_diff(Duration::from_millis(ms)) <= Duration::from_micros(1));
        }
    }
}
