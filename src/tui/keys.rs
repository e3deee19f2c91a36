//! The one table of keys. The dispatcher, the help page and the footer all read it, so they cannot disagree.
//!
//! Keys are where the fingers of people who use htop and nvtop expect them. An action has one key everywhere; a page that
//! has no use for it lets it pass.

mod chord;
mod keymap;

use crossterm::event::KeyCode;

pub use chord::{Chord, ChordError};
pub use keymap::{KeyError, Keymap};

use super::page::Page;
use super::processes::Column;
use chord::{ch, ctrl, key, shift};

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Ends the program.
    Quit,
    /// Closes what lies on top; never ends the program.
    Close,
    /// Goes to a page.
    Go(Page),
    /// Goes to the next page.
    NextPage,
    /// Goes to the page before.
    PreviousPage,
    /// Stops the picture, or lets it run on.
    Pause,
    /// Shows the moment before.
    StepBack,
    /// Shows the moment after.
    StepForward,
    /// Goes back by a tenth of the charts.
    FarBack,
    /// Goes forward by a tenth of the charts.
    FarForward,
    /// Goes to the change of verdict before.
    PreviousChange,
    /// Goes to the next change of verdict.
    NextChange,
    /// Goes to the oldest moment kept.
    Oldest,
    /// Goes to the newest moment.
    Newest,
    /// Plays a recording slower.
    Slower,
    /// Plays a recording faster.
    Faster,
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
    /// Opens what is selected.
    Enter,
    /// Sorts by the next column.
    NextSort,
    /// Opens the menu of columns to sort by.
    SortMenu,
    /// Sorts by a column.
    Sort(Column),
    /// Turns the order round.
    Reverse,
    /// Shows processes as a tree, or flat.
    Tree,
    /// Shows threads, or hides them.
    Threads,
    /// Looks for a process.
    Search,
    /// Goes to the next match, or begins a search.
    SearchNext,
    /// Shows only the processes that match.
    Filter,
    /// Sends a signal to the selected process.
    Kill,
    /// Gives the selected process more CPU time (a lower nice value).
    NiceLess,
    /// Gives the selected process less CPU time (a higher nice value).
    NiceMore,
    /// Opens the settings.
    Setup,
    /// Opens the list of jobs.
    Jobs,
    /// Shows the next attached job.
    NextJob,
    /// Opens the menu of what can be saved.
    Export,
    /// Copies the verdict to the clipboard.
    Copy,
    /// Leaves the mouse to the terminal, or takes it.
    Mouse,
    /// Paints the screen anew.
    Redraw,
    /// Stops the program until the shell continues it.
    Suspend,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Its word in the configuration.
    pub id: &'static str,
    /// The keys that do it, unless the configuration says otherwise.
    pub keys: &'static [Chord],
    /// What it does, for the help page.
    pub help: &'static str,
    /// What it does.
    pub action: Action,
}

const fn bind(id: &'static str, keys: &'static [Chord], help: &'static str, action: Action) -> Binding {
    Binding { id, keys, help, action }
}

/// All keys, in the order of the help page.
pub const TABLE: &[Binding] = &[
    bind("quit", &[ch('q'), key(KeyCode::F(10)), ctrl('c')], "quit; the target runs on", Action::Quit),
    bind("help", &[ch('?'), ch('h'), key(KeyCode::F(1)), ch('8')], "this help", Action::Go(Page::Help)),
    bind("close", &[key(KeyCode::Esc)], "close what lies on top; never quits", Action::Close),
    bind("overview", &[ch('1')], "overview: the verdict, what to do first, every timeline", Action::Go(Page::Overview)),
    bind("gpu", &[ch('2')], "GPU: each device in full", Action::Go(Page::Gpu)),
    bind("cpu", &[ch('3')], "CPU: cores, queues, quota, pressure, threads, neighbours", Action::Go(Page::Cpu)),
    bind("io", &[ch('4')], "IO: disks, mounts, page cache, network", Action::Go(Page::Io)),
    bind("processes", &[ch('5')], "processes of the job", Action::Go(Page::Processes)),
    bind("stacks", &[ch('6')], "stacks: hottest functions of trainer and workers, sync lines", Action::Go(Page::Stacks)),
    bind(
        "findings",
        &[ch('7')],
        "findings: evidence with thresholds, advice, what was not seen and what mends it",
        Action::Go(Page::Findings),
    ),
    bind("next-page", &[key(KeyCode::Tab)], "next page", Action::NextPage),
    bind("previous-page", &[key(KeyCode::BackTab)], "page before", Action::PreviousPage),
    bind("pause", &[ch(' '), ch('Z'), ch('z')], "stop the picture while data keeps coming; play a recording", Action::Pause),
    bind("step-back", &[key(KeyCode::Left)], "back by one sample: every number and chart at that moment", Action::StepBack),
    bind("step-forward", &[key(KeyCode::Right)], "forward by one sample", Action::StepForward),
    bind("far-back", &[shift(KeyCode::Left), ch(',')], "back by a tenth of the charts", Action::FarBack),
    bind("far-forward", &[shift(KeyCode::Right), ch('.')], "forward by a tenth of the charts", Action::FarForward),
    bind("previous-change", &[ch('[')], "to the change of verdict before", Action::PreviousChange),
    bind("next-change", &[ch(']')], "to the next change of verdict", Action::NextChange),
    bind("oldest", &[ch('{')], "to the oldest moment kept", Action::Oldest),
    bind("newest", &[ch('}')], "back to the newest moment, live (so does End)", Action::Newest),
    bind("slower", &[ch('<')], "play a recording slower", Action::Slower),
    bind("faster", &[ch('>')], "play a recording faster", Action::Faster),
    bind("zoom-in", &[ch('+'), ch('=')], "show less time, larger", Action::ZoomIn),
    bind("zoom-out", &[ch('-'), ch('_')], "show more time, up to an hour", Action::ZoomOut),
    bind("up", &[key(KeyCode::Up), ch('k')], "up one line", Action::Up),
    bind("down", &[key(KeyCode::Down), ch('j')], "down one line", Action::Down),
    bind("page-up", &[key(KeyCode::PageUp), ctrl('b')], "up one page", Action::PageUp),
    bind("page-down", &[key(KeyCode::PageDown), ctrl('f')], "down one page", Action::PageDown),
    bind("top", &[key(KeyCode::Home), ch('g')], "to the top", Action::Top),
    bind("bottom", &[key(KeyCode::End), ch('G')], "to the bottom; back to live where the picture stands", Action::Bottom),
    bind("enter", &[key(KeyCode::Enter)], "a process in full; fold or unfold functions", Action::Enter),
    bind("sort", &[ch('s')], "sort processes by the next column", Action::NextSort),
    bind("sort-menu", &[key(KeyCode::F(6))], "choose the column to sort by", Action::SortMenu),
    bind("sort-cpu", &[ch('P')], "sort by CPU", Action::Sort(Column::Cpu)),
    bind("sort-memory", &[ch('M')], "sort by memory", Action::Sort(Column::Memory)),
    bind("sort-pid", &[ch('N')], "sort by PID", Action::Sort(Column::Pid)),
    bind("sort-time", &[ch('T')], "sort by CPU time", Action::Sort(Column::Time)),
    bind("reverse", &[ch('I')], "reverse the order", Action::Reverse),
    bind("tree", &[ch('t'), key(KeyCode::F(5))], "processes as a tree, or flat", Action::Tree),
    bind("threads", &[ch('H')], "show the threads of processes", Action::Threads),
    bind("search", &[ch('/')], "search the processes", Action::Search),
    bind("search-next", &[key(KeyCode::F(3)), ch('n')], "next match of the search; begins one", Action::SearchNext),
    bind("filter", &[key(KeyCode::F(4)), ch('\\')], "show only the processes that match", Action::Filter),
    bind("nice-less", &[key(KeyCode::F(7))], "lower nice value of the selected process, after asking", Action::NiceLess),
    bind("nice-more", &[key(KeyCode::F(8))], "higher nice value, after asking", Action::NiceMore),
    bind("kill", &[key(KeyCode::F(9))], "send a signal to the selected process, after asking", Action::Kill),
    bind("jobs", &[ch('o')], "jobs: switch to another, attach to one more", Action::Jobs),
    bind("next-job", &[ch('J')], "next attached job", Action::NextJob),
    bind("setup", &[key(KeyCode::F(2)), ch('C')], "settings: theme, columns, low bandwidth", Action::Setup),
    bind("export", &[ch('e')], "save the verdict (Markdown, JSON) or the screen (SVG)", Action::Export),
    bind("copy", &[ch('c')], "copy the verdict (OSC 52: works over ssh)", Action::Copy),
    bind("mouse", &[ch('m')], "leave the mouse to the terminal, or take it back", Action::Mouse),
    bind("redraw", &[ctrl('l')], "paint the screen anew", Action::Redraw),
    bind("suspend", &[ctrl('z')], "stop trainmon; fg brings it back", Action::Suspend),
];

/// Actions and their words for the footer of a page, the most useful first.
#[must_use]
pub fn footer(page: Page) -> &'static [(Action, &'static str)] {
    match page {
        Page::Processes => &[
            (Action::Enter, "process"),
            (Action::NextSort, "sort"),
            (Action::Tree, "tree"),
            (Action::Filter, "filter"),
            (Action::Search, "search"),
            (Action::Threads, "threads"),
            (Action::Kill, "signal"),
        ],
        Page::Stacks => &[(Action::Enter, "fold"), (Action::Pause, "pause"), (Action::StepBack, "back")],
        _ => &[
            (Action::Pause, "pause"),
            (Action::StepBack, "back"),
            (Action::ZoomOut, "zoom"),
            (Action::PreviousChange, "change"),
            (Action::Jobs, "jobs"),
            (Action::Export, "save"),
            (Action::Copy, "copy"),
        ],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crossterm::event::{KeyEvent, KeyEventKind, KeyModifiers};

    use super::*;

    fn action(event: KeyEvent) -> Option<Action> {
        Keymap::default().action(event)
    }

    #[test]
    fn no_key_and_no_word_is_bound_twice() {
        let all: Vec<Chord> = TABLE.iter().flat_map(|b| b.keys).copied().collect();
        for (i, a) in all.iter().enumerate() {
            assert!(!all.iter().skip(i + 1).any(|b| a == b), "{a:?} is bound twice");
        }
        for (i, a) in TABLE.iter().enumerate() {
            assert!(!TABLE.iter().skip(i + 1).any(|b| a.id == b.id || a.action == b.action), "{} twice", a.id);
        }
    }

    #[test]
    fn every_key_is_found_by_its_event() {
        for binding in TABLE {
            for chord in binding.keys {
                assert_eq!(action(chord.event()), Some(binding.action), "{chord}");
            }
        }
    }

    #[test]
    fn shifted_letters_are_found_with_and_without_the_modifier() {
        let plain = KeyEvent::new(KeyCode::Char('P'), KeyModifiers::NONE);
        let shifted = KeyEvent::new(KeyCode::Char('P'), KeyModifiers::SHIFT);
        assert_eq!(action(plain), Some(Action::Sort(Column::Cpu)));
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
    fn escape_never_quits_and_a_release_does_nothing() {
        assert_eq!(action(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)), Some(Action::Close));
        let mut release = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        release.kind = KeyEventKind::Release;
        assert_eq!(action(release), None);
    }
}
