//! What a report of a whole run says besides its verdict: how long each verdict held, when it changed, and where the run ran.
//! Markdown and HTML lay out the same sections.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::cost::{self, Price};
use super::report::{Column, Section, SectionBody, phase_words, sections};
use super::run_summary::{RunSummary, steps_words};
use trainmon_base::text::format::{UNMEASURED, bytes, duration, largest_first, precise, whole_percent as percent};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::diagnosis::{LOOK_BACK_S, Verdict};
use trainmon_diagnosis::history::run::WholeRun;
use trainmon_sample::recording::Header;

/// Most changes of the verdict that are listed, the longest ones.
const CHANGES_LISTED: usize = 40;
/// Smaller shares of the loop's time are left out of a sentence.
const SHARE_SAID: f64 = 0.01;

/// A whole run, and where it came from.
#[derive(Debug)]
pub struct RunReport<'r> {
    /// The run.
    pub run: &'r WholeRun,
    /// The head of its recording.
    pub header: &'r Header,
    /// Why its end is missing, in one line, if it is.
    pub note: Option<String>,
    /// The zone of the times of day.
    pub zone: TimeZone,
    /// What an hour of a GPU costs.
    pub price: Option<Price>,
    /// What its reader calls it.
    pub title: Option<String>,
}

impl RunReport<'_> {
    /// The verdict that it is about, and for how many seconds it held; `None` for a run without samples.
    pub fn verdict(&self) -> Option<(&Verdict, f64)> {
        self.run.verdict().map(|(verdict, seconds)| (&**verdict, seconds))
    }

    /// `2026-02-03 04:05:06 to 04:11:18 UTC, 6m12s`: when the run was watched, and for how long.
    pub fn when(&self) -> String {
        let (Some(began), Some(ended)) = (self.run.totals.began_unix_ms, self.run.totals.ended_unix_ms) else {
            return UNMEASURED.to_owned();
        };
        let began = zone::moment(began, &self.zone, "%Y-%m-%d %H:%M:%S");
        let ended =
            zone::moment(ended, &self.zone, if self.spans_days() { "%Y-%m-%d %H:%M:%S %Z" } else { "%H:%M:%S %Z" });
        format!("{began} to {ended}, {}", duration(self.run.totals.watched_s))
    }

    /// The time of day, with the day where the run has several.
    pub fn clock(&self, unix_ms: i64) -> String {
        zone::moment(unix_ms, &self.zone, if self.spans_days() { "%m-%d %H:%M:%S" } else { "%H:%M:%S" })
    }

    fn spans_days(&self) -> bool {
        let day = |ms| zone::moment(ms, &self.zone, "%Y-%m-%d");
        self.run.totals.began_unix_ms.map(day) != self.run.totals.ended_unix_ms.map(day)
    }

    /// The run in short, to begin with.
    pub fn summary(&self) -> RunSummary<'_> {
        // A log, and what other tools recorded, know no end.
        let is_watched = self.run.frame.is_some() && self.header.pid != 0;
        let story = if is_watched { Some(&self.run.story) } else { None };
        RunSummary { totals: &self.run.totals, story, zone: &self.zone, price: self.price.as_ref() }
    }

    /// Ranks that the job has, at least one.
    pub fn ranks(&self) -> usize {
        self.verdict().map_or(1, |(verdict, _)| verdict.ranks.len().max(1))
    }

    /// Where the loop's time went in the whole run, beside the last moments of its verdict.
    fn whole_split(&self) -> Option<String> {
        let split_s = self.run.totals.split_s;
        let shares = split_s.shares_of(split_s.total())?;
        let words = largest_first(shares.iter().map(|(activity, share)| (activity.word(), share)), SHARE_SAID);
        let of = if self.ranks() > 1 { format!(", mean of {} ranks", self.ranks()) } else { String::new() };
        Some(format!("Over the whole run{of}: {words}."))
    }

    /// Classes with their share of the run, largest first.
    pub fn class_shares(&self) -> impl Iterator<Item = (Class, f64)> {
        let classes = self.run.totals.classes();
        let watched = classes.iter().map(|(_, seconds)| seconds).sum::<f64>().max(f64::MIN_POSITIVE);
        classes.into_iter().map(move |(class, seconds)| (class, seconds / watched))
    }

    /// For how long the verdict held: `held for 5m of 6m12s`. It looks back on seconds, so its numbers are those of its end;
    /// without a process they are means of all.
    pub fn held(&self) -> Option<String> {
        let (verdict, seconds) = self.verdict()?;
        let looks_back = verdict.pid != 0 && seconds > 2.0 * LOOK_BACK_S;
        let end = if looks_back { "; its numbers are those of its last moments" } else { "" };
        let of = duration(self.run.totals.watched_s);
        Some(format!("held for {} of {of}{end}", duration(seconds)))
    }

    /// Seconds by which its clock is ahead of UTC at the begin.
    pub fn offset_s(&self) -> i32 {
        let began = self.run.totals.began_unix_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        began.map_or(0, |began| self.zone.to_offset(began).seconds())
    }

    /// The sections about the run's verdicts, then all about the one that it is about, then where it ran.
    pub fn sections(&self) -> Vec<Section> {
        let mut all = self.summary().sections();
        all.extend([self.classes(), self.phases(), self.cost(), self.changes()]);
        let about = |verdict: &Verdict| sections(verdict, &self.zone, self.run.totals.ended_unix_ms);
        let mut of_verdict = self.verdict().map(|(verdict, _)| about(verdict)).unwrap_or_default();
        let loop_time = of_verdict.iter_mut().find(|section| matches!(section.body, SectionBody::Shares(_)));
        loop_time.into_iter().for_each(|section| section.notes.extend(self.whole_split()));
        all.extend(of_verdict);
        all.push(self.environment());
        all.retain(|section| !section.is_empty());
        all
    }

    fn classes(&self) -> Section {
        let watched_s = self.run.totals.watched_s;
        let classes = self.class_shares().map(|(class, share)| (class.name(), share, share * watched_s));
        let steps = steps_words(&self.run.totals.steps).map(|steps| format!("{steps}."));
        time_by("verdict", classes.collect()).noting(steps)
    }

    /// What the job did, where it did more than train.
    fn phases(&self) -> Section {
        let mut phases: Vec<_> = self.run.totals.phases().filter(|(_, seconds)| *seconds > 0.0).collect();
        phases.sort_by(|a, b| b.1.total_cmp(&a.1));
        let whole: f64 = phases.iter().map(|(_, seconds)| seconds).sum();
        let told = if phases.len() > 1 { phases.as_slice() } else { &[] };
        let told = told.iter();
        time_by("phase", told.map(|(phase, seconds)| (phase_words(*phase), seconds / whole, *seconds)).collect())
    }

    fn cost(&self) -> Section {
        let rows = cost::parts(&self.run.totals, self.price.as_ref()).into_iter().map(|part| {
            let row = vec![part.what.to_owned(), part.time, part.share];
            if self.price.is_some() { [row, vec![part.cost]].concat() } else { row }
        });
        let mut columns = vec![Column::left("part"), Column::right("GPU time"), Column::right("share")];
        columns.extend(self.price.as_ref().map(|_| Column::right("cost")));
        let price = self.price.as_ref().map(|price| format!("An hour of a GPU costs {price}."));
        let energy = cost::energy(&self.run.totals).map(|energy| format!("Energy of the GPUs: {energy}."));
        Section::new("Cost", SectionBody::Table(columns, rows.collect())).noting(energy.into_iter().chain(price))
    }

    /// The verdicts in their order; where there are too many, the longest.
    fn changes(&self) -> Section {
        let mut spans: Vec<_> = self.run.spans.iter().collect();
        let all = spans.len() as u64 + self.run.dropped;
        spans.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        spans.truncate(CHANGES_LISTED);
        spans.sort_by_key(|span| span.from_unix_ms);
        let unlisted = all - spans.len() as u64;
        let rows = spans.into_iter().map(|span| {
            let cause = span.cause.map(|cause| cause.spec_in(span.class).headline).unwrap_or_default();
            vec![
                self.clock(span.from_unix_ms),
                duration(span.seconds),
                span.class.name().to_owned(),
                cause.to_owned(),
            ]
        });
        let columns =
            vec![Column::left("from"), Column::right("for"), Column::left("verdict"), Column::left("cause")];
        let note = (unlisted > 0).then(|| format!("and {unlisted} more, none of them longer"));
        Section::new("The verdict over time", SectionBody::Table(columns, rows.collect())).noting(note)
    }

    fn environment(&self) -> Section {
        if self.run.is_empty() {
            return Section::new("", SectionBody::Table(Vec::new(), Vec::new()));
        }
        let environment = &self.run.environment;
        let gpus = environment.gpus.iter().map(|gpu| {
            let name = gpu.name.as_deref().unwrap_or("unknown GPU");
            let simulated = if gpu.simulated { ", simulated" } else { "" };
            format!("{} {name}, {}{simulated}", gpu.index, bytes(gpu.memory_bytes))
        });
        let gpus: Vec<String> = gpus.collect();
        let cpus = environment.cpus_allowed.map(|allowed| {
            let of = environment.cpus.map(|cpus| format!(" of {cpus}")).unwrap_or_default();
            let quota = environment.cpu_quota.map(|quota| format!(", limited to {}", precise(quota)));
            format!("{allowed}{of}{}", quota.unwrap_or_default())
        });
        let memory = environment.memory_bytes;
        let workers = self.run.most_workers;
        let every = Some(self.header.interval_s).filter(|every| *every > 0.0);
        let version = &self.header.trainmon;
        let facts = [
            ("command", self.header.command.clone()),
            ("PID", if self.header.pid == 0 { String::new() } else { self.header.pid.to_string() }),
            ("host", environment.host.clone().unwrap_or_default()),
            ("CPU model", environment.cpu_model.clone().unwrap_or_default()),
            ("CPUs", cpus.unwrap_or_default()),
            ("memory", memory.map(|memory| bytes(Some(memory))).unwrap_or_default()),
            ("GPUs", gpus.join("; ")),
            ("GPU driver", environment.driver.clone().unwrap_or_default()),
            ("Python", environment.python.clone().unwrap_or_default()),
            ("torch", environment.torch.clone().unwrap_or_default()),
            ("workers", if workers > 0 { workers.to_string() } else { String::new() }),
            ("sampled", every.map(|every| format!("every {} s", precise(every))).unwrap_or_default()),
            ("recorded by", if version.is_empty() { String::new() } else { format!("trainmon {version}") }),
        ];
        let rows = facts.into_iter().filter(|(_, value)| !value.is_empty());
        let rows = rows.map(|(name, value)| vec![name.to_owned(), value]).collect();
        Section::new("Environment", SectionBody::Table(vec![Column::left("what"), Column::left("value")], rows))
    }
}

/// A table of times: names, shares of the whole, seconds.
fn time_by(what: &'static str, times: Vec<(&str, f64, f64)>) -> Section {
    let row = |(name, share, seconds): (&str, f64, f64)| {
        vec![name.to_owned(), format!("{}%", percent(share)), duration(seconds)]
    };
    let columns = vec![Column::left(what), Column::right("share"), Column::right("time")];
    Section::new(format!("Time by {what}"), SectionBody::Table(columns, times.into_iter().map(row).collect()))
}
