//! The tables of a comparison.

use super::{ComparedRun, Comparison, FACTS, signed};
use crate::chain;
use crate::report::{Column, Section, SectionBody, headline, with_worth};
use trainmon_base::text::format::{
    UNMEASURED, Unit, duration, precise, precise_in_unit, share, step_time, whole_percent as percent,
};
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::verdict::Stages;
use trainmon_diagnosis::history::run::WholeRun;
use trainmon_diagnosis::history::timeline::TimelinePoint;
use trainmon_waits::time_split::LoopActivity;

/// A part that is less of both steps is not worth a row.
pub(super) const LEAST_SHARE: f64 = 0.005;
/// Longest line of the wait chain.
const CHAIN_WIDTH: usize = 300;

/// Everything else.
pub(super) fn sections(of: &Comparison<'_>) -> Vec<Section> {
    vec![of.step_time(), of.loop_time(), of.verdicts(), of.chains(), of.stages(), of.resources(), of.environment()]
}

impl Comparison<'_> {
    fn step_time(&self) -> Section {
        let note = "Steps are compared, not samples: trainmon does not see how large a batch is.".to_owned();
        let means = self.sides().map(|side| side.run.steps.mean_s());
        let rate = means.map(|mean| mean.map(|seconds| 1.0 / seconds));
        let mut rows = if means.iter().all(Option::is_none) {
            Vec::new()
        } else {
            vec![
                value_row("mean time of a step", means, |seconds| step_time(seconds * 1000.0)),
                value_row("steps a second", rate, precise),
            ]
        };
        let energy = self.sides().map(energy_of_step);
        if energy.iter().any(Option::is_some) {
            rows.push(value_row("energy of a step", energy, |joules| format!("{} J", precise(joules))));
        }
        Section::new("Steps", SectionBody::Table(columns("what"), rows)).noting([note])
    }

    /// Milliseconds of a step, which add up to it.
    fn loop_time(&self) -> Section {
        let title = "Where the time of a step goes";
        let ms = |side: &ComparedRun<'_>| {
            let (shares, step_s) = (side.shares()?, side.run.steps.mean_s()?);
            Some(shares.values().map(|share| (share, share * step_s * 1000.0)))
        };
        let (Some(before), Some(after)) = (ms(&self.before), ms(&self.after)) else {
            return self.loop_shares();
        };
        let rows = LoopActivity::ALL.into_iter().zip(before.into_iter().zip(after));
        let rows = rows.map(|(activity, (before, after))| (activity.word(), [before, after]));
        Section::new(title, SectionBody::Table(columns("the loop"), part_rows(rows)))
    }

    fn loop_shares(&self) -> Section {
        let shares = self.sides().map(ComparedRun::shares);
        let rows = LoopActivity::ALL.into_iter().filter_map(|activity| {
            let values =
                shares.map(|shares| shares.and_then(|shares| shares.values().get(activity.index()).copied()));
            let known = values.iter().flatten().any(|share| *share >= LEAST_SHARE);
            known.then(|| share_row(activity.word(), values))
        });
        Section::new("Where the loop's time goes", SectionBody::Table(columns("the loop"), rows.collect()))
    }

    fn verdicts(&self) -> Section {
        let said = self.sides().map(|side| side.run.verdict());
        let cells = |show: &dyn Fn(&Verdict, f64, f64) -> String| {
            let [before, after] = self.sides();
            [before, after].map(|side| {
                let watched_s = side.run.totals.watched_s;
                side.run.verdict().map_or(String::new(), |(verdict, held_s)| show(verdict, held_s, watched_s))
            })
        };
        let rows: [(&str, [String; 2]); 3] = [
            ("verdict", cells(&|verdict, _, _| headline(verdict))),
            ("held for", cells(&|_, held_s, watched_s| format!("{} of {}", duration(held_s), duration(watched_s)))),
            ("first advice", cells(&|verdict, _, _| verdict.advice.first().map(with_worth).unwrap_or_default())),
        ];
        let rows = if said.iter().all(Option::is_none) { Vec::new() } else { pairs(rows) };
        Section::new("Verdict", SectionBody::Table(two("what"), rows))
    }

    fn chains(&self) -> Section {
        let [before, after] =
            self.sides().map(|side| side.verdict().and_then(|verdict| chain::line(verdict, CHAIN_WIDTH)));
        let rows = [("before", before), ("after", after)].into_iter();
        let rows = rows.filter_map(|(name, line)| Some(vec![name.to_owned(), line?]));
        let columns = vec![Column::left("run"), Column::left("the longest wait")];
        Section::new("Wait chain", SectionBody::Table(columns, rows.collect()))
    }

    fn stages(&self) -> Section {
        type OfStages = fn(&Stages) -> f64;
        let stages: [(&str, OfStages); 5] = [
            ("load", |stages| stages.load),
            ("decode", |stages| stages.decode),
            ("transform", |stages| stages.transform),
            ("collate", |stages| stages.collate),
            ("send", |stages| stages.hand_over),
        ];
        let mean = |side: &ComparedRun<'_>, of: OfStages| {
            let all = side.verdict()?.workers.iter().filter_map(|worker| worker.stages.as_ref());
            let (sum, count) = all.fold((0.0, 0), |(sum, count), stages| (sum + of(stages), count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        let rows = stages.into_iter().filter_map(|(name, of)| {
            let values = self.sides().map(|side| mean(side, of));
            values.iter().any(Option::is_some).then(|| share_row(name, values))
        });
        Section::new("What the workers do", SectionBody::Table(columns("stage"), rows.collect()))
    }

    fn resources(&self) -> Section {
        let rows = RESOURCES.iter().filter_map(|(name, unit, value)| {
            let values = self.sides().map(|side| mean_of(side.run, *value));
            let [before, after] = values.map(|value| precise_in_unit(value, *unit));
            let change = if *unit == Unit::Percent { points(values) } else { relative(values) };
            let known = values.iter().flatten().any(|value| *value > 0.0);
            known.then(|| vec![(*name).to_owned(), before, after, change])
        });
        Section::new("Resources, on average", SectionBody::Table(columns("what"), rows.collect()))
    }

    fn environment(&self) -> Section {
        let of = |show: fn(&ComparedRun<'_>) -> String| self.sides().map(show);
        let workers = |side: &ComparedRun<'_>| match side.run.most_workers {
            0 => String::new(),
            workers => workers.to_string(),
        };
        let run = [
            ("file", of(|side| side.name.clone())),
            ("command", of(|side| side.header.command.clone())),
            ("watched for", of(|side| duration(side.run.totals.watched_s))),
            ("workers", of(workers)),
        ];
        let facts = FACTS.map(|(name, _, show)| (name, self.sides().map(|side| show(&side.run.environment))));
        let trainmon = ("trainmon", of(|side| side.header.trainmon.clone()));
        let rows = run.into_iter().chain(facts).chain([trainmon]);
        Section::new("Environment", SectionBody::Table(two("what"), pairs(rows)))
    }
}

/// Joules that the GPUs take for a step.
fn energy_of_step(side: &ComparedRun<'_>) -> Option<f64> {
    let totals = &side.run.totals;
    Some(totals.energy_j / totals.power_s * side.run.steps.mean_s()?).filter(|joules| joules.is_finite())
}

/// A mean over the run: its name, its unit, and where the value is.
pub(super) type Resource = (&'static str, Unit, fn(&TimelinePoint) -> Option<f32>);

pub(super) const RESOURCES: [Resource; 9] = [
    ("use of the GPUs", Unit::Percent, |point| point.gpu.get()),
    ("GPU memory", Unit::Percent, |point| point.gpu_memory.get()),
    ("GPU power, of its limit", Unit::Percent, |point| point.gpu_power.get()),
    ("workers active", Unit::Percent, |point| point.loader.get()),
    ("use of the allowed CPUs", Unit::Percent, |point| point.cpu.get()),
    ("of them by this job", Unit::Percent, |point| point.cpu_job.get()),
    ("job queues for a CPU", Unit::Percent, |point| point.run_delay.get()),
    ("read from storage", Unit::BytesPerS, |point| point.io.get()),
    ("use of the busiest disk", Unit::Percent, |point| point.disk_util.get()),
];

pub(super) fn mean_of(run: &WholeRun, value: fn(&TimelinePoint) -> Option<f32>) -> Option<f64> {
    run.columns(1, |point| [value(point)]).first().and_then(|(_, [mean])| mean.map(f64::from))
}

pub(super) fn columns(what: &'static str) -> Vec<Column> {
    vec![Column::left(what), Column::right("before"), Column::right("after"), Column::right("change")]
}

pub(super) fn two(what: &'static str) -> Vec<Column> {
    vec![Column::left(what), Column::left("before"), Column::left("after")]
}

/// Rows of texts; where both are the same, the second says so.
pub(super) fn pairs<'n>(rows: impl IntoIterator<Item = (&'n str, [String; 2])>) -> Vec<Vec<String>> {
    let rows = rows.into_iter().filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()));
    let rows = rows.map(|(name, [before, after])| {
        let after = if after == before { "the same".to_owned() } else { after };
        let shown = |cell: String| if cell.is_empty() { UNMEASURED.to_owned() } else { cell };
        vec![name.to_owned(), shown(before), shown(after)]
    });
    rows.collect()
}

/// Parts of a step, each as its share and its milliseconds, before and after.
pub(super) fn part_rows(parts: impl Iterator<Item = (&'static str, [(f64, f64); 2])>) -> Vec<Vec<String>> {
    let seen = parts.filter(|(_, [before, after])| before.0.max(after.0) >= LEAST_SHARE);
    let cell = |(share, ms): (f64, f64)| format!("{} ({}%)", milliseconds(ms), percent(share));
    let row = |(name, [before, after]): (&str, [(f64, f64); 2])| {
        vec![name.to_owned(), cell(before), cell(after), signed_ms(after.1 - before.1)]
    };
    seen.map(row).collect()
}

/// `−61 ms`.
pub(super) fn signed_ms(ms: f64) -> String {
    let text = milliseconds(ms.abs());
    if text == "0 ms" { text } else { format!("{}{text}", if ms < 0.0 { "−" } else { "+" }) }
}

/// `61 ms`; small ones with two decimals, and nothing as 0.
pub(super) fn milliseconds(ms: f64) -> String {
    if ms.abs() < 0.005 { "0 ms".to_owned() } else { step_time(ms) }
}

/// A number before and after, and by how much it is larger.
pub(super) fn value_row(name: &str, values: [Option<f64>; 2], show: fn(f64) -> String) -> Vec<String> {
    let [before, after] = values.map(|value| value.map_or(UNMEASURED.to_owned(), show));
    vec![name.to_owned(), before, after, relative(values)]
}

/// The same of a share, 0–1.
pub(super) fn share_row(name: &str, values: [Option<f64>; 2]) -> Vec<String> {
    let [before, after] = values.map(share);
    vec![name.to_owned(), before, after, points(values.map(|value| value.map(|share| share * 100.0)))]
}

/// By how many points the second percentage is larger.
fn points(percent: [Option<f64>; 2]) -> String {
    match percent.map(|value| value.map(f64::round)) {
        [Some(before), Some(after)] if after == before => "0 points".to_owned(),
        [Some(before), Some(after)] => {
            format!("{}{} points", if after < before { "−" } else { "+" }, precise((after - before).abs()))
        }
        _ => String::new(),
    }
}

/// By how much the second value is larger.
fn relative(values: [Option<f64>; 2]) -> String {
    match values {
        [Some(before), Some(after)] if before > 0.0 => signed(after / before - 1.0),
        _ => String::new(),
    }
}
