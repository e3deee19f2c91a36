//! The verdict for a person: the answer, why, and what to do first on the first lines; then where the time goes.

use unicode_width::UnicodeWidthStr;

use trainmon_base::text::format::whole_percent as percent;
use trainmon_base::text::{fit, sanitize, short_command, wrap_hanging};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::verdict::{Class, Culprit, Phase, ShareOf};
use trainmon_profiles::drawn::SliceKind;
use trainmon_views::comparison::ComparisonPage;
use trainmon_views::profile_sections;
use trainmon_views::report::{
    Column, NOTHING_HOLDS, Point, Section, SectionBody, explain_command, headline, own_cost, phase_words, pid_words,
    sections, with_worth,
};
use trainmon_views::run_summary::RunSummary;
use trainmon_waits::time_split::LoopActivity;

/// Widest line where nothing says how wide the terminal is.
pub const WIDTH: usize = 80;
/// Longer lines than this are hard to read, however wide the terminal.
const WIDEST: usize = 120;
/// Narrower than this nothing can be laid out.
const NARROWEST: usize = 40;
/// Columns of a bar's name, at least.
const BAR_NAME: usize = 22;
/// Columns beside a bar and its name: the percentage, and blanks.
const BESIDE_BAR: usize = 10;
/// Longest bar.
const BAR: usize = 48;
/// Less than this of a command line, columns, says nothing.
const SHORTEST_COMMAND: usize = 8;

/// How to draw, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// ASCII characters only.
    pub ascii: bool,
    /// ANSI colors, for a terminal.
    pub color: bool,
    /// Everything: evidence, other findings, what is not available, stages of the workers' time.
    pub full: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Default for Style {
    /// What goes into a pipe.
    fn default() -> Self {
        Self { ascii: false, color: false, full: false, width: WIDTH }
    }
}

/// The verdict on a page.
pub fn page(verdict: &Verdict, style: Style) -> String {
    let width = style.width.clamp(NARROWEST, WIDEST);
    let mut page = TextPage { lines: Vec::new(), style: Style { width, ..style } };
    page.head(verdict);
    for section in sections(verdict, &zone::local(), None).iter().filter(|section| style.full || !section.detail) {
        page.section(section);
    }
    page.end(verdict);
    page.lines.join("\n") + "\n"
}

/// A comparison on a page.
pub fn comparison(comparison: &ComparisonPage, style: Style) -> String {
    let width = style.width.clamp(NARROWEST, WIDEST);
    let mut page = TextPage { lines: Vec::new(), style: Style { width, ..style } };
    page.inked(ink::BOLD, "", &comparison.answer);
    comparison.more.iter().for_each(|text| page.text("", text));
    comparison.cautions.iter().for_each(|caution| page.text("note: ", caution));
    comparison.sections.iter().for_each(|section| page.section(section));
    page.lines.join("\n") + "\n"
}

/// A run in short on a page, under this title.
pub fn summary(summary: &RunSummary<'_>, title: &str, style: Style) -> String {
    let width = style.width.clamp(NARROWEST, WIDEST);
    let mut page = TextPage { lines: Vec::new(), style: Style { width, ..style } };
    page.inked(ink::BOLD, "", title);
    page.text("", &summary.answer());
    summary.lines().iter().chain(&summary.costliest()).for_each(|line| page.text("", line));
    summary.sections().iter().for_each(|section| page.section(section));
    page.lines.join("\n") + "\n"
}

/// The verdict in one line, for a chat or a ticket: `DATA LOADER · too few workers (93% sure) → Raise num_workers from 4 to 7`. An unknown
/// one says why, and the command that helps.
pub fn short(verdict: &Verdict, ascii: bool) -> String {
    if let (Class::Unknown, Some(missed)) = (verdict.class, verdict.not_seen.first()) {
        let fix = missed.fix.as_ref().map(|fix| format!(" → {fix}")).unwrap_or_default();
        return plain(&format!("{}: {}{fix}", headline(verdict), missed.why), ascii) + "\n";
    }
    let first = if !verdict.is_healthy() { verdict.advice.first() } else { None };
    let first = first.map(|advice| format!(" → {}", with_worth(advice))).unwrap_or_default();
    plain(&format!("{}{first}", headline(verdict)), ascii) + "\n"
}

/// Text made safe, and, where asked for, ASCII.
pub fn plain(text: &str, ascii: bool) -> String {
    let text = sanitize(text);
    if !ascii {
        return text.into_owned();
    }
    text.chars()
        .map(|c| match c {
            c if c.is_ascii() => c.to_string(),
            '×' => "x".to_owned(),
            'µ' => "u".to_owned(),
            '–' | '—' | '−' => "-".to_owned(),
            '≤' => "<=".to_owned(),
            '≥' => ">=".to_owned(),
            '→' => "->".to_owned(),
            '←' => "<-".to_owned(),
            '▶' => ">".to_owned(),
            '✓' => "OK".to_owned(),
            '…' => "...".to_owned(),
            '·' => ";".to_owned(),
            '│' | '├' | '└' => "|".to_owned(),
            _ => "?".to_owned(),
        })
        .collect()
}

/// Text made safe as [`plain`] does, and cut to `width` columns.
pub fn cut(text: &str, width: usize, ascii: bool) -> String {
    let text = plain(text, ascii);
    if text.width() <= width {
        return text;
    }
    // In ASCII the mark of a cut takes three columns.
    if ascii { plain(&fit(&text, width.saturating_sub(2)), true) } else { fit(&text, width) }
}

/// ANSI codes (ECMA-48 SGR) for emphasis: of the 16 colors that the terminal's owner chooses.
mod ink {
    use super::{Class, LoopActivity, SliceKind, Verdict};

    pub const BOLD: &str = "1";
    pub const DIM: &str = "2";

    /// The accent of a verdict.
    pub fn accent(verdict: &Verdict) -> &'static str {
        match verdict.class {
            _ if verdict.is_healthy() => "32",
            Class::DataLoader | Class::Unknown => "33",
            Class::Io => "36",
            Class::Cpu => "35",
            Class::Gpu => "94",
            Class::Balanced | Class::Idle => BOLD,
        }
    }

    /// The color of a kind of time.
    pub fn activity(activity: LoopActivity) -> &'static str {
        match activity {
            LoopActivity::InputWait => "33",
            LoopActivity::DeviceSync => "32",
            LoopActivity::HostBusy => "35",
            LoopActivity::Checkpoint => "36",
            LoopActivity::Other => DIM,
        }
    }

    /// The color of a part of a profile.
    pub fn slice(kind: SliceKind) -> &'static str {
        match kind {
            SliceKind::Data => "33",
            SliceKind::Sync => "94",
            SliceKind::Launch => "93",
            SliceKind::Operator => "35",
            SliceKind::Compute => "32",
            SliceKind::Collective => "31",
            SliceKind::Copy => "36",
            SliceKind::Python | SliceKind::Annotation => DIM,
        }
    }
}

struct TextPage {
    lines: Vec<String>,
    style: Style,
}

impl TextPage {
    fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// A paragraph of external or own text.
    fn text(&mut self, begin: &str, text: &str) {
        self.inked("", begin, text);
    }

    /// The same with these ANSI codes.
    fn inked(&mut self, codes: &str, begin: &str, text: &str) {
        let [begin, text] = [begin, text].map(|text| plain(text, self.style.ascii));
        let lines = wrap_hanging(&begin, &text, self.style.width);
        let lines: Vec<_> = lines.iter().map(|line| self.ink(codes, line)).collect();
        self.lines.extend(lines);
    }

    fn ink(&self, codes: &str, text: &str) -> String {
        if self.style.color && !codes.is_empty() && !text.is_empty() {
            format!("\u{1b}[{codes}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// The answer, the reason, and what to do first.
    fn head(&mut self, verdict: &Verdict) {
        let accent = ink::accent(verdict);
        let mark = if verdict.is_healthy() { "✓ " } else { "" };
        self.inked(&format!("{};{accent}", ink::BOLD), mark, &headline(verdict));
        if !verdict.summary.is_empty() {
            self.text("", &verdict.summary);
        }
        let first = verdict.advice.first().map(with_worth);
        match first {
            Some(first) if verdict.is_healthy() => {
                let said = verdict.summary.contains(NOTHING_HOLDS);
                let calm = if said { String::new() } else { format!("{NOTHING_HOLDS} ") };
                self.text("", &format!("{calm}You could still try: {first}"));
            }
            Some(first) => self.inked(accent, "▶ ", &first),
            None => {}
        }
        // The summary names most of them.
        let is_named = |name: &str| verdict.summary.contains(name.trim_end_matches(')'));
        let unnamed = verdict.culprits.iter().filter(|culprit| !is_named(&culprit.name) && !verdict.is_healthy());
        // Other users of CPUs and GPUs are to blame only where the cause says so.
        let is_outside = verdict.cause.is_some_and(Cause::is_outside);
        let shares_only = |culprit: &Culprit| !is_outside && matches!(culprit.unit, Some(ShareOf::Cpus));
        let (beside, blamed): (Vec<_>, Vec<_>) = unnamed.partition(|culprit| shares_only(culprit));
        for (label, culprits) in [("To blame: ", blamed), ("Also on these CPUs: ", beside)] {
            if !culprits.is_empty() {
                let culprits: Vec<_> = culprits.into_iter().map(ToString::to_string).collect();
                self.text(label, &culprits.join("; "));
            }
        }
        let job = if self.style.full {
            job(verdict, &verdict.command, usize::MAX)
        } else {
            job(verdict, &short_command(&verdict.command), self.style.width)
        };
        self.inked(ink::DIM, "", &job);
    }

    fn section(&mut self, section: &Section) {
        self.blank();
        if !matches!(section.body, SectionBody::Text(_)) {
            self.inked(ink::BOLD, "", &section.title);
        }
        let most = if self.style.full { usize::MAX } else { section.brief };
        match &section.body {
            SectionBody::Text(text) => self.text("", &format!("{}: {text}", section.title)),
            SectionBody::Shares(shares) => {
                let bars =
                    shares.iter().map(|(word, part, share)| (word.as_str(), ink::activity(part.activity()), *share));
                self.bars(&bars.collect::<Vec<_>>());
            }
            SectionBody::Parts(parts) => {
                let bars = parts.iter().map(|(kind, words, share)| (*words, ink::slice(*kind), *share));
                self.bars(&bars.collect::<Vec<_>>());
            }
            SectionBody::Table(columns, rows) => {
                self.table(columns, rows.get(..most.min(rows.len())).unwrap_or_default());
            }
            SectionBody::Points(points) => points.iter().for_each(|point| self.point("  - ", point)),
            SectionBody::Steps(points) => {
                points.iter().zip(1..).for_each(|(point, number)| self.point(&format!("  {number}. "), point));
            }
            SectionBody::Tree(lines) => lines.iter().for_each(|(lead, text)| self.text(&format!("  {lead}"), text)),
        }
        section.below(most).for_each(|note| self.text("  ", &note));
    }

    /// Shares with their names and colors.
    fn bars(&mut self, shares: &[(&str, &str, f64)]) {
        let name = shares.iter().map(|(name, ..)| name.width()).max().unwrap_or_default().max(BAR_NAME);
        let name = name.min(self.style.width.saturating_sub(BESIDE_BAR));
        let long = self.style.width.saturating_sub(name + BESIDE_BAR).min(BAR);
        let (on, off) = if self.style.ascii { ("#", ".") } else { ("█", "░") };
        for (word, codes, share) in shares {
            let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
            let full = (share * long as f64).round() as usize;
            let bar = self.ink(codes, &on.repeat(full)) + &self.ink(ink::DIM, &off.repeat(long - full));
            let word = cut(word, name, self.style.ascii);
            self.lines.push(format!("  {word:<name$}{:>4}% {bar}", percent(share)).trim_end().to_owned());
        }
    }

    /// Columns as wide as their widest cell; a last column of text takes what is left, and wraps.
    fn table(&mut self, columns: &[Column], rows: &[Vec<String>]) {
        let most = self.style.width / 2;
        let cell =
            |row: &[String], column: usize| cut(row.get(column).map_or("", String::as_str), most, self.style.ascii);
        let widths: Vec<usize> = (0..columns.len())
            .map(|column| rows.iter().map(|row| cell(row, column).width()).max().unwrap_or(0))
            .zip(columns)
            .map(|(width, column)| width.max(column.name.width()))
            .collect();
        let header: Vec<String> = columns.iter().map(|column| column.name.to_owned()).collect();
        let wraps = columns.last().is_some_and(|last| !last.right);
        let aligned = columns.len() - usize::from(wraps);
        let mut lines = Vec::new();
        for (codes, row) in std::iter::once((ink::DIM, &header)).chain(rows.iter().map(|row| ("", row))) {
            let mut lead = String::new();
            for (number, (column, width)) in columns.iter().zip(&widths).enumerate().take(aligned) {
                let text = cell(row, number);
                let pad = " ".repeat(width.saturating_sub(text.width()));
                let [before, after] = if column.right { [pad.as_str(), ""] } else { ["", pad.as_str()] };
                lead += &format!("  {before}{text}{after}");
            }
            let last = if wraps { row.last().map_or("", String::as_str) } else { "" };
            let last = plain(last, self.style.ascii);
            let laid = if last.is_empty() {
                vec![cut(lead.trim_end(), self.style.width, self.style.ascii)]
            } else if lead.width() + NARROWEST / 2 > self.style.width {
                let mut below = wrap_hanging("    ", &last, self.style.width);
                below.insert(0, cut(lead.trim_end(), self.style.width, self.style.ascii));
                below
            } else {
                wrap_hanging(&(lead + "  "), &last, self.style.width)
            };
            lines.extend(laid.iter().map(|line| self.ink(codes, line)));
        }
        self.lines.extend(lines);
    }

    fn point(&mut self, lead: &str, point: &Point) {
        let Point { name, text, reason, fix } = point;
        let colon = if name.is_empty() || text.is_empty() { "" } else { ": " };
        self.text(lead, &format!("{name}{colon}{text}"));
        let indent = " ".repeat(lead.width());
        if !reason.is_empty() {
            self.inked(ink::DIM, &indent, reason);
        }
        if let Some(fix) = fix {
            self.text(&format!("{indent}fix: "), fix);
        }
    }

    /// Where there is more to read.
    fn end(&mut self, verdict: &Verdict) {
        self.blank();
        let full = (!self.style.full).then(|| "trainmon diagnose --full".to_owned());
        let more: Vec<_> = full.into_iter().chain(explain_command(verdict)).collect();
        if !more.is_empty() {
            self.inked(ink::DIM, "more: ", &more.join(", "));
        }
        if self.style.full {
            self.inked(ink::DIM, "", &own_cost(verdict));
        }
    }
}

/// The job and how long it was watched, with as much of its command as fits into `width` columns:
/// `PID 1234 (python train.py) · watched for 20 s, first verdict after 3.1 s`; or the file of a profile and its window.
fn job(verdict: &Verdict, command: &str, width: usize) -> String {
    if let Some(file) = verdict.profile.as_deref().and_then(profile_sections::from_file) {
        return file;
    }
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    let phase = (verdict.phase != Phase::Training && verdict.class != Class::Idle)
        .then(|| format!(" · phase: {}", phase_words(verdict.phase)));
    let first = verdict.first_verdict_s.map(|s| format!(", first verdict after {:.1} s", finite(s)));
    let watched = format!(" · watched for {:.0} s", finite(verdict.observed_s));
    let pid = pid_words(verdict.pid);
    let facts = format!("{}{watched}{}", phase.unwrap_or_default(), first.unwrap_or_default());
    let room = width.saturating_sub(pid.width() + facts.width() + " ()".width());
    let shown = fit(command, room);
    let says_nothing = shown.is_empty() || shown.width() < SHORTEST_COMMAND.min(command.width());
    let command = if says_nothing { String::new() } else { format!(" ({shown})") };
    pid + &command + &facts
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
