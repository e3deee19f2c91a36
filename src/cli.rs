//! The command line: every command and its own options. The options that all commands share are in `config`.
//!
//! Long because it is mostly a list: every command with its own options.

mod guesses;
pub mod help;
#[cfg(feature = "import")]
pub mod import;
pub mod left_out;
pub mod refused;

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Parser, Subcommand, ValueEnum};

use crate::config::{Settings, is_said, parse_pid, parse_profile_length, parse_window};
use trainmon_base::errors::Failure;
use trainmon_diagnosis::diagnosis::causes;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_outputs::explanation::TOPICS;

/// See what holds a training job back: the data loader, storage, the CPUs or the GPU.
/// trainmon watches a running job from the outside. The job needs no changes and no restart.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "trainmon",
    version,
    verbatim_doc_comment,
    max_term_width = 100,
    disable_help_subcommand = true,
    // Every command takes the options of all.
    mut_args(|option| if option.is_positional() { option } else { option.global(true) }),
)]
pub struct Cli {
    #[command(flatten)]
    target: PidArgument,
    /// As parsed, which is not yet what is in effect: see [`Cli::settings`].
    #[command(flatten)]
    parsed: Settings,
    /// Configuration file to use instead of $XDG_CONFIG_HOME/trainmon/config.toml.
    #[arg(short, long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,
    /// Print the settings in effect as a configuration file, and exit.
    #[arg(long, help_heading = "Configuration")]
    pub print_config: bool,
    /// The command; none means the live screen or the log.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The process to watch, as a bare number: `trainmon 1234` is `trainmon --pid 1234`.
#[derive(Debug, Clone, Default, Args)]
pub struct PidArgument {
    /// Process to watch, together with everything it starts.
    #[arg(id = "target", value_name = "PID", value_parser = parse_pid, conflicts_with = "pid")]
    pid: Option<u32>,
}

/// The commands of this version.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Watch a job for a while, print one verdict with advice, and exit.
    Diagnose(DiagnoseArgs),
    /// Take a profile of a running job, without a change of its code, and print what it shows.
    Profile(ProfileArgs),
    /// Record a job to a file, to replay or diagnose it later or elsewhere.
    Record(RecordArgs),
    /// Open a recording or a trace of torch.profiler on the screen.
    Replay {
        /// A recording made by `trainmon record`, or a trace of torch.profiler (JSON, perhaps packed by gzip).
        file: PathBuf,
    },
    /// Watch a job for days: one line when something changes.
    Watch(WatchArgs),
    /// Write a page about a recording, to show to a colleague: HTML or Markdown.
    Report(ReportArgs),
    /// Compare two runs: what changed, and by how much.
    Compare(CompareArgs),
    /// Write a recording as a trace for Perfetto, alone or together with a trace of torch's profiler.
    #[cfg(feature = "trace")]
    Trace(TraceArgs),
    /// Make a recording of what other tools recorded: nvidia-smi, pidstat, sar, py-spy, torch.profiler.
    #[cfg(feature = "import")]
    Import(import::ImportArgs),
    /// Serve metrics of all training jobs of this machine, or of one, to Prometheus.
    #[cfg(feature = "serve")]
    Export(ExportArgs),
    /// Show the ranks of runs on many machines in one table, from the Prometheus server that scrapes `trainmon export`.
    #[cfg(feature = "fleet")]
    Fleet(FleetArgs),
    /// Start a program and watch it; its exit status is passed on.
    Run {
        /// Do not let the program be asked for a profile: leave KINETO_USE_DAEMON as it is.
        #[arg(long)]
        no_profiler: bool,
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, required = true, num_args = 1.., value_name = "CMD")]
        program: Vec<OsString>,
    },
    /// Start a small training program and attach to it. Works on any machine: its GPU is simulated.
    Demo {
        /// Bottleneck to simulate.
        #[arg(long, value_enum, default_value_t)]
        bottleneck: DemoBottleneck,
        /// Number of data-loader workers, to try what the advice says.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
        workers: Option<u8>,
    },
    /// Check what trainmon can read here, and show how to fix what it cannot.
    Doctor {
        /// The process to check access to.
        #[command(flatten)]
        target: PidArgument,
        /// Print the findings as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Explain a cause: what it means, how it is recognized, and how to fix it.
    Explain {
        /// A cause, a class, or class/cause where two classes share a name; `chain` explains the wait chain. Without it: a list
        /// of all causes.
        #[arg(value_name = "CAUSE", value_parser = NameToExplain, hide_possible_values = true)]
        cause: Vec<String>,
        /// Print the same as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Serve agents over standard input and output: the Model Context Protocol.
    #[cfg(feature = "mcp")]
    Mcp,
    /// Print a shell completion script.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Show the manual page; into a pipe, print it as roff.
    Man {
        /// Show the page of this command (diagnose, run, …).
        #[arg(id = "manual_page", value_name = "COMMAND")]
        page: Option<String>,
    },
    /// Print the help of a command.
    Help {
        /// The command.
        #[arg(id = "help_page", value_name = "COMMAND")]
        page: Option<String>,
    },
}

impl Cli {
    /// The settings in effect: the command line over the configuration file over the defaults. `matches` is what this was
    /// made from; `environment` gives environment variables.
    pub fn settings(
        &self,
        matches: &ArgMatches,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Settings, Failure> {
        let mut settings = Settings::load(self.config.as_deref(), matches, environment)?;
        self.check(matches)?;
        settings.call.pid = self.pid();
        Ok(settings)
    }

    /// The PID, as an option or as a bare number.
    fn pid(&self) -> Option<u32> {
        let own = match &self.command {
            Some(Command::Diagnose(arguments)) => arguments.targets.iter().find_map(PidOrFile::pid),
            Some(Command::Profile(arguments)) => arguments.target.pid,
            Some(Command::Record(arguments)) => arguments.target.pid,
            #[cfg(feature = "serve")]
            Some(Command::Export(arguments)) => arguments.target.pid,
            Some(Command::Watch(arguments)) => arguments.target.pid,
            Some(Command::Doctor { target, .. }) => target.pid,
            _ => None,
        };
        self.parsed.call.pid.or(own).or(self.target.pid)
    }

    /// What `watch --all` has no use for.
    fn beside_all(&self) -> Option<String> {
        let Some(Command::Watch(WatchArgs { all: true, .. })) = self.command else { return None };
        let one = self.pid().map(|_| "--all watches every training process: remove --pid, or --all");
        let count = "--iterations counts the intervals of one process: remove --iterations, or --all";
        one.or(self.parsed.call.iterations.map(|_| count)).map(str::to_owned)
    }

    /// Whether the command writes a file of its own, which --force overwrites.
    fn writes_a_file(&self, word: &str) -> bool {
        let is_asked_to = matches!(&self.command, Some(Command::Profile(arguments)) if arguments.output.is_some());
        is_asked_to || matches!(word, "record" | "report" | "compare" | "trace" | "import")
    }

    /// Whether the command reads what was recorded.
    fn replays(&self, word: &str) -> bool {
        let recording = match &self.command {
            Some(Command::Diagnose(arguments)) => arguments.replay.as_ref(),
            Some(Command::Watch(arguments)) => arguments.replay.as_ref(),
            _ => None,
        };
        recording.is_some() || matches!(word, "replay" | "report" | "compare" | "trace" | "import")
    }

    /// Refuses options that the command has no use for.
    fn check(&self, matches: &ArgMatches) -> Result<(), Failure> {
        let word = matches.subcommand_name().unwrap_or("trainmon");
        let call = &self.parsed.call;
        let starts_its_own = matches!(word, "run" | "demo");
        let logs = self.command.is_none() || starts_its_own;
        let writes_a_file = self.writes_a_file(word);
        let said = |ids: &[&str]| ids.iter().find(|id| is_said(matches, id)).map(|id| format!("--{id}"));
        let on_existing = said(&["force", "append"]);
        let of_one_job = self.pid().map(|_| "--pid".to_owned()).or_else(|| said(&["duration", "iterations"]));
        let of_a_live_job = of_one_job.clone().or_else(|| said(&["interval"]));
        let has_screen = logs || word == "replay";
        let why = if call.against.is_some() && (!has_screen || call.log.is_some()) {
            "--against is for the screen: to compare two recordings, use trainmon compare".to_owned()
        } else if call.log.is_some() && !logs {
            format!("trainmon {word} writes no log: remove --log")
        } else if writes_a_file && call.append {
            let what = match word {
                "trace" | "profile" => "trace",
                "report" | "compare" => "report",
                _ => "recording",
            };
            format!("a {what} cannot be appended to: remove --append, or name another file")
        } else if let (Some(name), None, false) = (&on_existing, &call.log, writes_a_file) {
            format!("{name} needs a log to write: add --log PATH")
        } else if call.log.as_deref() == Some(Path::new("-")) && on_existing.is_some() {
            "--log - writes to standard output, not to a file: remove --force and --append".to_owned()
        } else if let (Some(name), true) = (of_a_live_job, self.replays(word)) {
            format!("{name} has no effect on a recording: remove {name}")
        } else if word == "export" && call.iterations.is_some() {
            "trainmon export runs until it is stopped: remove -n, or use --duration".to_owned()
        } else if let (Some(name), true) = (of_one_job, word == "mcp") {
            format!("the client of trainmon {word} says what to watch: remove {name}")
        } else if let Some(why) = self.without_use(matches) {
            why
        } else if starts_its_own && self.pid().is_some() {
            format!("trainmon {word} starts the process that it watches: remove --pid")
        } else {
            return Ok(());
        };
        Err(Failure::usage(why))
    }

    /// What `watch --all`, `fleet` and `diagnose` have no use for.
    fn without_use(&self, matches: &ArgMatches) -> Option<String> {
        self.beside_all().or_else(|| self.check_fleet(matches)).or_else(|| self.check_targets())
    }

    /// More than `diagnose` judges at a time.
    fn check_targets(&self) -> Option<String> {
        let Some(Command::Diagnose(arguments)) = &self.command else { return None };
        let has_traces = arguments.traces().next().is_some();
        if has_traces && arguments.replay.is_some() {
            return Some("a recording and a trace are judged one at a time: remove --replay".to_owned());
        }
        let mut pids = arguments.targets.iter().filter_map(PidOrFile::pid);
        let (first, more) = (pids.next()?, pids.next().is_some());
        if more {
            return Some(format!("one PID at a time: trainmon diagnose {first}"));
        }
        has_traces.then(|| format!("a process and a trace are judged one at a time: trainmon diagnose {first}"))
    }

    /// What `fleet` has no use for.
    fn check_fleet(&self, matches: &ArgMatches) -> Option<String> {
        if matches.subcommand_name() != Some("fleet") {
            return None;
        }
        let of_a_job = ["duration", "iterations"].into_iter().find(|id| is_said(matches, id));
        if let Some(name) = self.pid().map(|_| "pid").or(of_a_job) {
            return Some(format!("trainmon fleet shows what Prometheus knows: remove --{name}"));
        }
        let too_often = is_said(matches, "interval") && self.parsed.interval < FLEET_INTERVAL_MIN;
        too_often.then(|| "trainmon fleet asks Prometheus every 5 s at most: use --interval 5s or more".to_owned())
    }
}

/// Prometheus computes means over minutes: asking more often brings nothing.
pub const FLEET_INTERVAL_MIN: Duration = Duration::from_secs(5);

/// A process, or a file in its place.
#[derive(Debug, Clone)]
enum PidOrFile {
    Pid(u32),
    File(PathBuf),
}

impl PidOrFile {
    fn parse(text: &str) -> Result<Self, String> {
        // A file may be named by a number as `./1234`.
        if text.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit() || byte == b' ') {
            return parse_pid(text).map(Self::Pid);
        }
        match PathBuf::from(text) {
            // Where that cannot be known, reading it says why.
            path if path.try_exists().unwrap_or(true) => Ok(Self::File(path)),
            _ => Err("a PID is a number, and there is no such file; trainmon alone lists the training processes"
                .to_owned()),
        }
    }

    fn pid(&self) -> Option<u32> {
        match self {
            Self::Pid(pid) => Some(*pid),
            Self::File(_) => None,
        }
    }
}

impl DiagnoseArgs {
    /// The traces to judge.
    pub fn traces(&self) -> impl Iterator<Item = &PathBuf> {
        self.targets.iter().filter_map(|target| match target {
            PidOrFile::Pid(_) => None,
            PidOrFile::File(path) => Some(path),
        })
    }
}

/// `diagnose`.
#[derive(Debug, Clone, Default, Args)]
pub struct DiagnoseArgs {
    /// Process to watch, together with everything it starts; or a trace of torch.profiler, as it is: JSON, perhaps packed by
    /// gzip. Several traces are the ranks of one run.
    #[arg(id = "target", value_name = "PID|TRACE", value_parser = PidOrFile::parse, conflicts_with = "pid")]
    targets: Vec<PidOrFile>,
    /// Print everything: evidence, other findings, all advice with its reasons, what is not available.
    #[arg(long, conflicts_with_all = ["short", "json"])]
    pub full: bool,
    /// Print one line, for a chat or a ticket.
    #[arg(long, conflicts_with = "json")]
    pub short: bool,
    /// Print the verdict as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Stop as soon as the verdict is sure (80% or more for 3 s), at the latest after --duration.
    ///
    /// A job that is still starting is watched until it trains.
    #[arg(long, conflicts_with = "replay")]
    pub until_sure: bool,
    /// Exit with status 4 if the verdict is one of these classes.
    #[arg(long, value_name = "CLASS[,CLASS]", value_parser = parse_class, value_delimiter = ',')]
    pub fail_on: Vec<Class>,
    /// Judge this recording instead of a running process.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

/// `profile`.
#[derive(Debug, Clone, Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    target: PidArgument,
    /// How long to record: 500ms, which is the default, or 2s. With --probe the default is 3s.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_profile_length)]
    pub length: Option<Duration>,
    /// Record so many steps of the optimizer instead.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "length")]
    pub steps: Option<u32>,
    /// Record Python's functions as well, so that lines of code are named. The window is slower.
    #[arg(long = "stacks")]
    pub with_stacks: bool,
    /// Ask all ranks of the job on this machine, for the same moment.
    #[arg(long)]
    pub all_ranks: bool,
    /// Count the calls of CUDA or HIP from outside instead: launches, copies, allocations, waits for the GPU. Needs root.
    ///
    /// The job needs no preparation, and loses 0.5% of the time at most. There are no kernels in such a profile.
    #[arg(long, conflicts_with_all = ["steps", "with_stacks", "all_ranks", "output"])]
    pub probe: bool,
    /// Have the job run a script that starts torch's profiler, if it was not started to be profiled. Needs Python 3.14 or later.
    ///
    /// The script ends the profiler, writes the trace and leaves nothing behind; --dry-run prints it. The loop is slower meanwhile.
    #[arg(long, conflicts_with_all = ["probe", "all_ranks"])]
    pub inject: bool,
    /// Print the script that --inject would have the job run, and how, and do nothing.
    #[arg(long, requires = "inject", conflicts_with_all = ["output", "full", "json"])]
    pub dry_run: bool,
    /// Keep the trace: FILE.json or FILE.json.gz, for Perfetto or `trainmon diagnose FILE`.
    ///
    /// An existing file is refused without --force. With --all-ranks each rank has its own: FILE-rank0.json.gz.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print everything: evidence, other findings, all advice with its reasons, all tables.
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Print the verdict, with the profile, as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `record`.
#[derive(Debug, Clone, Default, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    target: PidArgument,
    /// File to write, or `-` for standard output.
    ///
    /// An existing file is refused without --force. A recording is JSON lines in zstd frames: `zstdcat FILE | jq` reads it.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: PathBuf,
    /// Remove the host name, and directories from command lines, mounts and control groups, before you share the recording.
    ///
    /// Other arguments stay, and so do the names of programs, disks, network interfaces and GPUs.
    #[arg(long = "anonymize", alias = "anonymise")]
    pub anonymize: bool,
    /// Take a profile once the job trains, or after 10 s, and keep what it counts in the recording.
    ///
    /// The job must have been started by `trainmon run`, or with KINETO_USE_DAEMON=1. Where it gives none, the recording goes on.
    #[arg(long)]
    pub profile: bool,
}

/// `watch`.
#[derive(Debug, Clone, Default, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    target: PidArgument,
    /// Watch all training processes of this machine as they come and go.
    #[arg(long, conflicts_with = "replay")]
    pub all: bool,
    /// Print each event as a JSON object on one line.
    #[arg(long)]
    pub json: bool,
    /// Run this shell command at each event. It reads the event from TRAINMON_EVENT, TRAINMON_TEXT and other variables.
    ///
    /// One runs at a time, for a minute at most. Under sudo it runs as the user who called sudo.
    #[arg(long, value_name = "CMD", conflicts_with = "replay")]
    pub exec: Option<String>,
    /// Report when steps take this much longer than in the last hour of training.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value = "20%")]
    pub slower: f64,
    /// Take a profile at these events, and report what it shows: slower, bottleneck. Every ten minutes at most.
    ///
    /// The job must have been started by `trainmon run`, or with KINETO_USE_DAEMON=1.
    #[arg(
        long,
        value_name = "EVENT[,EVENT]",
        value_enum,
        hide_possible_values = true,
        value_delimiter = ',',
        conflicts_with = "replay"
    )]
    pub profile_on: Vec<ProfiledEvent>,
    /// Print the events of this recording instead, at once.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

/// An event at which a profile can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfiledEvent {
    /// Steps take longer.
    Slower,
    /// Another cause holds the job back.
    Bottleneck,
}

/// `report`.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportArgs {
    /// A recording made by `trainmon record`, a log made by --log, or a trace of torch.profiler (JSON, perhaps packed by gzip).
    pub file: PathBuf,
    /// File to write: FILE.html or FILE.md, or `-` for Markdown on standard output.
    ///
    /// An existing file is refused without --force. The HTML is one file that loads nothing.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: PathBuf,
    /// Title of the report.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub title: Option<String>,
}

/// `compare`.
#[derive(Debug, Clone, Default, Args)]
pub struct CompareArgs {
    /// The run before: a recording, a log made by --log, or a trace of torch.profiler.
    pub before: PathBuf,
    /// The run after: a trace only with a trace.
    pub after: PathBuf,
    /// Exit with 4 if steps take this much longer, with 5 if that is not certain.
    ///
    /// It exits with 4 if the whole 99% interval of the change is above the limit, with 0 if it is below, and with 5 if the limit
    /// is inside, or if a run is too short for an interval: traces need three steps each. It exits with 1 if the runs cannot be
    /// compared.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub fail_if_slower: Option<f64>,
    /// Print JSON.
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// Write a file instead: FILE.html, FILE.md or FILE.json, or `-` for Markdown on standard output.
    ///
    /// An existing file is refused without --force.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: Option<PathBuf>,
}

/// A percentage as a share of 1: `5%` and `5` are 0.05.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let share = number.ok().filter(|percent| (0.0..=10_000.0).contains(percent)).map(|percent| percent / 100.0);
    share.ok_or_else(|| "not a percentage: write 5%".to_owned())
}

/// `trace`.
#[derive(Debug, Clone, Default, Args)]
pub struct TraceArgs {
    /// A recording made by `trainmon record`.
    pub file: PathBuf,
    /// File to write, or `-` for standard output.
    ///
    /// An existing file is refused without --force. https://ui.perfetto.dev opens it, also compressed: FILE.gz.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: PathBuf,
    /// Trace that torch's profiler wrote of the same run, to show both on one time axis: FILE.json or FILE.json.gz.
    #[arg(long, value_name = "FILE")]
    pub torch_profile: Option<PathBuf>,
}

/// `export`.
#[derive(Debug, Clone, Default, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    target: PidArgument,
    /// Address to listen on [default: 127.0.0.1:9845, if there is no --textfile].
    ///
    /// Addresses that other machines can reach need --token-file, --tls-cert and --tls-key.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
    /// Write the metrics to this file every 15 s, for the textfile collector of node_exporter: FILE.prom.
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Require the bearer token in this file.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Use TLS with the certificate in this PEM file, and those of its authorities.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Allow other machines without a token or TLS: safe only where no untrusted one can reach the address.
    #[arg(long)]
    pub insecure: bool,
    /// Name of the runs on this machine, for the label `training_job`.
    ///
    /// Without it: TRAINMON_JOB in the job's environment, the name of the Slurm job, or torchrun's --rdzv-id.
    #[arg(long, value_name = "NAME")]
    pub training_job: Option<String>,
}

/// `fleet`.
#[derive(Debug, Clone, Default, Args)]
pub struct FleetArgs {
    /// URL of the Prometheus server, or of one with its API (Mimir, Thanos, VictoriaMetrics), without /api/v1.
    #[arg(long, value_name = "URL")]
    pub prometheus: String,
    /// Show only the run of this name, or of this Slurm job.
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Time over which means are taken, 10s to 24h.
    #[arg(long, value_name = "TIME", value_parser = parse_window, default_value = "5m", allow_negative_numbers = true)]
    pub window: Duration,
    /// Print the table once instead of showing it on the screen; the default if standard output is not a terminal.
    #[arg(long)]
    pub once: bool,
    /// Print everything as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Give the server the bearer token in this file.
    #[arg(id = "fleet_token_file", long = "token-file", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Trust the authorities in this PEM file [default: $SSL_CERT_FILE, or those of the system].
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Send the token to other machines even without TLS.
    #[arg(id = "fleet_insecure", long = "insecure")]
    pub insecure: bool,
}

/// An address with a port; `:9845` is that port at all addresses, and `localhost:9845` or `9845` at this machine's own.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = |text: &str| text.parse::<u16>().ok();
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    if let Some(port) = port(text).or_else(|| port(text.strip_prefix("localhost:")?)) {
        return Ok(local(port));
    }
    if let Some(port) = text.strip_prefix(':').and_then(port) {
        return Ok(SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port)));
    }
    text.parse().map_err(|_| "not an address with a port: write 127.0.0.1:9845".to_owned())
}

/// Takes any words, because a name may be several; completions offer the names of causes, classes and topics.
#[derive(Debug, Clone)]
struct NameToExplain;

impl TypedValueParser for NameToExplain {
    type Value = String;

    fn parse_ref(&self, _: &clap::Command, _: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        Ok(value.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let classes = Class::ALL.iter().map(|class| class.word());
        let topics = TOPICS.iter().map(|topic| topic.name);
        let mut names: Vec<_> = classes.chain(causes::all().map(|cause| cause.name)).chain(topics).collect();
        names.sort_unstable();
        names.dedup();
        Some(Box::new(names.into_iter().map(PossibleValue::new)))
    }
}

/// The demo's bottleneck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DemoBottleneck {
    /// Too few workers, with CPUs left free.
    #[default]
    DataLoader,
    /// CPU work of the training loop between GPU launches.
    Cpu,
    /// Workers that wait for a slow storage server, which runs on 127.0.0.1.
    Io,
    /// A simulated GPU that is always busy.
    Gpu,
    /// No bottleneck: nothing costs more than a few percent.
    #[value(alias = "balanced")]
    Healthy,
}

fn parse_class(text: &str) -> Result<Class, String> {
    let text = text.trim();
    Class::named(text).ok_or_else(|| {
        let words: Vec<_> = Class::ALL.iter().map(|class| class.word()).collect();
        format!("use one of {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
        // The parser would take one for the other.
        let command = Cli::command();
        for own in command.get_subcommands().flat_map(clap::Command::get_arguments) {
            let mut common = command.get_arguments().filter(|arg| !arg.is_positional());
            let shared = common.any(|common| common.get_id() == own.get_id());
            assert!(!shared, "`{}` is a common option already", own.get_id());
        }
    }
}
