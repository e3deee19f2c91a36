//! The help page: the key table, and what the letters and textures of the overview mean.

use ratatui::text::{Line, Span};

use crate::diagnosis::verdict::Class;
use crate::rates::time_split::LoopActivity;
use crate::text::wrap;
use crate::tui::app::App;
use crate::tui::theme::{Stage, activity_word};
use crate::tui::words;

/// Cells of the column with the keys.
const KEYS: usize = 16;

/// All lines of the page.
pub fn lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let theme = app.theme();
    let room = usize::from(width).saturating_sub(KEYS);
    let mut lines = vec![Line::from(Span::styled("Keys", theme.strong()))];
    for (binding, keys) in app.options.keymap.lines().filter(|(_, keys)| !keys.is_empty()) {
        let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let mut names = wrap(&names.join(" "), KEYS - 3).into_iter();
        let mut texts = wrap(binding.help, room).into_iter();
        loop {
            let (name, text) = (names.next(), texts.next());
            if name.is_none() && text.is_none() {
                break;
            }
            let name = format!("  {:<width$}", name.unwrap_or_default(), width = KEYS - 2);
            let text = Span::raw(text.unwrap_or_default());
            lines.push(Line::from(vec![Span::styled(name, theme.strong()), text]));
        }
    }
    lines.push(Line::default());
    lines.push(Line::from(Span::styled("Verdicts, and their letters on the strip", theme.strong())));
    for class in Class::ALL {
        lines.push(Line::from(vec![
            Span::raw("  "),
            Span::styled(words::letter(class).to_string(), theme.class(class)),
            Span::styled(format!(" {:<12}", class.word()), theme.strong()),
            Span::raw(meaning(class)),
        ]));
    }
    lines.push(Line::default());
    lines.push(Line::from(Span::styled("Main thread, and workers", theme.strong())));
    for part in LoopActivity::ALL {
        let glyph = Span::styled(theme.activity_glyph(part).to_string(), theme.activity(part));
        lines.push(Line::from(vec![Span::raw("  "), glyph, Span::raw(format!(" {}", activity_word(part)))]));
    }
    let mut stages = vec![Span::raw("  workers:")];
    for stage in Stage::ALL {
        stages.push(Span::styled(format!(" {}", theme.stage_glyph(stage)), theme.stage(stage)));
        stages.push(Span::raw(format!(" {}", stage.word())));
    }
    lines.push(Line::from(stages));
    lines.push(Line::from(format!("  {} not measured: never the same as 0", theme.gap_glyph())));
    lines
}

fn meaning(class: Class) -> &'static str {
    match class {
        Class::DataLoader => "the input pipeline must get faster",
        Class::Io => "storage or network must get faster",
        Class::Cpu => "the CPU must get faster, or be freed",
        Class::Gpu => "the device is the limit",
        Class::Balanced => "no resource costs more than a few percent",
        Class::Idle => "not training now; the phase says why",
        Class::Unknown => "too little could be seen; the findings say what mends it",
    }
}
