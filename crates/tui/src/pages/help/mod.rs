//! The help page: the keys by task, and what the letters and textures of the overview mean.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Content;
use super::keys::{Binding, by_task};
use crate::theme::{Look, WithLook};
use crate::widgets::{Drawn, Scene, Text, scrolled, side_by_side};
use trainmon_base::text::wrap;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_waits::time_split::LoopActivity;

/// Minimum width for two columns.
const TWO_COLUMNS: u16 = 110;
/// Cells between them.
const GAP: u16 = 2;
/// Width of the column with the keys.
const KEYS: usize = 16;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Help;

impl Content for Help {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        let text = text(area.width, scene);
        scrolled(buf, area, top, drawn, |page| page.lines(&text.lines));
    }
}

fn text(width: u16, scene: &Scene<'_>) -> Text {
    let theme = scene.theme;
    let mut text = Text::new(width, theme);
    if width < TWO_COLUMNS {
        by_task().for_each(|(task, bindings)| keys(&mut text, task, bindings));
        legend(&mut text);
        return text;
    }
    let mut sections = Vec::new();
    for (task, bindings) in by_task() {
        let mut section = Text::new(width / 2 - GAP, theme);
        keys(&mut section, task, bindings);
        sections.push(section.lines);
    }
    let mut section = Text::new(width - width / 2, theme);
    legend(&mut section);
    sections.push(section.lines);
    text.lines = two_columns(sections, width / 2);
    text
}

/// Sections in two columns of about the same height, the first `width` cells wide, with a blank line between two.
fn two_columns(sections: Vec<Vec<Line<'static>>>, width: u16) -> Vec<Line<'static>> {
    let all: usize = sections.iter().map(|lines| lines.len() + 1).sum();
    let mut columns = [Vec::new(), Vec::new()];
    let mut before = 0;
    for lines in sections {
        let [left, right] = &mut columns;
        let column = if before + lines.len() / 2 < all / 2 { left } else { right };
        before += lines.len() + 1;
        if !column.is_empty() {
            column.push(Line::default());
        }
        column.extend(lines);
    }
    let [left, right] = columns;
    side_by_side([(0, left), (width, right)])
}

/// The keys of one task.
fn keys(text: &mut Text, task: &str, bindings: &[Binding]) {
    let strong = text.theme.strong();
    text.heading(task);
    for binding in bindings {
        let (names, texts) = (wrap(binding.keys, KEYS - 3), wrap(binding.help, text.width.saturating_sub(KEYS)));
        for row in 0..names.len().max(texts.len()) {
            let part = |parts: &[String]| parts.get(row).cloned().unwrap_or_default();
            let name = format!("  {:<width$}", part(&names), width = KEYS - 2);
            text.spans([(name, strong), (part(&texts), Style::new())]);
        }
    }
}

/// What colors and textures mean.
fn legend(text: &mut Text) {
    let theme = text.theme;
    text.heading("Verdicts and their colors");
    for class in Class::ALL {
        text.spans([
            ("  ".to_owned(), Style::new()),
            (theme.glyph(class.look()).to_string().repeat(2), theme.series(class)),
            (format!(" {:<13}", class.name()), theme.strong()),
            (class.meaning().to_owned(), Style::new()),
        ]);
    }
    text.heading("What the training loop and the workers do");
    for look in LoopActivity::ALL.map(LoopActivity::look) {
        text.spans([
            ("  ".to_owned(), Style::new()),
            (theme.glyph(look).to_string(), theme.style(look)),
            (format!(" {}", look.word), Style::new()),
        ]);
    }
    let stages = Look::STAGES.into_iter().flat_map(|look| {
        let glyph = Span::styled(format!(" {}", theme.glyph(look)), theme.style(look));
        [glyph, Span::raw(format!(" {}", look.word))]
    });
    text.lines.push(Line::from_iter(std::iter::once(Span::raw("  workers:")).chain(stages)));
    text.line(&format!("  {} not measured: never the same as 0", theme.gap_glyph()), Style::new());
}
