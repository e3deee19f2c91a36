//! The table of keys. The dispatcher, the help page and the footer all read it, so they cannot disagree.
//!
//! Keys are where people who use htop and nvtop expect them. An action has the same key everywhere; a page that has no
//! use for it ignores it.

mod chord;
mod keymap;

use std::sync::LazyLock;

pub use chord::Chord;
pub use keymap::{KeyError, Keymap};

use super::pages::Page;
pub use super::pages::action::Action;
use Action::*;

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Its name in the configuration.
    pub id: &'static str,
    /// Its default keys, as written in the configuration.
    pub keys: &'static str,
    /// What it does, for the help page.
    pub help: &'static str,
    /// What it does.
    pub action: Action,
}

impl Binding {
    /// Its default keys.
    pub fn chords(&self) -> impl Iterator<Item = Chord> + use<> {
        self.keys.split(' ').filter_map(|key| key.parse().ok())
    }
}

const fn bind(id: &'static str, keys: &'static str, help: &'static str, action: Action) -> Binding {
    Binding { id, keys, help, action }
}

/// All keys, in the order of the help page.
pub static TABLE: LazyLock<Vec<Binding>> = LazyLock::new(|| {
    let page = |page: Page| bind(page.spec().word, page.spec().keys, page.spec().help, Go(page));
    let first = [
        bind("quit", "q F10 Ctrl-C", "quit; the job keeps running", Quit),
        page(Page::Help),
        bind("close", "Esc", "close the top window", Close),
    ];
    let others = Page::ALL.into_iter().filter(|page| *page != Page::Help);
    first.into_iter().chain(others.map(page)).chain(EVERYWHERE.iter().copied()).collect()
});

/// The keys that do the same on every page, and those that only some pages use.
const EVERYWHERE: &[Binding] = &[
    bind("next-page", "Tab", "next page", NextPage),
    bind("previous-page", "Shift-Tab", "previous page", PreviousPage),
    bind("pause", "Space Z z", "freeze the display (sampling continues); play or pause a recording", Pause),
    bind("step-back", "Left", "back by one sample: all numbers and charts as of then", StepBack),
    bind("step-forward", "Right", "forward by one sample", StepForward),
    bind("far-back", "Shift-Left ,", "back by a tenth of the time shown", FarBack),
    bind("far-forward", "Shift-Right .", "forward by a tenth of the time shown", FarForward),
    bind("previous-change", "[", "to the previous change of the verdict", PreviousChange),
    bind("next-change", "]", "to the next change of the verdict", NextChange),
    bind("oldest", "{", "to the oldest sample kept", Oldest),
    bind("newest", "}", "back to the newest sample, live (also End)", Newest),
    bind("slower", "<", "play a recording slower", Slower),
    bind("faster", ">", "play a recording faster", Faster),
    bind("zoom-in", "+ =", "show less time; fixes the time scale", ZoomIn),
    bind("zoom-out", "- _", "show more time, up to an hour; F2 restores auto", ZoomOut),
    bind("up", "Up k", "up one line", Up),
    bind("down", "Down j", "down one line", Down),
    bind("page-up", "PgUp Ctrl-B", "up one page", PageUp),
    bind("page-down", "PgDn Ctrl-F", "down one page", PageDown),
    bind("top", "Home g", "to the top", Top),
    bind("bottom", "End G", "to the bottom; back to live when the display is frozen", Bottom),
    bind("enter", "Enter", "show a process in full; fold or unfold functions", Enter),
    bind("sort", "s", "sort processes by the next column", NextSort),
    bind("sort-menu", "F6", "choose the column to sort by", SortMenu),
    bind("sort-cpu", "P", "sort by CPU", Sort("cpu")),
    bind("sort-memory", "M", "sort by memory", Sort("memory")),
    bind("sort-pid", "N", "sort by PID", Sort("pid")),
    bind("sort-time", "T", "sort by CPU time", Sort("time")),
    bind("reverse", "I", "reverse the order", Reverse),
    bind("tree", "t F5", "processes as a tree or a list", Tree),
    bind("threads", "H", "show the threads of processes", Threads),
    bind("search", "/", "search processes", Search),
    bind("search-next", "F3 n", "next match, or start a search", SearchNext),
    bind("filter", "F4 \\", "show only matching processes", Filter),
    bind("nice-less", "F7", "lower the nice value of the selected process (asks first)", NiceLess),
    bind("nice-more", "F8", "raise the nice value (asks first)", NiceMore),
    bind("kill", "F9", "send a signal to the selected process (asks first)", Kill),
    bind("jobs", "o", "jobs: switch to another or attach to one more", Jobs),
    bind("next-job", "J", "next attached job", NextJob),
    bind("setup", "F2 C", "settings: theme, columns, low bandwidth", Setup),
    bind("output", "p", "the last lines that the program wrote (trainmon run)", Output),
    bind("export", "e", "save the verdict (Markdown, JSON) or the screen (SVG)", Export),
    bind("copy", "c", "copy the verdict (OSC 52, works over ssh)", Copy),
    bind("mouse", "m", "leave the mouse to the terminal or take it back", Mouse),
    bind("redraw", "Ctrl-L", "redraw the screen", Redraw),
    bind("suspend", "Ctrl-Z", "suspend trainmon; resume with fg", Suspend),
];

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;

    fn action(event: KeyEvent) -> Option<Action> {
        Keymap::default().action(event)
    }

    #[test]
    fn no_key_and_no_word_is_bound_twice() {
        let all: Vec<Chord> = TABLE.iter().flat_map(Binding::chords).collect();
        assert_eq!(all.len(), TABLE.iter().map(|b| b.keys.split(' ').count()).sum::<usize>(), "each is a key");
        for (i, a) in all.iter().enumerate() {
            assert!(!all.iter().skip(i + 1).any(|b| a == b), "{a:?} is bound twice");
        }
        for (i, a) in TABLE.iter().enumerate() {
            assert!(!TABLE.iter().skip(i + 1).any(|b| a.id == b.id || a.action == b.action), "{} twice", a.id);
        }
    }

    #[test]
    fn pages_have_the_number_keys_in_their_order() {
        for (place, page) in Page::ALL.into_iter().filter(|page| page.spec().in_footer).enumerate() {
            let number = char::from_digit(place as u32 + 1, 10).map(KeyCode::Char).unwrap();
            assert_eq!(action(number.into()), Some(Action::Go(page)));
        }
    }

    #[test]
    fn every_key_is_found_by_its_event() {
        for binding in TABLE.iter() {
            for chord in binding.chords() {
                assert_eq!(action(chord.event()), Some(binding.action), "{chord}");
            }
        }
    }

    #[test]
    fn shifted_letters_are_found_with_and_without_the_modifier() {
        let plain = KeyEvent::new(KeyCode::Char('P'), KeyModifiers::NONE);
        let shifted = KeyEvent::new(KeyCode::Char('P'), KeyModifiers::SHIFT);
        assert_eq!(action(plain), Some(Action::Sort("cpu")));
        assert_eq!(action(shifted), action(plain));
        let far = KeyEvent::new(KeyCode::Left, KeyModifiers::SHIFT);
        assert_eq!(action(far), Some(Action::FarBack));
    }

    #[test]
    fn control_and_alt_are_not_plain_keys() {
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::NONE)), Some(Action::Copy));
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Action::Quit));
        assert_eq!(action(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT)), None);
    }

    #[test]
    fn escape_never_quits() {
        assert_eq!(action(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), Some(Action::Close));
    }
}
