//! What each page remembers (selection, order, filter, folds) and what its keys do. How a page looks is told in
//! [`super::views`]; pages without a memory of their own only scroll.

pub mod processes;
mod signals;
pub mod stacks;

use ratatui::layout::Rect;

use super::job::Job;
use super::keys::Action;
use super::message::Effect;
use super::page::Page;
use super::popup::{Popup, Purpose};

/// What a page may look at when a key comes.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The job that is shown, at the moment that is shown.
    pub job: &'a Job,
    /// Where the page is drawn.
    pub body: Rect,
    /// Signals and nice values may be sent to the job's processes.
    pub may_signal: bool,
}

/// What a page answers to a key.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The key means nothing here.
    Ignored,
    /// Something has changed: draw.
    Changed,
    /// Open this.
    Open(Popup),
    /// Say this in the footer.
    Notice(String),
    /// Do this.
    Do(Effect),
}

/// The pages that remember something.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    /// The process table.
    pub processes: processes::Processes,
    /// The functions.
    pub stacks: stacks::Stacks,
}

impl Pages {
    /// Another frame is shown, or the body has another size, or this page has come up. Pages that are not seen cost
    /// nothing: they are refreshed when they come up.
    pub fn refresh(&mut self, page: Page, seen: &Seen<'_>) {
        match page {
            Page::Processes => self.processes.refresh(seen),
            Page::Stacks => self.stacks.refresh(seen),
            _ => {}
        }
    }

    /// Text was typed into a prompt.
    pub fn typed(&mut self, purpose: Purpose, text: &str, seen: &Seen<'_>) {
        match purpose {
            Purpose::Filter | Purpose::Search => self.processes.typed(purpose, text, seen),
            // The list of jobs has its own prompts.
            Purpose::Pid => {}
        }
    }
}

/// Lines by which an action moves in a list of which `rows` are visible.
#[must_use]
pub fn lines(action: Action, rows: u16) -> Option<isize> {
    let page = isize::try_from(rows).unwrap_or(isize::MAX).max(1);
    Some(match action {
        Action::Up => -1,
        Action::Down => 1,
        Action::PageUp => -page,
        Action::PageDown => page,
        Action::Top => isize::MIN,
        Action::Bottom => isize::MAX,
        _ => return None,
    })
}
