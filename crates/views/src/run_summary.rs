//! A run in short, for a person who was not there: how long it trained and how fast, what was lost to what and what that cost, what
//! happened when, and why it ended. Made of the run's sums and of the events of `watch`, so its numbers are those shown elsewhere.

use jiff::tz::TimeZone;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::cost::{self, Price};
use super::report::{phase_words, with_worth};
use super::section::{Column, Point, Section, SectionBody, point, whole};
use trainmon_base::text::format::{counted, duration, precise};
use trainmon_base::text::{fit, sanitize};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::causes::{Cause, verdict_name};
use trainmon_diagnosis::diagnosis::verdict::{Class, Phase};
use trainmon_diagnosis::history::totals::{CauseTime, Totals, TrainedSteps};
use trainmon_diagnosis::watch::{Episode, EventKind, JobEnd, RunStory};
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// What is lost while nothing is computed: the loop waits for data, or saves.
const LOST_ACTIVITIES: [LoopActivity; 2] = [LoopActivity::InputWait, LoopActivity::Checkpoint];
/// The job stands still.
const STANDS: [Phase; 3] = [Phase::Hung, Phase::Stopped, Phase::Idle];
/// Neither training nor standing still. Saving is among what the loop does.
const BESIDE_TRAINING: [Phase; 3] = [Phase::Init, Phase::Compile, Phase::Validation];
/// Smaller shares of the loop's time are not worth a line.
const LEAST_SAID_SHARE: f64 = 0.005;
/// What takes less of what is lost is not named.
const LEAST_NAMED_PART: f64 = 0.05;
/// Most verdicts that are named for one loss.
const PARTS: usize = 3;
/// Most episodes that are listed, the longest ones.
const EPISODES_SHOWN: usize = 16;
/// Most verdicts in the numbers.
const CAUSES: usize = 16;
/// Widest name of a file, and widest text of an episode or of a line of output.
const FILE: usize = 80;
const EPISODE_TEXT: usize = 200;
/// Widest exception in a sentence.
const EXCEPTION: usize = 120;
/// Most lines of output.
const OUTPUT_LINES_SHOWN: usize = 10;
/// Deepest indent of a line of output that is kept.
const OUTPUT_INDENT: usize = 8;
/// SIGKILL (signal(7)).
const SIGKILL: u8 = 9;

/// A run in short.
#[derive(Debug, Clone, Copy)]
pub struct RunSummary<'r> {
    /// Its sums.
    pub totals: &'r Totals,
    /// What happened; `None` where only its sums are known, as of a log.
    pub story: Option<&'r RunStory>,
    /// The zone of the times of day.
    pub zone: &'r TimeZone,
    /// What an hour of a GPU costs.
    pub price: Option<&'r Price>,
}

/// `285 steps in 22 s of training, 13 per second`; `None` if no steps are known.
pub fn steps_words(steps: &TrainedSteps) -> Option<String> {
    let rate = precise(steps.per_s()?);
    let TrainedSteps { count, seconds, unit } = *steps;
    Some(format!("{count:.0} {} in {} of training, {rate} per second", unit.word(), duration(seconds)))
}

/// The numbers of a summary; unknown ones are null.
#[derive(Debug, Serialize)]
struct SummaryNumbers<'r> {
    began_unix_ms: Option<i64>,
    ended_unix_ms: Option<i64>,
    watched_s: f64,
    /// Time in which it trained.
    trained_s: f64,
    steps: Option<f64>,
    steps_per_s: Option<f64>,
    /// What the loop did, seconds.
    loop_s: Option<TimeSplit>,
    phases: Vec<PhaseSeconds>,
    /// The verdicts with their time, the longest first.
    verdicts: Vec<VerdictSeconds>,
    gpu_s: Option<f64>,
    gpu_idle_s: Option<f64>,
    energy_j: Option<f64>,
    /// What the GPU time costs, of it while they idle and while the loop waits for data, as text with its currency.
    cost: Option<String>,
    idle_cost: Option<String>,
    waiting_cost: Option<String>,
    episodes: Vec<EpisodeNumbers<'r>>,
    /// Shorter ones that are not listed.
    more_episodes: u64,
    /// `None` for a job that had not ended.
    end: Option<&'r JobEnd>,
}

#[derive(Debug, Serialize)]
struct PhaseSeconds {
    phase: Phase,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct VerdictSeconds {
    class: Class,
    cause: Option<Cause>,
    seconds: f64,
    waiting_for_data_s: f64,
    saving_s: f64,
}

#[derive(Debug, Serialize)]
struct EpisodeNumbers<'r> {
    kind: EventKind,
    from_unix_ms: i64,
    /// `None` where it had not ended, or is but a moment.
    until_unix_ms: Option<i64>,
    text: &'r str,
}

impl RunSummary<'_> {
    /// The first sentence: how long it trained, and how fast.
    pub fn answer(&self) -> String {
        let watched = duration(self.totals.watched_s);
        let when = match (self.totals.began_unix_ms, self.totals.ended_unix_ms) {
            (Some(began), Some(ended)) => format!(", {} to {}", self.clock(began), self.clock(ended)),
            _ => String::new(),
        };
        let trained_s = self.phase_s(Phase::Training);
        let did = match steps_words(&self.totals.steps) {
            Some(steps) => steps,
            None if trained_s > 0.0 => format!("{} of training, no steps could be counted", duration(trained_s)),
            None => "no training was seen".to_owned(),
        };
        format!("Watched for {watched}{when}: {did}.")
    }

    /// Why it ended, in a sentence or two; `None` where that is no question.
    pub fn end_words(&self) -> Option<String> {
        let story = self.story?;
        let Some((unix_ms, end)) = &story.end else {
            let until = self.totals.ended_unix_ms?;
            return Some(format!("It had not ended by {}.", self.clock(until)));
        };
        let at = self.clock(*unix_ms);
        let how = match end.words() {
            Some(words) if words.starts_with("killed") => format!("It was {words} at {at}."),
            Some(words) => format!("It ended at {at} with {words}."),
            None => format!("It ended at {at}. Its exit status is not known: only its parent process can read it."),
        };
        let more = memory_words(end).into_iter().chain(exception_words(end));
        Some(more.fold(how, |told, words| format!("{told} {words}")))
    }

    /// The sentences below the first one, in reading order.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.end_words().into_iter().collect();
        let beside =
            BESIDE_TRAINING.iter().map(|phase| (*phase, self.phase_s(*phase))).filter(|(_, seconds)| *seconds >= 0.5);
        let beside: Vec<_> =
            beside.map(|(phase, seconds)| format!("{} {}", phase_words(phase), duration(seconds))).collect();
        if !beside.is_empty() {
            lines.push(format!("Besides training: {}.", beside.join(", ")));
        }
        lines.extend(self.gpu_words());
        lines.extend(cost::energy(self.totals).map(|energy| format!("Energy of the GPUs: {energy}.")));
        lines
    }

    /// What cost most, and what to do about it first. A report begins with it anyway.
    pub fn costliest(&self) -> Vec<String> {
        let Some(costliest) = self.totals.costliest() else { return Vec::new() };
        let name = verdict_name(costliest.verdict.class, costliest.verdict.cause);
        let most = format!("Most costly: {name}, {} in total.", duration(costliest.seconds));
        let advice = costliest.verdict.advice.first().map(|advice| format!("▶ {}", with_worth(advice)));
        std::iter::once(most).chain(advice).collect()
    }

    /// What was lost, what happened, and the last lines of its output.
    pub fn sections(&self) -> Vec<Section> {
        let mut all = vec![self.lost(), self.happened()];
        all.extend(self.story.and_then(|story| story.end.as_ref()).and_then(|(_, end)| output(end)));
        all.retain(|section| !section.is_empty());
        all
    }

    /// The first sentence and why it ended, for an event.
    pub fn in_short(&self) -> String {
        [Some(self.answer()), self.end_words()].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// All of it in numbers.
    pub fn numbers(&self) -> serde_json::Value {
        let totals = self.totals;
        let steps = totals.steps.per_s().map(|_| totals.steps.count.round());
        let parts = cost::parts(totals, self.price);
        let cost = |what: &str| {
            let part = parts.iter().find(|part| part.what == what && !part.cost.is_empty());
            part.map(|part| part.cost.clone())
        };
        let mut verdicts: Vec<&CauseTime> = totals.causes().iter().collect();
        verdicts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let (episodes, more_episodes) = self.longest_episodes();
        let numbers = SummaryNumbers {
            began_unix_ms: totals.began_unix_ms,
            ended_unix_ms: totals.ended_unix_ms,
            watched_s: totals.watched_s,
            trained_s: self.phase_s(Phase::Training),
            steps,
            steps_per_s: totals.steps.per_s(),
            loop_s: (totals.split_s.total() > 0.0).then_some(totals.split_s),
            phases: totals
                .phases()
                .filter(|(_, seconds)| *seconds > 0.0)
                .map(|(phase, seconds)| PhaseSeconds { phase, seconds })
                .collect(),
            verdicts: verdicts.into_iter().take(CAUSES).map(VerdictSeconds::new).collect(),
            gpu_s: (totals.gpu_s > 0.0).then_some(totals.gpu_s),
            gpu_idle_s: totals.gpu_idle_s,
            energy_j: (totals.power_s > 0.0).then_some(totals.energy_j),
            cost: cost(cost::ALL_GPUS),
            idle_cost: cost(cost::WHILE_IDLE),
            waiting_cost: cost(cost::WHILE_WAITING),
            episodes: episodes.into_iter().map(EpisodeNumbers::new).collect(),
            more_episodes,
            end: self.story.and_then(|story| story.end.as_ref()).map(|(_, end)| end),
        };
        serde_json::to_value(numbers).unwrap_or_default()
    }

    fn phase_s(&self, wanted: Phase) -> f64 {
        self.totals.phases().find(|(phase, _)| *phase == wanted).map_or(0.0, |(_, seconds)| seconds)
    }

    /// The time of day, with the day where the run has several.
    fn clock(&self, unix_ms: i64) -> String {
        let day = |ms| zone::moment(ms, self.zone, "%Y-%m-%d");
        let spans_days = self.totals.began_unix_ms.map(day) != self.totals.ended_unix_ms.map(day);
        zone::moment(unix_ms, self.zone, if spans_days { "%m-%d %H:%M:%S" } else { "%H:%M:%S" })
    }

    /// `GPU time: 2 h ($2.42), 60% while they idle ($1.45).`
    fn gpu_words(&self) -> Option<String> {
        let parts = cost::parts(self.totals, self.price);
        let paid = |cost: &str| if cost.is_empty() { String::new() } else { format!(" ({cost})") };
        let all = parts.iter().find(|part| part.what == cost::ALL_GPUS)?;
        let idle = parts.iter().find(|part| part.what == cost::WHILE_IDLE);
        let idle = idle.map(|idle| format!(", {} {}{}", idle.share, idle.what, paid(&idle.cost))).unwrap_or_default();
        Some(format!("GPU time: {}{}{idle}.", all.time, paid(&all.cost)))
    }

    /// What so many seconds of the run cost: ` ($1.21)`; empty without a price or a GPU.
    fn paid(&self, share: f64) -> String {
        let gpu_s = self.totals.gpu_s;
        let price = if gpu_s > 0.0 { self.price } else { None };
        price.map(|price| format!(" ({})", price.for_time(share * gpu_s))).unwrap_or_default()
    }

    fn lost(&self) -> Section {
        let mut points: Vec<Point> = Vec::new();
        let split = self.totals.split_s.shares_of(self.totals.split_s.total());
        for activity in LOST_ACTIVITIES {
            let Some(share) = split.map(|split| split[activity]).filter(|share| *share >= LEAST_SAID_SHARE) else {
                continue;
            };
            let seconds = self.totals.split_s[activity];
            let text = format!("{}, {} of the loop's time{}", duration(seconds), whole(share), self.paid(share));
            points.push(point(activity.word(), text + &self.parts(activity, seconds)));
        }
        for phase in STANDS {
            let seconds = self.phase_s(phase);
            if seconds >= 0.5 && self.totals.watched_s > 0.0 {
                let share = seconds / self.totals.watched_s;
                let text = format!("{}, {} of the time watched{}", duration(seconds), whole(share), self.paid(share));
                points.push(point(phase_words(phase), text));
            }
        }
        Section::new("What was lost", SectionBody::Points(points))
    }

    /// Under which verdicts it was lost: `; 2h10m of it: data loader · too few workers`, or `; all of it: …`.
    fn parts(&self, activity: LoopActivity, seconds: f64) -> String {
        let is_named = |cause: &&CauseTime| {
            !cause.verdict.is_healthy() && !matches!(cause.verdict.class, Class::Idle | Class::Unknown)
        };
        let mut causes: Vec<&CauseTime> = self.totals.causes().iter().filter(is_named).collect();
        causes.retain(|cause| cause.split_s[activity] >= (LEAST_NAMED_PART * seconds).max(1.0));
        causes.sort_by(|a, b| b.split_s[activity].total_cmp(&a.split_s[activity]));
        let parts = causes.into_iter().take(PARTS).map(|cause| {
            let name = verdict_name(cause.verdict.class, cause.verdict.cause);
            let part_s = cause.split_s[activity];
            let is_all = part_s >= (1.0 - LEAST_SAID_SHARE) * seconds;
            let part = if is_all { "all".to_owned() } else { duration(part_s) };
            format!("{part} of it: {name}")
        });
        parts.map(|part| format!("; {part}")).collect()
    }

    /// The longest episodes by when they began, and how many there are besides.
    fn longest_episodes(&self) -> (Vec<&Episode>, u64) {
        let Some(story) = self.story else { return (Vec::new(), 0) };
        let now = self.totals.ended_unix_ms.unwrap_or(0);
        let mut episodes = story.episodes();
        // A moment, such as a restart, has no length, and is worth telling.
        let length = |episode: &Episode| episode.seconds(now).unwrap_or(f64::MAX);
        episodes.sort_by(|a, b| length(b).total_cmp(&length(a)));
        let more = story.dropped + episodes.len().saturating_sub(EPISODES_SHOWN) as u64;
        episodes.truncate(EPISODES_SHOWN);
        episodes.sort_by_key(|episode| episode.from_unix_ms);
        (episodes, more)
    }

    fn happened(&self) -> Section {
        let (episodes, more) = self.longest_episodes();
        let now = self.totals.ended_unix_ms.unwrap_or(0);
        let rows = episodes.into_iter().map(|episode| {
            let length = episode.seconds(now).map(duration).unwrap_or_default();
            let text = fit(&episode.text, EPISODE_TEXT);
            let text = if episode.kind == EventKind::Bottleneck { format!("bottleneck: {text}") } else { text };
            vec![self.clock(episode.from_unix_ms), length, text]
        });
        let columns = vec![Column::left("from"), Column::right("for"), Column::left("what")];
        let note = (more > 0).then(|| format!("and {more} more, none of them longer"));
        Section::new("What happened", SectionBody::Table(columns, rows.collect())).noting(note)
    }
}

impl VerdictSeconds {
    fn new(cause: &CauseTime) -> Self {
        Self {
            class: cause.verdict.class,
            cause: cause.verdict.cause,
            seconds: cause.seconds,
            waiting_for_data_s: cause.split_s.input_wait,
            saving_s: cause.split_s.checkpoint,
        }
    }
}

impl<'r> EpisodeNumbers<'r> {
    fn new(episode: &'r Episode) -> Self {
        Self {
            kind: episode.kind,
            from_unix_ms: episode.from_unix_ms,
            until_unix_ms: episode.until_unix_ms,
            text: &episode.text,
        }
    }
}

/// What is known of memory at the end; `None` where nothing speaks for or against it.
fn memory_words(end: &JobEnd) -> Option<String> {
    if end.killed_for_memory == Some(true) {
        return None;
    }
    match end.oom_kills {
        Some(kills @ 1..) => {
            let killed = counted(kills, "process", "processes");
            let last = end.last_oom_kill_s.map(|ago_s| format!(", the last one {} before", duration(ago_s)));
            let last = last.unwrap_or_default();
            Some(format!("The kernel killed {killed} of its control group because memory ran out{last}."))
        }
        Some(0) if end.signal == Some(SIGKILL) => {
            Some("The kernel killed nothing in its control group for lack of memory.".to_owned())
        }
        _ => None,
    }
}

/// The exception of the last traceback in its output.
fn exception_words(end: &JobEnd) -> Option<String> {
    let is_told = end.is_traceback && end.exit_code != Some(0);
    let exception = if is_told { end.output_lines.last()? } else { return None };
    Some(format!("Last traceback: {}.", fit(exception.trim_end_matches('.'), EXCEPTION)))
}

/// The last lines of its output. Those of a job that ended well say nothing.
fn output(end: &JobEnd) -> Option<Section> {
    if end.output_lines.is_empty() || end.exit_code == Some(0) {
        return None;
    }
    let path = sanitize(end.output_file.as_deref().unwrap_or("its output")).into_owned();
    let name = path.rsplit('/').next().unwrap_or_default();
    let file = if path.width() <= FILE { path.clone() } else { fit(name, FILE) };
    let title = if end.is_traceback { format!("Last traceback in {file}") } else { format!("Last lines of {file}") };
    // Never at the begin of a line, where Markdown could take it for the end of the block.
    let lines = end.output_lines.iter().take(OUTPUT_LINES_SHOWN).map(|line| {
        let text = line.trim_start();
        let indent = (line.len() - text.len()).min(OUTPUT_INDENT);
        (format!("    {}", " ".repeat(indent)), fit(text, EPISODE_TEXT))
    });
    let after = counted(end.lines_after, "line follows it.", "lines follow it.");
    let note = (end.is_traceback && end.lines_after > 0).then_some(after);
    Some(Section::new(title, SectionBody::Tree(lines.collect())).noting(note))
}

#[cfg(test)]
#[path = "run_summary_tests.rs"]
mod tests;
