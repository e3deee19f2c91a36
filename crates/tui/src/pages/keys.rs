//! The table of keys. The dispatcher, the help page and the footer all read it, so they cannot disagree.
//!
//! Keys are where people who use htop and nvtop expect them. An action has the same key everywhere: those for processes
//! open their page.

use std::sync::LazyLock;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Page;
pub use super::action::Action;
use Action::*;

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Its keys, as people write them, with blanks between them.
    pub keys: &'static str,
    /// What it does, for the help page.
    pub help: &'static str,
    /// What it does.
    pub action: Action,
}

const fn bind(keys: &'static str, help: &'static str, action: Action) -> Binding {
    Binding { keys, help, action }
}

/// All keys, in the order of the help page.
pub static TABLE: LazyLock<Vec<Binding>> = LazyLock::new(|| {
    let page = |page: Page| bind(page.spec().keys, page.spec().help, Go(page));
    let first = [
        bind("q F10 Ctrl-C", "quit; the job keeps running", Quit),
        page(Page::Help),
        bind("Esc", "close the top window; give up a profile that is on its way", Close),
    ];
    let others = Page::ALL.into_iter().filter(|page| *page != Page::Help);
    first.into_iter().chain(others.map(page)).chain(EVERYWHERE.iter().copied()).collect()
});

/// The keys that do the same on every page, and those that only some pages use.
const EVERYWHERE: &[Binding] = &[
    bind("Tab", "next page", NextPage),
    bind("Shift-Tab", "previous page", PreviousPage),
    bind("Space Z z", "freeze the display (sampling continues); play or pause a recording", Pause),
    bind("Left", "back by one sample: all numbers and charts as of then; profile: to the gap before", StepBack),
    bind("Right", "forward by one sample; profile: to the next gap", StepForward),
    bind("Shift-Left ,", "back by a tenth of the time shown", FarBack),
    bind("Shift-Right .", "forward by a tenth of the time shown", FarForward),
    bind("[", "to the previous change of the verdict; profile: to the next longer gap", PreviousChange),
    bind("]", "to the next change of the verdict; profile: to the next shorter gap", NextChange),
    bind("{", "to the oldest sample kept", Oldest),
    bind("}", "back to the newest sample, live (also End)", Newest),
    bind("<", "play a recording slower", Slower),
    bind(">", "play a recording faster", Faster),
    bind("+ =", "show less time; fixes the time scale; profile: closer to the gap", ZoomIn),
    bind("- _", "show more time, up to an hour; F2 restores auto; profile: more of the step", ZoomOut),
    bind("Up k", "up one line", Up),
    bind("Down j", "down one line", Down),
    bind("PgUp Ctrl-B", "up one page", PageUp),
    bind("PgDn Ctrl-F", "down one page", PageDown),
    bind("Home g", "to the top", Top),
    bind("End G", "to the bottom; back to live when the display is frozen", Bottom),
    bind("Enter", "overview: show why; processes, profile: one in full; stacks: fold or unfold", Enter),
    bind("l", "profile: next table", NextTable),
    bind("L", "profile: previous table", PreviousTable),
    bind("p", "ask the running job for a profile of half a second; again: give up", TakeProfile),
    bind("s", "sort processes or ranks by the next column", NextSort),
    bind("F6", "choose the column to sort by", SortMenu),
    bind("P", "sort by CPU", Sort("cpu")),
    bind("M", "sort by memory", Sort("memory")),
    bind("N", "sort by PID", Sort("pid")),
    bind("T", "sort by CPU time", Sort("time")),
    bind("I", "reverse the order", Reverse),
    bind("t F5", "processes as a tree or a list", Tree),
    bind("H", "show the threads of processes", Threads),
    bind("/", "search processes", Search),
    bind("F3 n", "next match, or start a search", SearchNext),
    bind("F4 \\", "show only matching processes", Filter),
    bind("F9", "send a signal to the selected process (asks first)", Kill),
    bind("o", "jobs: switch to another or attach to one more", Jobs),
    bind("J", "next attached job", NextJob),
    bind("F2 C", "settings: theme, columns, low bandwidth", Setup),
    bind("O", "the last lines that the program wrote (trainmon run)", Output),
    bind("e", "save the verdict (Markdown or JSON)", Export),
    bind("c", "copy the verdict (OSC 52, works over ssh)", Copy),
    bind("m", "leave the mouse to the terminal or take it back", Mouse),
    bind("r", "fleet: ask Prometheus again", Refresh),
    bind("Ctrl-L", "redraw the screen", Redraw),
    bind("Ctrl-Z", "suspend trainmon; resume with fg", Suspend),
];

/// The headings of the help page and of `docs/keys.md`, each with the first action below it, in the order of the table.
pub const TASKS: &[(&str, Action)] = &[
    ("Leave, or get help", Quit),
    ("Go to a page", Go(Page::Overview)),
    ("Look back in time", Pause),
    ("Replay a recording", Slower),
    ("Zoom the charts", ZoomIn),
    ("Scroll and open", Up),
    ("Take a profile", TakeProfile),
    ("Work with processes (from any page)", NextSort),
    ("Switch between jobs", Jobs),
    ("Settings, saving and the terminal", Setup),
];

/// The keys by task: the heading of each, and its lines of the table.
pub fn by_task() -> impl Iterator<Item = (&'static str, &'static [Binding])> {
    let begin = |task: &(&str, Action)| TABLE.iter().position(|binding| binding.action == task.1);
    let ends = TASKS.iter().skip(1).map(begin).chain([None]);
    TASKS
        .iter()
        .zip(ends)
        .filter_map(move |(task, end)| Some((task.0, TABLE.get(begin(task)?..end.unwrap_or(TABLE.len()))?)))
}

/// The first key of an action, as people write it; empty if it has none.
pub fn key_of(action: Action) -> &'static str {
    let binding = TABLE.iter().find(|binding| binding.action == action);
    binding.and_then(|binding| binding.keys.split(' ').next()).unwrap_or_default()
}

/// What a key press does, if anything.
pub fn action(event: KeyEvent) -> Option<Action> {
    let code = match event.code {
        KeyCode::PageUp => "PgUp".to_owned(),
        KeyCode::PageDown => "PgDn".to_owned(),
        code => code.to_string(),
    };
    let key = match (event.modifiers, event.code) {
        (KeyModifiers::NONE | KeyModifiers::SHIFT, KeyCode::BackTab) => "Shift-Tab".to_owned(),
        // A character already includes Shift.
        (KeyModifiers::NONE, _) | (KeyModifiers::SHIFT, KeyCode::Char(_)) => code,
        (KeyModifiers::SHIFT, _) => format!("Shift-{code}"),
        (KeyModifiers::CONTROL, _) => format!("Ctrl-{}", code.to_uppercase()),
        _ => return None,
    };
    TABLE.iter().find(|binding| binding.keys.split(' ').any(|name| name == key)).map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_and_no_action_is_there_twice() {
        let all: Vec<&str> = TABLE.iter().flat_map(|binding| binding.keys.split(' ')).collect();
        for (i, key) in all.iter().enumerate() {
            assert!(!key.is_empty() && !all.iter().skip(i + 1).any(|other| key == other), "{key:?} is bound twice");
        }
        for (i, a) in TABLE.iter().enumerate() {
            assert!(!TABLE.iter().skip(i + 1).any(|b| a.action == b.action), "{:?} twice", a.action);
        }
    }

    #[test]
    fn pages_have_the_number_keys_in_their_order() {
        for (place, page) in Page::ALL.into_iter().filter(|page| page.spec().in_footer).enumerate() {
            let number = char::from_digit((place as u32 + 1) % 10, 10).map(KeyCode::Char).unwrap();
            assert_eq!(action(number.into()), Some(Action::Go(page)));
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
        // Terminals copy with it.
        let shifted = KeyModifiers::CONTROL | KeyModifiers::SHIFT;
        assert_eq!(action(KeyEvent::new(KeyCode::Char('C'), shifted)), None);
    }

    #[test]
    fn escape_never_quits() {
        assert_eq!(action(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), Some(Action::Close));
    }
}
