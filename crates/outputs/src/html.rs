//! A run as one HTML file that loads nothing: style, scripts and numbers are in it, and its policy forbids the network. It reads
//! without JavaScript, too: every chart is drawn as SVG first, and a script replaces it with one that zooms.
//!
//! Names, command lines and reasons come from outside. Each goes through [`escaped`], or, as JSON, through [`script_json`].

mod charts;
mod profile;

use std::fmt::Write;

use super::document::Document;
use trainmon_base::text::format::{UNMEASURED, whole_percent as percent};
use trainmon_base::text::{fit, sanitize};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_views::comparison::ComparisonPage;
use trainmon_views::profile_sections;
use trainmon_views::report::{
    Column, Point, Section, SectionBody, explain_command, headline, own_cost, pid_words, sections,
};
use trainmon_views::run_report::RunReport;
use trainmon_views::stages::{Stage, stages};
use trainmon_waits::time_split::LoopActivity;

const STYLE: &str = include_str!("../assets/report/report.css");
const SCRIPT: &str = include_str!("../assets/report/report.js");
/// uPlot 1.6.32, under the MIT license.
const UPLOT: &str = include_str!("../assets/report/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/report/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../assets/report/LICENSE-uPlot");

/// One file, to attach or to open.
pub const DOCUMENT: Document = Document { endings: &["html", "htm"], run, profile, comparison };

/// A command line is cut here in the head; the environment has all of it.
const COMMAND: usize = 120;

/// The report as an HTML document.
pub fn run(report: &RunReport<'_>) -> String {
    let mut out = String::with_capacity(200_000);
    let verdict = report.verdict().map(|(verdict, _)| verdict);
    let title = report.title.clone().unwrap_or_else(|| verdict.map_or_else(|| "trainmon".to_owned(), headline));
    let name = report.title.iter().map(|title| format!("<strong>{}</strong>", escaped(title)));
    let accent = verdict.map_or("unknown", |verdict| verdict.class.word());
    let command = format!("<code>{}</code>", escaped(&fit(&report.header.command, COMMAND)));
    let when = format!("{} · {}", pid_words(report.header.pid), escaped(&report.when()));
    head(&mut out, ("report", &title), accent, &name.chain([command, when]).collect::<Vec<_>>());
    if let Some(note) = &report.note {
        tag(&mut out, "p class=\"note\"", note);
    }
    match verdict {
        Some(verdict) => {
            in_short(&mut out, report);
            answer(&mut out, report.held(), verdict);
            let frame = report.run.frame.as_deref();
            pipeline(&mut out, &stages(verdict, frame));
        }
        None => tag(&mut out, "p class=\"note\"", "This recording has no samples to judge."),
    }
    let data = charts::draw(&mut out, report);
    verdict.iter().for_each(|verdict| drawn_step(&mut out, verdict));
    report.sections().iter().for_each(|section| self::section(&mut out, section));
    end(&mut out, verdict);
    scripts(&mut out, &data);
    out
}

/// The verdict on a profile as an HTML document, with its title if it has one.
pub fn profile(verdict: &Verdict, title: Option<&str>) -> String {
    let mut out = String::with_capacity(200_000);
    let name = title.map(|title| format!("<strong>{}</strong>", escaped(title)));
    let file = verdict.profile.as_deref().and_then(profile_sections::from_file).map(|file| escaped(&file));
    let lines: Vec<String> = name.into_iter().chain(file).collect();
    head(&mut out, ("report", title.unwrap_or(&headline(verdict))), verdict.class.word(), &lines);
    answer(&mut out, None, verdict);
    drawn_step(&mut out, verdict);
    sections(verdict, &zone::local(), None).iter().for_each(|section| self::section(&mut out, section));
    end(&mut out, Some(verdict));
    out.push_str("</body>\n</html>\n");
    out
}

/// Two runs as an HTML document.
pub fn comparison(comparison: &ComparisonPage) -> String {
    let mut out = String::with_capacity(30_000);
    let title = &comparison.title;
    head(&mut out, ("comparison", title), comparison.accent, &[format!("<code>{}</code>", escaped(title))]);
    out.push_str("<section class=\"answer\">\n");
    tag(&mut out, "h1", &comparison.answer);
    comparison.more.iter().for_each(|text| tag(&mut out, "p", text));
    out.push_str("</section>\n");
    comparison.cautions.iter().for_each(|caution| tag(&mut out, "p class=\"note\"", caution));
    comparison.sections.iter().for_each(|section| self::section(&mut out, section));
    end(&mut out, None);
    out.push_str("</body>\n</html>\n");
    out
}

/// The head of a document: what it is and its title, the class that gives its color, and the lines below its name.
fn head(out: &mut String, (what, title): (&str, &str), accent: &str, lines: &[String]) {
    let lines: String = lines.iter().map(|line| format!("<p>{line}</p>\n")).collect();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{} – trainmon {what}</title>\n<style>\n{UPLOT_STYLE}\n{STYLE}</style>\n</head>\n\
         <body class=\"{accent}\">\n<header>\n<p><strong>trainmon</strong> {what}</p>\n{lines}</header>\n<main>\n",
        escaped(title),
    );
}

/// The run in short: what a person who was not there reads first.
fn in_short(out: &mut String, report: &RunReport<'_>) {
    let summary = report.summary();
    out.push_str("<section class=\"short\">\n");
    tag(out, "p", &summary.answer());
    summary.lines().iter().for_each(|text| tag(out, "p", text));
    out.push_str("</section>\n");
}

/// The answer: what holds the run back, and what to do first.
fn answer(out: &mut String, held: Option<String>, verdict: &Verdict) {
    let mark = if verdict.is_healthy() { "✓ " } else { "" };
    let _ = writeln!(out, "<section class=\"answer\">\n<h1>{mark}{}</h1>", escaped(&headline(verdict)));
    out.extend(held.map(|held| format!("<p class=\"held\">{}</p>\n", escaped(&held))));
    tag(out, "p", &verdict.summary);
    if let Some(first) = verdict.advice.first() {
        let worth = first.worth().map(|worth| format!(" <span>{}</span>", escaped(&worth))).unwrap_or_default();
        let lead = if verdict.is_healthy() { "You could still try: " } else { "▶ " };
        let _ = writeln!(out, "<p class=\"first\">{lead}{}{worth}</p>", escaped(&first.title));
    }
    out.push_str("</section>\n");
}

fn drawn_step(out: &mut String, verdict: &Verdict) {
    let drawn = verdict.profile.as_ref().and_then(|account| account.drawn.as_ref());
    drawn.into_iter().for_each(|drawn| profile::draw(out, drawn));
}

fn pipeline(out: &mut String, stages: &[Stage]) {
    if stages.is_empty() {
        return;
    }
    out.push_str("<section aria-labelledby=\"pipeline\">\n<h2 id=\"pipeline\">How a batch gets to the GPU</h2>\n<ol class=\"pipeline\">\n");
    for stage in stages {
        let limit = if stage.limit { " class=\"limit\"" } else { "" };
        let _ = write!(out, "<li{limit}><b>{}</b>", escaped(&stage.name));
        if let Some(busy) = stage.busy {
            let _ = write!(out, "{}<span>{}%</span>", bar(busy, stage.kind.class().word()), percent(busy));
        }
        let mark = if stage.limit { "<strong>◀ limit</strong>" } else { "" };
        let _ = writeln!(out, "<span>{}</span>{mark}</li>", escaped(&stage.word));
    }
    out.push_str("</ol>\n</section>\n");
}

/// A share, 0–1, as a bar. The number beside it says the same.
fn bar(share: f64, class: &str) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    format!("<i class=\"bar {class}\" aria-hidden=\"true\"><i style=\"width:{share:.1}%\"></i></i>")
}

fn section(out: &mut String, section: &Section) {
    let _ = writeln!(out, "<section>\n<h2>{}</h2>", escaped(&section.title));
    match &section.body {
        SectionBody::Text(text) => tag(out, "p", text),
        SectionBody::Shares(shares) => {
            out.push_str("<table class=\"shares\"><tbody>\n");
            for (word, part, share) in shares {
                let shown = if share.is_finite() { format!("{}%", percent(*share)) } else { UNMEASURED.to_owned() };
                let bar = bar(*share, color(part.activity()));
                let word = escaped(word);
                let _ = writeln!(
                    out,
                    "<tr><th scope=\"row\">{word}</th><td class=\"right\">{shown}</td><td>{bar}</td></tr>"
                );
            }
            out.push_str("</tbody></table>\n");
        }
        SectionBody::Parts(parts) => profile::stacked(out, parts),
        SectionBody::Table(columns, rows) => table(out, section, columns, rows),
        SectionBody::Points(points) => list(out, "ul", points),
        SectionBody::Steps(points) => list(out, "ol", points),
        SectionBody::Tree(lines) => {
            let lines: Vec<String> = lines.iter().map(|(lead, text)| escaped(&format!("{lead}{text}"))).collect();
            let _ = writeln!(out, "<pre tabindex=\"0\">{}</pre>", lines.join("\n"));
        }
    }
    section.below(usize::MAX).for_each(|note| tag(out, "p", &note));
    out.push_str("</section>\n");
}

/// The color of what the loop does: that of the class which it points to.
fn color(activity: LoopActivity) -> &'static str {
    match activity {
        LoopActivity::InputWait => Class::DataLoader.word(),
        LoopActivity::DeviceSync => Class::Gpu.word(),
        LoopActivity::HostBusy => Class::Cpu.word(),
        LoopActivity::Checkpoint => "saving",
        LoopActivity::Other => "other",
    }
}

fn table(out: &mut String, section: &Section, columns: &[Column], rows: &[Vec<String>]) {
    // In a table with many numbers the names come first, so that a phone shows them.
    let wide = section.brief < usize::MAX && columns.last().is_some_and(|last| !last.right);
    let class = |right: bool| if right { " class=\"right\"" } else { "" };
    let first = usize::from(wide) * columns.len().saturating_sub(1);
    let order: Vec<usize> = (first..columns.len()).chain(0..first).collect();
    let _ =
        write!(out, "<div class=\"scrolls{}\" tabindex=\"0\"><table><thead><tr>", if wide { " wide" } else { "" });
    for column in order.iter().filter_map(|place| columns.get(*place)) {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(column.right), escaped(column.name));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (number, row) in rows.iter().enumerate() {
        out.push_str("<tr>");
        for (place, cell) in order.iter().filter_map(|place| Some((*place, row.get(*place)?))) {
            let right = columns.get(place).is_some_and(|column| column.right);
            let whole = if place + 1 == row.len() { section.in_full.get(number) } else { None };
            let whole = whole.map(|text| format!(" title=\"{}\"", escaped(text))).unwrap_or_default();
            let _ = write!(out, "<td{}{whole}>{}</td>", class(right), escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn list(out: &mut String, kind: &str, points: &[Point]) {
    let _ = writeln!(out, "<{kind}>");
    for Point { name, text, reason, fix } in points {
        out.push_str("<li>");
        if !name.is_empty() {
            let _ = write!(out, "<b>{}</b>{}", escaped(name), if text.is_empty() { "" } else { ": " });
        }
        out.push_str(&escaped(text));
        if let Some(fix) = fix {
            let _ = write!(out, " <code>{}</code>", escaped(fix));
        }
        if !reason.is_empty() {
            let _ = write!(out, "<p>{}</p>", escaped(reason));
        }
        out.push_str("</li>\n");
    }
    let _ = writeln!(out, "</{kind}>");
}

/// The end of what is read.
fn end(out: &mut String, verdict: Option<&Verdict>) {
    out.push_str("</main>\n<footer>\n");
    if let Some(command) = verdict.and_then(explain_command) {
        let _ = writeln!(out, "<p>More: <code>{}</code></p>", escaped(&command));
    }
    let cost = verdict.map_or_else(|| format!("trainmon {}", env!("CARGO_PKG_VERSION")), own_cost);
    let _ = writeln!(out, "<p>{}. This file loads nothing from anywhere.</p>\n</footer>", escaped(&cost));
}

/// The numbers of the charts, and what makes them zoom.
fn scripts(out: &mut String, data: &str) {
    let license = UPLOT_LICENSE.trim();
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"numbers\">{data}</script>\n\
         <script>\n/*!\n{license}\n*/\n{UPLOT}\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
}

/// Foreign text in an element; its start tag is `start` in angle brackets.
fn tag(out: &mut String, start: &str, text: &str) {
    let name = start.split(' ').next().unwrap_or(start);
    let _ = writeln!(out, "<{start}>{}</{name}>", escaped(text));
}

/// Foreign text on one line, in which nothing is markup, also within an attribute in double quotes.
fn escaped(text: &str) -> String {
    let text = sanitize(text);
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// JSON that can stand in a script element: nothing in it can end the element or begin a comment.
fn script_json(value: &impl serde::Serialize) -> String {
    let mut json = Vec::new();
    // Writing into memory cannot fail, and numbers and texts can always be written as JSON.
    let _ = trainmon_base::text::json::compact(&mut json, value);
    String::from_utf8(json).unwrap_or_default().replace('<', "\\u003c")
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
