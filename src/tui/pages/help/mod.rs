//! The help page: the key table, and what the letters and textures of the overview mean.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Content;
use super::keys::TABLE;
use crate::diagnosis::verdict::Class;
use crate::rates::time_split::LoopActivity;
use crate::text::wrap;
use crate::tui::theme::Look;
use crate::tui::widgets::{Drawn, Scene, Text, scrolled};

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
    text.heading("Keys");
    for binding in TABLE.iter() {
        let (names, texts) = (wrap(binding.keys, KEYS - 3), wrap(binding.help, text.width.saturating_sub(KEYS)));
        for row in 0..names.len().max(texts.len()) {
            let part = |parts: &[String]| parts.get(row).cloned().unwrap_or_default();
            let name = format!("  {:<width$}", part(&names), width = KEYS - 2);
            text.spans([(name, theme.strong()), (part(&texts), Style::new())]);
        }
    }
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
    text
}
