//! Two runs side by side: what changed in one sentence, then how steps, time, verdict, workers, resources and machine differ.
//! Text, Markdown, HTML and JSON say the same.
//!
//! What a difference in step time is worth decides [`StepSeries::change_to`](trainmon_diagnosis::history::step_series::StepSeries::change_to).

mod cautions;
mod commands;
mod json;
mod page;
mod tables;
pub mod traces;

use commands::CommandChange;
use json::RunJson;
pub use page::{AnyComparison, Compared, ComparisonPage};
use traces::{ComparedTrace, TraceComparison};

use super::report::Section;
use trainmon_base::text::format::{UNMEASURED, bytes, duration, precise, step_time, whole_percent as percent};
use trainmon_base::text::named_enum;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::history::environment::Environment;
use trainmon_diagnosis::history::run::WholeRun;
use trainmon_diagnosis::history::step_series::{NoSteps, StepChange};
use trainmon_profiles::comparison::ProfileChange;
use trainmon_sample::recording::Header;
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// A run does not count as changed where its step time may differ by no more than this: two runs of one program differ by as
/// much without a reason, because of heat, memory layout or what else the machine does.
const SAME_STEP: f64 = 0.01;
/// Two runs count as equal where their step times differ by no more than this, or by no more than the limit where that is less.
const SAME_WITHIN: f64 = 0.03;
/// A change that rounds to no percent at all.
const NO_CHANGE: f64 = 0.005;
/// Shares of time that differ by less are not worth a sentence.
const WORTH_SAYING: f64 = 0.05;

named_enum! {
    /// The second run against the first.
    pub enum StepResult {
        /// Steps take longer.
        Slower = "slower",
        /// They take less time.
        Faster = "faster",
        /// They take the same time.
        Same = "same",
        /// The runs are too short or too noisy to tell.
        Unclear = "unclear",
        /// The runs cannot be compared.
        Unknown = "unknown",
    }
}

/// One of the two runs.
#[derive(Debug)]
pub struct ComparedRun<'r> {
    /// Its file.
    pub name: String,
    /// The run.
    pub run: &'r WholeRun,
    /// The head of its recording.
    pub header: &'r Header,
    /// What is missing at its end, in one line, if anything is.
    pub note: Option<String>,
}

impl<'r> ComparedRun<'r> {
    fn verdict(&self) -> Option<&'r Verdict> {
        self.run.verdict().map(|(verdict, _)| &**verdict)
    }

    /// The profile that was taken of it.
    fn profile(&self) -> Option<ComparedTrace<'r>> {
        let verdict = self.verdict()?;
        Some(ComparedTrace { name: self.name.clone(), account: verdict.profile.as_deref()?, verdict })
    }

    fn shares(&self) -> Option<TimeSplit> {
        let split_s = self.run.totals.split_s;
        split_s.shares_of(split_s.total())
    }

    /// The script, or the program where no script is named.
    fn program(&self) -> &str {
        let mut words = self.header.command.split(' ');
        let first = words.clone().next().unwrap_or_default();
        let script = words.find(|word| word.ends_with(".py")).unwrap_or(first);
        script.rsplit('/').next().unwrap_or(script)
    }
}

/// Both runs.
#[derive(Debug)]
pub struct Comparison<'r> {
    before: ComparedRun<'r>,
    after: ComparedRun<'r>,
    compared: Compared,
    /// Their profiles, if both have one.
    profiles: Option<TraceComparison<'r>>,
}

impl<'r> Comparison<'r> {
    /// Compares, with so many rows of each table of profiles at most. With a limit it is also told whether steps take longer by so much:
    /// 0.05 is 5%.
    pub fn new(before: ComparedRun<'r>, after: ComparedRun<'r>, limit: Option<f64>, rows: usize) -> Self {
        let (program, other) = (before.program(), after.program());
        let names = [&before, &after].map(|run| run.name.clone());
        // A log does not say which program it is about.
        let steps = if program != other && !program.is_empty() && !other.is_empty() {
            Err(format!("These are two programs, {program} and {other}: their step times cannot be compared."))
        } else {
            before.run.steps.change_to(&after.run.steps).map_err(|NoSteps(run)| {
                let name = names.get(run).map_or("", String::as_str);
                format!("Step times cannot be compared: no steps are known of {name}.")
            })
        };
        let profiles = match [&before, &after].map(ComparedRun::profile) {
            [Some(before), Some(after)] => Some(TraceComparison::new(before, after, None, rows)),
            _ => None,
        };
        Self { before, after, compared: Compared { names, limit, steps }, profiles }
    }

    fn sides(&self) -> [&ComparedRun<'r>; 2] {
        [&self.before, &self.after]
    }

    /// Why it is not certain: `too noisy`.
    fn too(&self, change: StepChange) -> String {
        match (change.too_short, change.interval, self.compared.limit) {
            (Some(run), ..) => format!("{} is too short", self.compared.name(run)),
            (None, Some([low, _]), Some(limit)) if low > SAME_STEP => format!("too close to {}%", tenths(limit)),
            _ => "too noisy".to_owned(),
        }
    }

    /// What the loop spends more or less time on in a step, if that is most of the change.
    fn reason(&self, change: StepChange) -> Option<String> {
        let [before_s, after_s] = change.step_s;
        let [before, after] = [self.before.shares()?, self.after.shares()?];
        let whole_s = after_s - before_s;
        LoopActivity::ALL.into_iter().zip(before.values().into_iter().zip(after.values())).find_map(
            |(activity, (before, after))| {
                let moved_s = after * after_s - before * before_s;
                let most = moved_s / whole_s > 0.5 && (after - before).abs() >= WORTH_SAYING;
                most.then(|| {
                    let (verb, [before, after]) = (activity.verb(), [before, after].map(percent));
                    format!("the loop {verb} {after}% of the time instead of {before}%")
                })
            },
        )
    }
}

impl AnyComparison for Comparison<'_> {
    type Side = RunJson;

    fn compared(&self) -> &Compared {
        &self.compared
    }

    fn verdict(&self) -> Option<&Verdict> {
        self.after.verdict()
    }

    fn needed_s(&self) -> Option<f64> {
        self.compared.needed_s().map(f64::ceil)
    }

    fn cautions(&self) -> Vec<String> {
        cautions::listed(self.sides())
    }

    fn sections(&self) -> Vec<Section> {
        let profiles = self.profiles.iter().flat_map(TraceComparison::of_runs);
        tables::sections(self).into_iter().chain(profiles).collect()
    }

    fn profile_change(&self) -> Option<&ProfileChange> {
        self.profiles.as_ref()?.profile_change()
    }

    fn sides_json(&self) -> [RunJson; 2] {
        self.sides().map(RunJson::new)
    }

    fn command_change(&self) -> Option<CommandChange> {
        CommandChange::between(&self.before.header.command, &self.after.header.command)
    }

    fn answer(&self) -> String {
        let change = match &self.compared.steps {
            Ok(change) => *change,
            Err(why) => return why.clone(),
        };
        let [before, after] = change.step_s.map(|seconds| step_time(seconds * 1000.0));
        let [low, high] = change.interval.unwrap_or([change.change; 2]);
        let is_longer = change.change > 0.0;
        let size = tenths(change.change.abs());
        let word = if is_longer { "longer" } else { "less time" };
        match self.result() {
            StepResult::Same => format!(
                "No difference in step time: {before} before and {after} after (the change is {}, 99% sure).",
                between([low, high])
            ),
            StepResult::Unclear => {
                let takes = if change.change.abs() < NO_CHANGE {
                    match (before, after) {
                        (before, after) if before == after => format!("about the same time: {after}"),
                        (before, after) => format!("about the same time: {before} before and {after} after"),
                    }
                } else {
                    format!("about {size}% {word}: {after} instead of {before}")
                };
                format!("Steps take {takes}; {} to be certain.", self.too(change))
            }
            StepResult::Slower | StepResult::Faster | StepResult::Unknown => {
                let [low, high] = if is_longer { [low, high] } else { [-high, -low] }.map(tenths);
                let reason =
                    self.reason(change).map(|reason| format!(", mostly because {reason}")).unwrap_or_default();
                format!(
                    "Steps take {size}% {word}: {after} instead of {before} ({low}% to {high}%, 99% sure){reason}."
                )
            }
        }
    }

    /// What is known all the same, and how much more it takes to be certain.
    fn doubt(&self) -> Option<String> {
        let change = self.compared.steps.as_ref().ok()?;
        if self.result() != StepResult::Unclear {
            return None;
        }
        let known = match (change.too_short, change.interval) {
            (None, Some(interval)) => format!("The change is {} (99% sure).", between(interval)),
            (run, _) => {
                let known_s = self.sides().get(run.unwrap_or_default()).map_or(0.0, |side| side.run.steps.known_s());
                format!("It has {} of training with known steps.", duration(known_s))
            }
        };
        let more = match self.needed_s() {
            Some(seconds) => format!("Record {} of each run.", minutes(seconds)),
            None => "Even an hour of each run would not tell.".to_owned(),
        };
        Some(format!("{known} {more}"))
    }
}

/// What a change says. Nothing is certain without an interval.
pub fn result_of(change: StepChange, limit: Option<f64>) -> StepResult {
    let Some([low, high]) = change.interval else { return StepResult::Unclear };
    let within = limit.unwrap_or(SAME_WITHIN).min(SAME_WITHIN);
    match limit.map(|limit| reaches(change, limit)) {
        Some(None) => StepResult::Unclear,
        _ if low > SAME_STEP => StepResult::Slower,
        _ if high < -SAME_STEP => StepResult::Faster,
        _ if low > -within && high < within => StepResult::Same,
        _ => StepResult::Unclear,
    }
}

/// Seconds of training of each run that make a change certain; `None` where an hour does not.
fn needed_s(change: StepChange, limit: Option<f64>) -> Option<f64> {
    let Some(limit) = limit else {
        let sign = change.change.signum();
        let is_change = change.change.abs() > SAME_STEP;
        let is_same = change.change.abs() < SAME_WITHIN;
        let ends = [(is_change, sign * SAME_STEP), (is_same, sign * SAME_WITHIN)];
        let ends = ends.into_iter().filter_map(|(is_near, end)| is_near.then_some(end));
        return change.needed_s(&ends.collect::<Vec<_>>());
    };
    change.needed_s(&[limit])
}

/// Whether steps take longer by the limit; `None` where that is not certain.
pub fn reaches(change: StepChange, limit: f64) -> Option<bool> {
    let [low, high] = change.interval?;
    if high < limit {
        Some(false)
    } else if low >= limit && low > SAME_STEP {
        Some(true)
    } else {
        None
    }
}

/// A fact of where a run ran: what it is called in a table and in a sentence.
type EnvironmentFact = (&'static str, &'static str, fn(&Environment) -> String);

/// Where a run ran.
const FACTS: [EnvironmentFact; 9] = [
    ("machine", "The machines", |run| run.host.clone().unwrap_or_default()),
    ("GPUs", "The GPUs", gpus),
    ("GPU driver", "The GPU drivers", |run| run.driver.clone().unwrap_or_default()),
    ("CPU model", "The models of the CPUs", |run| run.cpu_model.clone().unwrap_or_default()),
    ("CPUs", "The CPUs", cpus),
    ("CPUs of the machine", "The CPUs of the machines", |run| {
        run.cpus.map(|cpus| cpus.to_string()).unwrap_or_default()
    }),
    ("memory", "The memories of the machines", |run| {
        run.memory_bytes.map(|memory| bytes(Some(memory))).unwrap_or_default()
    }),
    ("Python", "The versions of Python", |run| run.python.clone().unwrap_or_default()),
    ("torch", "The versions of torch", |run| run.torch.clone().unwrap_or_default()),
];

fn gpus(environment: &Environment) -> String {
    let names = environment.gpus.iter().map(|gpu| {
        let simulated = if gpu.simulated { " (simulated)" } else { "" };
        format!("{}{simulated}", gpu.name.as_deref().unwrap_or("unknown GPU"))
    });
    counted(names.collect())
}

/// Names in a list, or as `8 × name` where all are the same.
fn counted(names: Vec<String>) -> String {
    match names.first().filter(|first| names.iter().all(|name| name == *first)) {
        Some(name) if names.len() > 1 => format!("{} × {name}", names.len()),
        _ => names.join(", "),
    }
}

fn cpus(environment: &Environment) -> String {
    let quota = environment.cpu_quota.map(|quota| format!(", limited to {}", precise(quota))).unwrap_or_default();
    environment.cpus_allowed.map(|cpus| format!("{cpus}{quota}")).unwrap_or_default()
}

/// `between −4.2% and +1%`.
fn between(ends: [f64; 2]) -> String {
    let [low, high] = ends.map(signed);
    format!("between {low} and {high}")
}

/// `about 4 minutes`.
fn minutes(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil();
    if minutes <= 1.0 { "a minute".to_owned() } else { format!("about {minutes:.0} minutes") }
}

/// `+4.2%`.
fn signed(change: f64) -> String {
    let text = tenths(change.abs());
    if text == "0" { "0%".to_owned() } else { format!("{}{text}%", if change < 0.0 { "−" } else { "+" }) }
}

/// A share in percent, with a decimal where it is small.
fn tenths(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return UNMEASURED.to_owned();
    }
    if percent.abs() >= 9.95 { format!("{percent:.0}") } else { precise((percent * 10.0).round() / 10.0) }
}
