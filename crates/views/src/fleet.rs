//! The fleet as text: a line that sums up, then each run with its ranks. The screen and the printed table are made of the same lines.

use crate::cost::Price;
use trainmon_base::text::format::{counted, duration, share, step_time};
use trainmon_base::text::named_enum;
use trainmon_diagnosis::diagnosis::causes::verdict_name;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::fleet::{DownExporter, Fleet, FleetRank, FleetRun, GpuCount, LateKind, LateRanks, Mark};

named_enum! {
    /// By what the ranks of a run are sorted; the words are shown.
    #[derive(Default)]
    pub enum RankOrder {
        /// Conspicuous ones first, then by their numbers.
        #[default]
        Marks = "late and slow first",
        /// By their numbers.
        Number = "rank",
        /// By their machines.
        Machine = "machine",
        /// The longest step first.
        Step = "step time",
        /// Those that wait least first.
        Waits = "waiting",
        /// The least used GPUs first.
        Use = "GPU utilization",
    }
}

/// Headings of the columns.
pub const HEADINGS: [&str; 7] = ["RANK", "MACHINE", "GPU", "STEP", "WAITS", "GPU USE", "VERDICT"];

/// How a line is to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Like any other.
    Plain,
    /// Something is wrong here.
    Alarm,
    /// Something may be wrong here.
    Warning,
    /// All is well.
    Good,
    /// Hardly matters.
    Dim,
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq)]
pub enum FleetLine {
    /// What a part of the table is about.
    Heading(String),
    /// A sentence on it.
    Sentence(String, Tone),
    /// A rank, cell by cell.
    Rank([String; HEADINGS.len()], Tone, Option<Class>),
    /// Nothing.
    Blank,
}

/// GPUs in words: `64 GPUs, 3 idle, 18% of their time idle ($9.22 an hour)`.
fn gpus(gpus: &GpuCount, price: Option<&Price>) -> String {
    let idle = if gpus.idle > 0 { format!(", {} idle", gpus.idle) } else { String::new() };
    let part = gpus.idle_time / gpus.count.max(1) as f64;
    let cost = price.map(|price| format!(" ({} an hour)", price.for_hours(gpus.idle_time))).unwrap_or_default();
    format!("{}{idle}, without work {} of the time{cost}", counted(gpus.count, "GPU", "GPUs"), share(Some(part)))
}

/// What there is, in a line.
pub fn summary(fleet: &Fleet, price: Option<&Price>) -> String {
    let totals = &fleet.totals;
    let mut parts = Vec::new();
    match totals.late_ranks {
        0 => parts.push("no late rank".to_owned()),
        late => parts.push(counted(late, "late rank", "late ranks")),
    }
    let down = fleet.down.iter().filter(|down| down.unreachable).count();
    if down > 0 {
        parts.push(format!("{} down", counted(down, "exporter", "exporters")));
    }
    parts.push(counted(fleet.runs.len(), "run", "runs"));
    parts.push(counted(totals.ranks, "rank", "ranks"));
    parts.push(counted(totals.machines, "machine", "machines"));
    if totals.gpus.count > 0 {
        parts.push(gpus(&totals.gpus, price));
    }
    parts.join(" · ")
}

/// The lines of the table.
pub fn lines(fleet: &Fleet, order: RankOrder, price: Option<&Price>) -> Vec<FleetLine> {
    let mut lines = Vec::new();
    for run in &fleet.runs {
        lines.push(FleetLine::Heading(run_heading(run, price)));
        let tone = match run.late.kind {
            LateKind::Even if matches!(run.class, Some(Class::Balanced)) => Tone::Good,
            LateKind::Even => Tone::Plain,
            LateKind::Unclear | LateKind::Unmeasured => Tone::Warning,
            LateKind::One | LateKind::Machine | LateKind::Few => Tone::Alarm,
        };
        lines.push(FleetLine::Sentence(late_sentence(run), tone));
        let mut ranks: Vec<&FleetRank> = run.ranks.iter().collect();
        sort(&mut ranks, order);
        lines.extend(ranks.into_iter().map(rank_line));
        lines.push(FleetLine::Blank);
    }
    if !fleet.unused.is_empty() {
        lines.push(FleetLine::Heading("GPUs that no rank uses".to_owned()));
        lines.extend(fleet.unused.iter().map(|unused| {
            let text = format!("{}: {}", unused.machine, gpus(&unused.gpus, price));
            FleetLine::Sentence(text, if unused.gpus.idle > 0 { Tone::Warning } else { Tone::Plain })
        }));
        lines.push(FleetLine::Blank);
    }
    if !fleet.down.is_empty() {
        lines.push(FleetLine::Heading("No answer".to_owned()));
        lines.extend(fleet.down.iter().map(|down| FleetLine::Sentence(down_sentence(down), Tone::Alarm)));
        lines.push(FleetLine::Blank);
    }
    lines.extend(
        fleet.warnings.iter().map(|text| FleetLine::Sentence(format!("Prometheus warns: {text}"), Tone::Warning)),
    );
    if lines.last() == Some(&FleetLine::Blank) {
        lines.pop();
    }
    lines
}

fn run_heading(run: &FleetRun, price: Option<&Price>) -> String {
    let mut parts = vec![run.title()];
    parts.extend(run.cluster.clone());
    let there = run.ranks.len();
    parts.push(match run.world_size {
        Some(world) if there < world as usize => format!("{there} of {world} ranks"),
        _ => counted(there, "rank", "ranks"),
    });
    if run.gpus.count > 0 {
        parts.push(gpus(&run.gpus, price));
    }
    parts.join(" · ")
}

/// What is late and why, in a sentence or two.
pub(crate) fn late_sentence(run: &FleetRun) -> String {
    let LateRanks { kind, ranks, machine, waits, others_wait } = &run.late;
    let cause = run.class.map(|class| verdict_name(class, run.cause));
    let because = cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
    let wait = match (waits, others_wait) {
        (Some(waits), Some(others)) if others > waits => {
            format!(" The others wait {} of the time, it waits {}.", share(Some(*others)), share(Some(*waits)))
        }
        _ => String::new(),
    };
    let machine = machine.as_deref().unwrap_or_default();
    let numbers = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match kind {
        LateKind::One => match ranks.first() {
            Some(rank) => format!("Rank {rank} on {machine} is late{because}.{wait}"),
            None => format!("The rank on {machine} is late{because}.{wait}"),
        },
        LateKind::Machine => format!("Machine {machine} is late{because}.{wait}"),
        LateKind::Few => format!("Ranks {numbers} wait least: at least one of them is late{because}.{wait}"),
        LateKind::Unclear if run.ranks.iter().any(|rank| rank.marks.contains(&Mark::Twice)) => {
            "The late rank cannot be named: rank numbers are used twice. Give each run a name of its own.".to_owned()
        }
        LateKind::Unclear => "Some ranks wait for others, but no single rank or machine is late.".to_owned(),
        LateKind::Unmeasured => {
            "All measured ranks wait: the late one may be a rank that is not measured.".to_owned()
        }
        LateKind::Even if run.ranks.len() < 2 => cause.unwrap_or_else(|| "Not judged yet".to_owned()) + ".",
        LateKind::Even => {
            format!("No rank is late{}.", cause.map(|cause| format!("; most of them: {cause}")).unwrap_or_default())
        }
    }
}

fn down_sentence(down: &DownExporter) -> String {
    let seen = match down.last_seen_s {
        Some(seconds) => format!("last scraped about {} ago", duration(seconds)),
        None => "not scraped within the last hour".to_owned(),
    };
    if down.unreachable {
        format!("{}: Prometheus cannot scrape trainmon, {seen}", down.machine)
    } else {
        format!("{}: a job does not answer trainmon", down.machine)
    }
}

fn sort(ranks: &mut [&FleetRank], order: RankOrder) {
    let least_first = |value: Option<f64>| value.map_or(u64::MAX, |value| (value * 1e6) as u64);
    match order {
        RankOrder::Marks => ranks.sort_by_key(|rank| {
            let mark = rank.marks.first().map_or(Mark::COUNT, |mark| mark.index());
            (mark, rank.rank)
        }),
        // As they are.
        RankOrder::Number => {}
        RankOrder::Machine => ranks.sort_by(|a, b| a.machine.cmp(&b.machine)),
        RankOrder::Step => ranks.sort_by_key(|rank| std::cmp::Reverse(rank.step_ms.map(|ms| (ms * 1e3) as u64))),
        RankOrder::Waits => ranks.sort_by_key(|rank| least_first(rank.waits)),
        RankOrder::Use => ranks.sort_by_key(|rank| least_first(rank.gpu_utilization)),
    }
}

fn rank_line(rank: &FleetRank) -> FleetLine {
    let marks: Vec<&str> = rank.marks.iter().map(|mark| mark.word()).collect();
    let verdict = rank.class.map(|class| verdict_name(class, rank.cause)).unwrap_or_default();
    let (marks, between) = (marks.join(", "), if rank.marks.is_empty() || verdict.is_empty() { "" } else { " · " });
    let indexes: Vec<&str> = rank.gpus.iter().map(|gpu| gpu.index.as_str()).collect();
    let tone = match rank.marks.first() {
        None => Tone::Plain,
        Some(Mark::Late) => Tone::Alarm,
        Some(Mark::Down | Mark::Silent) => Tone::Dim,
        Some(_) => Tone::Warning,
    };
    let cells = [
        rank.rank.map_or_else(|| "–".to_owned(), |number| number.to_string()),
        rank.machine.clone(),
        if indexes.is_empty() { "–".to_owned() } else { indexes.join(",") },
        rank.step_ms.map_or_else(|| "–".to_owned(), step_time),
        share(rank.waits),
        share(rank.gpu_utilization),
        format!("{marks}{between}{verdict}"),
    ];
    FleetLine::Rank(cells, tone, rank.class)
}

/// Widths of the columns but the last that hold all cells, none beyond `most`.
pub fn widths(lines: &[FleetLine], most: usize) -> [usize; HEADINGS.len()] {
    let mut widths = HEADINGS.map(str::len);
    for line in lines {
        if let FleetLine::Rank(cells, ..) = line {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(unicode_width::UnicodeWidthStr::width(cell.as_str()).min(most));
            }
        }
    }
    widths
}

/// Everything as text.
pub fn text(fleet: &Fleet, price: Option<&Price>) -> String {
    let lines = lines(fleet, RankOrder::default(), price);
    let widths = widths(&lines, 40);
    let mut text = summary(fleet, price) + "\n";
    let mut after_sentence = false;
    for line in &lines {
        match line {
            FleetLine::Heading(heading) => text += &format!("\n{heading}\n"),
            FleetLine::Sentence(sentence, _) => text += &format!("  {sentence}\n"),
            FleetLine::Rank(cells, ..) => {
                if after_sentence {
                    text += &row(&HEADINGS.map(str::to_owned), &widths);
                }
                text += &row(cells, &widths);
            }
            FleetLine::Blank => {}
        }
        after_sentence = matches!(line, FleetLine::Sentence(..));
    }
    text
}

/// A row of the printed table: machine, GPUs and verdict begin at the left of their columns, numbers end at the right.
fn row(cells: &[String; HEADINGS.len()], widths: &[usize; HEADINGS.len()]) -> String {
    let mut line = " ".to_owned();
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let cell = trainmon_base::text::fit(cell, if at + 1 == HEADINGS.len() { usize::MAX } else { *width });
        let blanks = " ".repeat(width.saturating_sub(unicode_width::UnicodeWidthStr::width(cell.as_str())));
        line += &if is_left(at) { format!(" {cell}{blanks} ") } else { format!("{blanks}{cell} ") };
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

/// Whether a column holds words.
pub fn is_left(column: usize) -> bool {
    matches!(column, 1 | 2 | 6)
}
