//! The tables of a comparison of traces.

use super::super::tables::{
    LEAST_SHARE, columns, milliseconds, pairs, part_rows, share_row, signed_ms, two, value_row,
};
use super::cautions::{self, gpu};
use super::{AnyComparison, ComparedTrace, TraceComparison};
use crate::profile_sections::mark;
use crate::report::{Column, Section, SectionBody, headline, with_worth};
use trainmon_base::text::format::{UNMEASURED, bytes, precise, step_time};
use trainmon_profiles::account::{CopyDirection, ProfileAccount};
use trainmon_profiles::comparison::{
    BeforeAfter, ByCall, ByDirection, ByName, ChangedRows, PartsOf, Per, RowChange, RowNumber, StepPart,
    shares_of_loop,
};

/// Rows of a table; the JSON has more.
const ROWS_SHOWN: usize = 10;
/// What the times of some tables are.
const OF_OPERATORS: &str = "Time on the GPU, and time for which they leave it idle.";
const OF_SYNCS: &str = "Time for which they leave the GPU idle. Removing a call can gain no more.";
const OF_COLLECTIVES: &str = "Time in which no other kernel ran.";

/// Everything else.
pub(super) fn sections(of: &TraceComparison<'_>) -> Vec<Section> {
    let mut all = accounts(of);
    all.extend([of.verdicts(), of.traces("Traces")]);
    all
}

/// The same of the profiles of two runs: what changed in them comes first, and titles say that it is of them.
pub(super) fn sections_of_runs(of: &TraceComparison<'_>) -> Vec<Section> {
    let cautions = cautions::listed(of.sides(), of.change.per);
    let answer = Section::new("The profiles", SectionBody::Text(of.answer())).noting(cautions);
    let mut all = accounts(of);
    all.push(of.traces("Profiles"));
    for section in &mut all {
        if !section.title.ends_with("rofiles") {
            section.title.push_str(", in the profiles");
        }
    }
    all.insert(0, answer);
    all
}

/// What ran before and after.
fn accounts(of: &TraceComparison<'_>) -> Vec<Section> {
    let change = &of.change;
    vec![
        of.parts(),
        of.gpu_section(),
        of.loop_section(),
        of.rows("Kernels that changed most", &change.kernels, ["median", "kernel"], kernel, None),
        of.rows(
            "Operators that changed most",
            &change.operators,
            ["on the host", "operator"],
            operator,
            Some(OF_OPERATORS),
        ),
        of.rows("Calls that wait for the GPU", &change.syncs, ["they wait", "call"], sync, Some(OF_SYNCS)),
        of.rows("Collectives", &change.collectives, ["in all", "collective"], collective, Some(OF_COLLECTIVES)),
        of.rows("Copies", &change.copies, ["bytes", "copy"], copy, None),
    ]
}

impl TraceComparison<'_> {
    fn per(&self) -> &'static str {
        if self.change.per == Per::Step { "step" } else { "window" }
    }

    /// Milliseconds of a step, which add up to it.
    fn parts(&self) -> Section {
        let of = self.change.parts_of.unwrap_or(PartsOf::Gpu);
        let parts = self.change.parts.iter().map(|part| {
            let ([before, after], [of_before, of_after]) = (part.ms.values(), self.shares(part));
            (words(of, part.part), [(of_before, before), (of_after, after)])
        });
        let mut rows = part_rows(parts);
        let length = self.change.length_ms;
        let [before, after] = length.values().map(milliseconds);
        rows.push(vec![format!("the {}", self.per()), before, after, signed_ms(length.change())]);
        let first = if of == PartsOf::Gpu { "the GPU" } else { "the loop" };
        Section::new(format!("Where the time of a {} goes", self.per()), SectionBody::Table(columns(first), rows))
    }

    fn gpu_section(&self) -> Section {
        let accounts = self.sides().map(|side| side.account);
        let share = |name: &str, of: fn(&ProfileAccount) -> Option<f64>| {
            let values = accounts.map(of);
            let known = values.iter().flatten().any(|value| *value >= LEAST_SHARE);
            known.then(|| share_row(name, values))
        };
        let row = |name: &str, of: fn(&ProfileAccount) -> Option<f64>, show: fn(f64) -> String| {
            let values = accounts.map(of);
            values.iter().flatten().any(|value| *value > 0.0).then(|| value_row(name, values, show))
        };
        let a_step = if self.change.per == Per::Step { " a step" } else { "" };
        let us: fn(f64) -> String = microseconds;
        let rows = [
            share("busy", |account| Some(account.devices.first()?.busy)),
            share("collectives, hidden or not", |account| Some(account.devices.first()?.communication)),
            share("copies, hidden or not", |account| Some(account.devices.first()?.copy)),
            share("of the GPU's peak", |account| account.efficiency.as_ref()?.of_peak),
            row(&format!("kernels{a_step}"), |account| Some(account.launches?.kernels_per_step), precise),
            row("their median length", |account| account.devices.first()?.median_kernel_us, us),
            row(
                &format!("calls that launch them{a_step}"),
                |account| Some(account.launches?.calls_per_step),
                precise,
            ),
            row("from launch to start (median)", |account| account.launches?.queue_us, us),
        ];
        let rows = rows.into_iter().flatten().collect();
        Section::new("The GPU", SectionBody::Table(columns("what"), rows))
    }

    /// The rows of a table: time before and after, its change, how often, one more number, and the name, which may be long.
    fn rows<R>(
        &self,
        title: &str,
        changed: &ChangedRows<R>,
        [more, name]: [&'static str; 2],
        row: fn(&RowChange<R>) -> ChangedRow,
        note: Option<&str>,
    ) -> Section {
        let count = if self.change.per == Per::Step { "a step" } else { "count" };
        let names = ["before", "after", "change", count, more].map(Column::right);
        let columns = names.into_iter().chain([Column::left(name)]).collect();
        let rows = changed.rows.iter().take(ROWS_SHOWN).map(|changed| {
            let (name, ms, count, more) = row(changed);
            let [before, after] = ms.sides().map(|ms| ms.map_or(UNMEASURED.to_owned(), milliseconds));
            vec![before, after, signed_ms(ms.change()), arrow(count.values().map(number)), more, name]
        });
        let left_out = changed.left_out + changed.rows.len().saturating_sub(ROWS_SHOWN);
        let section = Section::new(title, SectionBody::Table(columns, rows.collect()));
        let more = (left_out > 0).then(|| format!("and {left_out} more"));
        section.noting(more.into_iter().chain(note.map(str::to_owned)))
    }

    /// The shares of the loop's time, beside those of the GPU's.
    fn loop_section(&self) -> Section {
        let shares = self.sides().map(|side| shares_of_loop(side.account));
        let rows = match shares {
            [Some(before), Some(after)] if self.change.parts_of == Some(PartsOf::Gpu) => {
                let both =
                    before.into_iter().zip(after).filter(|((_, one), (_, other))| one.max(*other) >= LEAST_SHARE);
                both.map(|((part, before), (_, after))| {
                    share_row(words(PartsOf::Loop, part), [Some(before), Some(after)])
                })
                .collect()
            }
            _ => Vec::new(),
        };
        Section::new("Where the loop's time goes", SectionBody::Table(columns("the loop"), rows))
    }

    fn verdicts(&self) -> Section {
        let rows = self.sides().into_iter().zip(["before", "after"]).flat_map(|(side, name)| {
            let advice =
                side.verdict.advice.first().map(|advice| vec![String::new(), format!("▶ {}", with_worth(advice))]);
            std::iter::once(vec![name.to_owned(), headline(side.verdict)]).chain(advice)
        });
        let columns = vec![Column::left("trace"), Column::left("verdict")];
        Section::new("Verdict", SectionBody::Table(columns, rows.collect()))
    }

    fn traces(&self, title: &str) -> Section {
        let of = |show: fn(&ComparedTrace<'_>) -> String| self.sides().map(show);
        let yes = |is: bool| if is { "recorded" } else { "not recorded" }.to_owned();
        let recorded = |is: fn(&ProfileAccount) -> bool| self.sides().map(|side| yes(is(side.account)));
        let rows: [(&str, [String; 2]); 8] = [
            ("file", of(|side| side.name.clone())),
            ("GPU", of(|side| gpu(side.account).unwrap_or_default())),
            ("rank", of(rank)),
            ("window", of(|side| step_time(side.account.window_ms))),
            ("steps", of(|side| side.account.steps.to_string())),
            ("a step is", of(|side| side.account.steps_by.map(mark).unwrap_or_default().to_owned())),
            ("Python functions", recorded(|account| account.with_stack)),
            ("shapes", recorded(|account| account.with_shapes)),
        ];
        let note =
            "The margin knows only these windows. What varies over minutes, like clocks or data, is not in it.";
        Section::new(title, SectionBody::Table(two("what"), pairs(rows))).noting([note.to_owned()])
    }
}

fn rank(side: &ComparedTrace<'_>) -> String {
    match (side.account.rank, side.account.world_size) {
        (Some(rank), Some(all)) => format!("{rank} of {all}"),
        (Some(rank), None) => rank.to_string(),
        _ => String::new(),
    }
}

/// A part as a row of a table names it.
fn words(of: PartsOf, part: StepPart) -> &'static str {
    let is_gpu = of == PartsOf::Gpu;
    match part {
        StepPart::Compute => "computing",
        StepPart::Communication => "in collectives, not computing",
        StepPart::Copies if is_gpu => "only copying",
        StepPart::Copies => "in calls that copy",
        StepPart::Annotation => "in annotations alone",
        StepPart::InputWait if is_gpu => "idle: waiting for data",
        StepPart::Sync if is_gpu => "idle: in calls that wait for it",
        StepPart::Launch if is_gpu => "idle: launching",
        StepPart::Operator if is_gpu => "idle: in operators on the host",
        StepPart::Python if is_gpu => "idle: Python, or not recorded",
        StepPart::InputWait => "waiting for data",
        StepPart::Sync => "waiting for the GPU",
        StepPart::Collective => "in collectives",
        StepPart::Blocked => "sleeping, or waiting for a lock",
        StepPart::Launch => "launching",
        StepPart::Operator => "in operators",
        StepPart::Python => "in Python",
        StepPart::Saving => "saving",
        StepPart::Nothing => "not recorded",
    }
}

/// What all rows have: a name, milliseconds, how often, and one more number.
type ChangedRow = (String, BeforeAfter, BeforeAfter, String);

/// Of a row: its name, the number that is its time, and one more that is shown.
fn changed<K>(
    row: &RowChange<K>,
    name: String,
    ms: RowNumber,
    (more, show): (RowNumber, fn(f64) -> String),
) -> ChangedRow {
    (name, row.number(ms), row.number(RowNumber::Count), arrow_of(row.number(more), show))
}

fn kernel(row: &RowChange<ByName>) -> ChangedRow {
    changed(row, row.key.name.clone(), RowNumber::Ms, (RowNumber::MedianUs, microseconds))
}

fn operator(row: &RowChange<ByName>) -> ChangedRow {
    let sum = |gpu: Option<f64>, idle: Option<f64>| Some(gpu? + idle?);
    let (gpu, idle) = (row.number(RowNumber::DeviceMs), row.number(RowNumber::IdleMs));
    let ms = BeforeAfter { before: sum(gpu.before, idle.before), after: sum(gpu.after, idle.after) };
    let (name, _, count, more) =
        changed(row, row.key.name.clone(), RowNumber::DeviceMs, (RowNumber::HostMs, milliseconds));
    (name, ms, count, more)
}

fn sync(row: &RowChange<ByCall>) -> ChangedRow {
    let name = match &row.key.operator {
        Some(operator) => format!("{operator} ({})", row.key.call),
        None => row.key.call.clone(),
    };
    changed(row, name, RowNumber::IdleMs, (RowNumber::WaitMs, milliseconds))
}

fn collective(row: &RowChange<ByName>) -> ChangedRow {
    changed(row, row.key.name.clone(), RowNumber::ExposedMs, (RowNumber::Ms, milliseconds))
}

fn copy(row: &RowChange<ByDirection>) -> ChangedRow {
    let ByDirection { direction, pageable } = row.key;
    let memory = pageable.map(|pageable| if pageable { ", pageable" } else { ", pinned" }).unwrap_or_default();
    let direction = direction.map_or("unknown", CopyDirection::word).replace('-', " ");
    let bytes = |value: f64| bytes(Some(value as u64));
    changed(row, format!("{direction}{memory}"), RowNumber::Ms, (RowNumber::Bytes, bytes))
}

fn microseconds(us: f64) -> String {
    if us < 1000.0 { format!("{} µs", precise(us)) } else { step_time(us / 1000.0) }
}

/// A number per step: whole where it is as good as whole.
fn number(count: f64) -> String {
    if (count - count.round()).abs() < 0.05 { format!("{:.0}", count.abs().round()) } else { precise(count) }
}

/// `6 → 0`, or the number where it stays.
fn arrow([before, after]: [String; 2]) -> String {
    if before == after { after } else { format!("{before} → {after}") }
}

fn arrow_of(values: BeforeAfter, show: impl Fn(f64) -> String) -> String {
    arrow(values.sides().map(|value| value.map_or(UNMEASURED.to_owned(), &show)))
}
