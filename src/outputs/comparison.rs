//! Two runs side by side: what changed in one sentence, then how steps, time, verdict, workers, resources and machine differ.
//! Text, Markdown, HTML and JSON say the same.
//!
//! What a difference in step time is worth decides [`StepSeries::change_to`](crate::history::step_series::StepSeries::change_to).

mod json;
mod tables;

use crate::diagnosis::Verdict;
use crate::diagnosis::verdict::Class;
use crate::history::environment::Environment;
use crate::history::run::WholeRun;
use crate::history::step_series::{NotCompared, StepChange};
use crate::rates::time_split::{LoopActivity, TimeSplit};
use crate::sample::recording::Header;
use crate::text::format::{UNMEASURED, duration, precise, step_time, whole_percent as percent};

/// A run does not count as changed where its step time may differ by no more than this: two runs of one program differ by as
/// much without a reason, because of heat, memory layout or what else the machine does.
const SAME_STEP: f64 = 0.01;
/// Shares of time that differ by less are not worth a sentence.
const WORTH_SAYING: f64 = 0.05;

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

impl ComparedRun<'_> {
    fn verdict(&self) -> Option<&Verdict> {
        self.run.verdict().map(|(verdict, _)| &**verdict)
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

/// What a step takes in both runs, and whether that differs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum StepVerdict {
    Longer(StepChange),
    Shorter(StepChange),
    Same(StepChange),
    Unknown(WhyUnknown),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum WhyUnknown {
    OtherProgram,
    NotCompared(NotCompared),
}

/// Both runs.
#[derive(Debug)]
pub struct Comparison<'r> {
    before: ComparedRun<'r>,
    after: ComparedRun<'r>,
    steps: StepVerdict,
}

impl<'r> Comparison<'r> {
    /// Compares.
    pub fn new(before: ComparedRun<'r>, after: ComparedRun<'r>) -> Self {
        let (program, other) = (before.program(), after.program());
        // A log does not say which program it is about.
        let steps = if program != other && !program.is_empty() && !other.is_empty() {
            StepVerdict::Unknown(WhyUnknown::OtherProgram)
        } else {
            match before.run.steps.change_to(&after.run.steps) {
                Ok(change) => match worth_saying(change) {
                    1 => StepVerdict::Longer(change),
                    -1 => StepVerdict::Shorter(change),
                    _ => StepVerdict::Same(change),
                },
                Err(why) => StepVerdict::Unknown(WhyUnknown::NotCompared(why)),
            }
        };
        Self { before, after, steps }
    }

    /// Whether the second run is slower, and by as much as `limit` (0.05 is 5%) as far as can be told: its step time is
    /// longer, and the interval reaches that far.
    ///
    /// # Errors
    /// Why that cannot be told, in one line.
    pub fn is_slower_by(&self, limit: f64) -> Result<bool, String> {
        match self.steps {
            StepVerdict::Longer(change) => Ok(change.high >= limit),
            StepVerdict::Shorter(_) | StepVerdict::Same(_) => Ok(false),
            StepVerdict::Unknown(_) => Err(self.sentence()),
        }
    }

    fn sides(&self) -> [&ComparedRun<'r>; 2] {
        [&self.before, &self.after]
    }

    /// What changed.
    pub fn sentence(&self) -> String {
        let both = |change: StepChange| change.step_s.map(|seconds| step_time(seconds * 1000.0));
        match self.steps {
            StepVerdict::Longer(change) | StepVerdict::Shorter(change) => {
                let [before, after] = both(change);
                let (word, [low, high]) = if change.change > 0.0 {
                    ("longer", [change.low, change.high])
                } else {
                    ("less time", [-change.high, -change.low])
                };
                let (size, range) = (tenths(change.change.abs()), format!("{}% to {}%", tenths(low), tenths(high)));
                let reason =
                    self.reason(change).map(|reason| format!(", mostly because {reason}")).unwrap_or_default();
                format!("Steps take {size}% {word}: {after} instead of {before} ({range}, 99% sure){reason}.")
            }
            StepVerdict::Same(change) => {
                let [before, after] = both(change);
                let range = format!("between {} and {}", signed(change.low), signed(change.high));
                format!(
                    "No difference in step time: {before} before and {after} after (the change is {range}, 99% sure)."
                )
            }
            StepVerdict::Unknown(why) => self.unknown(why),
        }
    }

    fn unknown(&self, why: WhyUnknown) -> String {
        let name = |run: usize| self.sides().get(run).map_or("", |side| side.name.as_str());
        match why {
            WhyUnknown::OtherProgram => format!(
                "These are two programs, {} and {}: their step times cannot be compared.",
                self.before.program(),
                self.after.program()
            ),
            WhyUnknown::NotCompared(NotCompared::NoSteps(run)) => {
                format!("Step times cannot be compared: no steps are known of {}.", name(run))
            }
            WhyUnknown::NotCompared(NotCompared::TooShort(run)) => format!(
                "Step times cannot be compared: {} is too short. Its steps are known for {}, and it takes a minute of training \
                 and 24 steps.",
                name(run),
                duration(self.sides().get(run).map_or(0.0, |side| side.run.steps.known_s())),
            ),
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

    /// What to bear in mind.
    pub fn cautions(&self) -> Vec<String> {
        let [before, after] = self.sides();
        let mut all: Vec<String> = Vec::new();
        let mut differ = |what: &str, values: [String; 2]| {
            let [one, other] = &values;
            if one != other && values.iter().all(|value| !value.is_empty()) {
                all.push(format!("{what} differ: {one} before, {other} after."));
            }
        };
        let [ours, theirs] = [before, after].map(|side| &side.run.environment);
        differ("The GPUs", [gpus(ours), gpus(theirs)]);
        differ("The CPUs", [ours, theirs].map(cpus));
        differ("The versions of trainmon", [before, after].map(|side| side.header.trainmon.clone()));
        for side in [before, after] {
            all.extend(side.note.iter().map(|note| format!("{}: {note}.", side.name)));
        }
        all
    }
}

/// Whether steps take longer (1) or less time (−1), as far as it can be told; 0 if they take the same time.
pub fn worth_saying(change: StepChange) -> i8 {
    i8::from(change.low > SAME_STEP) - i8::from(change.high < -SAME_STEP)
}

/// The color of the comparison: that of what holds the second run back.
pub(super) fn accent(comparison: &Comparison<'_>) -> &'static str {
    comparison.after.verdict().map_or(Class::Unknown, |verdict| verdict.class).word()
}

/// The names of both files.
pub(super) fn title(comparison: &Comparison<'_>) -> String {
    format!("{} → {}", comparison.before.name, comparison.after.name)
}

fn gpus(environment: &Environment) -> String {
    let mut names: Vec<String> = Vec::new();
    for gpu in &environment.gpus {
        let simulated = if gpu.simulated { " (simulated)" } else { "" };
        names.push(format!("{}{simulated}", gpu.name.as_deref().unwrap_or("unknown GPU")));
    }
    let same = names.first().filter(|first| names.iter().all(|name| name == *first));
    match same {
        Some(name) if names.len() > 1 => format!("{} × {name}", names.len()),
        _ => names.join(", "),
    }
}

fn cpus(environment: &Environment) -> String {
    let quota = environment.cpu_quota.map(|quota| format!(", limited to {}", precise(quota))).unwrap_or_default();
    environment.cpus_allowed.map(|cpus| format!("{cpus}{quota}")).unwrap_or_default()
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
