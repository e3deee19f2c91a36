//! A short version of what stacks show; the page of stacks has the rest.

use ratatui::style::Style;

use crate::format;
use crate::widgets::Text;
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::verdict::{Hottest, Stages, Verdict};

/// Adds what the training loop does, its hottest functions, the lines that wait for the GPU, and what workers do.
pub fn add(page: &mut Text, verdict: &Verdict) {
    let percent = |share: f64| format::share(Some(share));
    let place = |place: &Hottest| format!("{} {}", percent(place.share), sanitize(&place.to_string()));
    let list = |places: &[Hottest]| places.iter().map(place).collect::<Vec<_>>().join(", ");
    if let Some(main) = &verdict.main_thread {
        page.heading("Code");
        let activities = main.activities.iter().map(|(name, share)| (sanitize(name).replace('_', " "), *share));
        page.wrapped("  loop:        ", 15, &format::largest_first(activities, 0.01), Style::new());
        if !main.hottest.is_empty() {
            page.wrapped("  hottest:     ", 15, &list(&main.hottest), Style::new());
        }
        if !main.sync_lines.is_empty() {
            page.wrapped("  sync lines:  ", 15, &list(&main.sync_lines), Style::new());
        }
    }
    let seen: Vec<_> = verdict.workers.iter().filter_map(|worker| worker.stages).collect();
    if seen.is_empty() {
        return;
    }
    let mean = |of: fn(&Stages) -> f64| percent(seen.iter().map(of).sum::<f64>() / seen.len() as f64);
    let text = format!(
        "load {}, decode {}, transform {}, collate {}, send {}; mean of {}",
        mean(|s| s.load),
        mean(|s| s.decode),
        mean(|s| s.transform),
        mean(|s| s.collate),
        mean(|s| s.hand_over),
        seen.len()
    );
    if verdict.main_thread.is_none() {
        page.heading("Code");
    }
    page.wrapped("  workers:     ", 15, &text, Style::new());
    let hottest = verdict.workers.iter().filter_map(|worker| worker.hottest.as_ref());
    if let Some(hottest) = hottest.max_by(|a, b| a.share.total_cmp(&b.share)) {
        page.wrapped("  hottest:     ", 15, &place(hottest), Style::new());
    }
}
