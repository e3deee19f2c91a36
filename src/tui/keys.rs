//! The one table of keys. The dispatcher, the help page and the footer all read it, so they cannot disagree.
//!
//! Keys are where the fingers of people who use htop and nvtop expect them.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::processes::Column;

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ends the program.
    Quit,
    /// Closes what lies on top; never ends the program.
    Close,
    /// Shows or hides the help page.
    Help,
    /// Freezes the screen, or lets it run on.
    Pause,
    /// Shows less time, larger.
    ZoomIn,
    /// Shows more time.
    ZoomOut,
    /// Moves up by one.
    Up,
    /// Moves down by one.
    Down,
    /// Moves up by a page.
    PageUp,
    /// Moves down by a page.
    PageDown,
    /// Moves to the top.
    Top,
    /// Moves to the bottom.
    Bottom,
    /// Sorts by the next column.
    NextSort,
    /// Sorts by a column.
    Sort(Column),
    /// Turns the order round.
    Reverse,
    /// Shows the selected process in full.
    Detail,
    /// Goes to the next page.
    NextPage,
    /// Goes to the page before.
    PreviousPage,
    /// Goes to the overview.
    Overview,
    /// Goes to the findings.
    Findings,
    /// Copies the verdict to the clipboard.
    Copy,
    /// Paints the screen anew.
    Redraw,
    /// Stops the program until the shell continues it.
    Suspend,
}

/// A key with its modifiers. Shift is not looked at: it is in the character already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chord {
    /// The key.
    pub code: KeyCode,
    /// Whether Control is held.
    pub control: bool,
}

const fn key(code: KeyCode) -> Chord {
    Chord { code, control: false }
}

const fn ch(c: char) -> Chord {
    key(KeyCode::Char(c))
}

const fn ctrl(c: char) -> Chord {
    Chord { code: KeyCode::Char(c), control: true }
}

impl Chord {
    fn is(self, event: KeyEvent) -> bool {
        let held = event.modifiers;
        self.code == event.code
            && self.control == held.contains(KeyModifiers::CONTROL)
            && !held.intersects(KeyModifiers::ALT | KeyModifiers::SUPER | KeyModifiers::META)
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The keys that do it.
    pub keys: &'static [Chord],
    /// The keys as people write them.
    pub name: &'static str,
    /// What it does, for the help page.
    pub help: &'static str,
    /// Key and word for the footer, where it belongs there.
    pub footer: Option<(&'static str, &'static str)>,
    /// What it does.
    pub action: Action,
}

const fn bind(
    keys: &'static [Chord],
    name: &'static str,
    help: &'static str,
    footer: Option<(&'static str, &'static str)>,
    action: Action,
) -> Binding {
    Binding { keys, name, help, footer, action }
}

/// All keys, in the order of the help page; the footer shows those with a footer word, as many as fit.
pub const TABLE: &[Binding] = &[
    bind(
        &[ch('q'), key(KeyCode::F(10)), ctrl('c')],
        "q F10 Ctrl-C",
        "quit; the target runs on",
        Some(("q", "quit")),
        Action::Quit,
    ),
    bind(&[ch('?'), ch('h'), key(KeyCode::F(1))], "? h F1", "this help", Some(("?", "help")), Action::Help),
    bind(&[ch('1')], "1", "overview", None, Action::Overview),
    bind(
        &[ch('2')],
        "2",
        "findings: evidence with thresholds, advice, what was not seen and what mends it",
        Some(("2", "why")),
        Action::Findings,
    ),
    bind(&[key(KeyCode::Tab)], "Tab", "next page", Some(("Tab", "page")), Action::NextPage),
    bind(&[key(KeyCode::BackTab)], "Shift-Tab", "page before", None, Action::PreviousPage),
    bind(
        &[ch(' '), ch('Z'), ch('z')],
        "Space Z",
        "pause: the picture stands, data keeps coming",
        Some(("Space", "pause")),
        Action::Pause,
    ),
    bind(&[ch('+'), ch('=')], "+ =", "show less time, larger", Some(("+-", "zoom")), Action::ZoomIn),
    bind(&[ch('-'), ch('_')], "-", "show more time", None, Action::ZoomOut),
    bind(&[key(KeyCode::Up), ch('k')], "Up k", "up one line", None, Action::Up),
    bind(&[key(KeyCode::Down), ch('j')], "Down j", "down one line", None, Action::Down),
    bind(&[key(KeyCode::PageUp), ctrl('b')], "PgUp", "up one page", None, Action::PageUp),
    bind(&[key(KeyCode::PageDown), ctrl('f')], "PgDn", "down one page", None, Action::PageDown),
    bind(&[key(KeyCode::Home), ch('g')], "Home", "to the top", None, Action::Top),
    bind(&[key(KeyCode::End), ch('G')], "End", "to the bottom", None, Action::Bottom),
    bind(
        &[key(KeyCode::Enter)],
        "Enter",
        "the selected process: full command line and numbers",
        Some(("Enter", "process")),
        Action::Detail,
    ),
    bind(
        &[ch('s'), key(KeyCode::F(6))],
        "s F6",
        "sort processes by the next column",
        Some(("s", "sort")),
        Action::NextSort,
    ),
    bind(&[ch('P')], "P", "sort by CPU", None, Action::Sort(Column::Cpu)),
    bind(&[ch('M')], "M", "sort by memory", None, Action::Sort(Column::Memory)),
    bind(&[ch('N')], "N", "sort by PID", None, Action::Sort(Column::Pid)),
    bind(&[ch('T')], "T", "sort by threads", None, Action::Sort(Column::Threads)),
    bind(&[ch('I')], "I", "reverse the order", None, Action::Reverse),
    bind(&[ch('c')], "c", "copy the verdict (OSC 52: works over ssh)", Some(("c", "copy")), Action::Copy),
    bind(&[ctrl('l')], "Ctrl-L", "paint the screen anew", None, Action::Redraw),
    bind(&[ctrl('z')], "Ctrl-Z", "stop trainmon; fg brings it back", None, Action::Suspend),
    bind(&[key(KeyCode::Esc)], "Esc", "close what lies on top; never quits", None, Action::Close),
];

/// What a key press does, if anything. A release does nothing.
#[must_use]
pub fn action(event: KeyEvent) -> Option<Action> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    TABLE.iter().find(|b| b.keys.iter().any(|k| k.is(event))).map(|b| b.action)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_bound_twice() {
        let all: Vec<Chord> = TABLE.iter().flat_map(|b| b.keys).copied().collect();
        for (i, a) in all.iter().enumerate() {
            assert!(!all.iter().skip(i + 1).any(|b| a == b), "{a:?} is bound twice");
        }
    }

    #[test]
    fn shifted_letters_are_found_with_and_without_the_modifier() {
        let plain = KeyEvent::new(KeyCode::Char('P'), KeyModifiers::NONE);
        let shifted = KeyEvent::new(KeyCode::Char('P'), KeyModifiers::SHIFT);
        assert_eq!(action(plain), Some(Action::Sort(Column::Cpu)));
        assert_eq!(action(shifted), action(plain));
    }

    #[test]
    fn control_and_alt_are_not_plain_keys() {
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::NONE)), Some(Action::Copy));
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Action::Quit));
        assert_eq!(action(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT)), None);
    }

    #[test]
    fn escape_never_quits_and_a_release_does_nothing() {
        assert_eq!(action(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), Some(Action::Close));
        let mut release = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        release.kind = KeyEventKind::Release;
        assert_eq!(action(release), None);
    }
}
