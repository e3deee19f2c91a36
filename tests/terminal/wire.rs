//! What goes over the wire: plain characters and known sequences alone, whatever a process calls itself; no colors and
//! no more than ASCII where the terminal has none.

use trainmon::tui::keys::Action;
use trainmon::tui::pages::Page;

use crate::process::Target;
use crate::pty::{Conditions, ESC, Left, Screen, key};

/// A name that would retitle, recolor, move and clear, turn the reading direction, and take two cells or none.
const HOSTILE: &str = concat!(
    "\x1b]0;OWNED\x07\x1b[31;1mRED\x1b[2J\x1b[1;1H\x1bP$q\x1b\\\x1b[?1049l\x1bc\u{9b}31m\u{90}\u{9d}x\u{9c}",
    "\n\r\t\x08\x7f\x0e\u{202e}LTR\u{2066}\u{200f}e\u{301}\u{301}漢字🧑‍🔬\u{feff}\u{ad}"
);

/// One piece of what was written.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(char),
    /// CSI: parameters and final byte.
    Control(String, char),
    /// OSC: the text.
    Command(String),
    /// Anything else that is no text.
    Other(String),
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        all.push(match c {
            '\x1b' => match chars.next() {
                Some('[') => {
                    let mut parameters = String::new();
                    loop {
                        match chars.next() {
                            Some(c @ '\x20'..='\x3f') => parameters.push(c),
                            Some(c) => break Piece::Control(parameters, c),
                            None => break Piece::Other(parameters),
                        }
                    }
                }
                Some(']') => {
                    let text: String = chars.by_ref().take_while(|c| *c != '\x1b' && *c != '\x07').collect();
                    // The backslash of the string terminator.
                    let rest = chars.clone();
                    if chars.next() != Some('\\') {
                        chars = rest;
                    }
                    Piece::Command(text)
                }
                next => Piece::Other(format!("ESC {next:?}")),
            },
            c if c.is_control() => Piece::Other(format!("{c:?}")),
            c => Piece::Text(c),
        });
    }
    all
}

/// What no frame of ours holds: all but text, movement, clearing, colors, the modes that we set, and the clipboard.
fn odd(text: &str) -> Vec<Piece> {
    let numbers = |p: &str| p.chars().all(|c| c.is_ascii_digit() || c == ';');
    pieces(text)
        .into_iter()
        .filter(|piece| match piece {
            Piece::Text(c) => "\u{202e}\u{2066}\u{200f}\u{feff}".contains(*c),
            Piece::Control(p, 'H' | 'm' | 'J') => !numbers(p),
            Piece::Control(p, 'h' | 'l') => !p.starts_with('?'),
            Piece::Command(text) => !text.starts_with("52;c;"),
            Piece::Control(..) | Piece::Other(_) => true,
        })
        .collect()
}

/// What was written until the screen was left: what follows is a line for the scrollback, with its line ends.
fn on_screen(left: &Left) -> String {
    let text = String::from_utf8(left.bytes.clone()).expect("UTF-8");
    text.split_at(text.rfind("\x1b[?1049l").unwrap()).0.to_owned()
}

/// Looks at everything there is, and quits.
fn look_round(screen: &mut Screen) {
    for page in Page::ALL {
        screen.send(&key(Action::Go(page)));
        screen.answers(page.name());
        for action in
            [Action::Tree, Action::Threads, Action::Enter, Action::Kill, Action::Jobs, Action::Setup, Action::Export]
        {
            screen.send(&format!("{}{}", key(Action::Go(page)), key(action)));
            screen.answers(page.name());
            screen.send(&format!("{ESC}{ESC}"));
        }
    }
    screen.send(&key(Action::Copy));
    screen.answers("copying");
}

/// A sleeping process under a name of one's choice.
fn called(name: &str, more: &[&str]) -> Target {
    // The shell gives the name; a second process carries it as an argument.
    let script = "exec -a \"$0\" sleep 600 & exec -a \"$0\" bash -c 'wait; sleep 600; :' \"$@\"";
    let mut arguments = vec!["-c", script, name];
    arguments.extend_from_slice(more);
    Target::start("bash", &arguments)
}

#[test]
fn nothing_a_process_is_called_reaches_the_terminal_raw() {
    assert!(odd(HOSTILE).len() > 10, "{:?}", odd(HOSTILE));
    let long = format!("{HOSTILE}{}", "\x1b[7m漢".repeat(600));
    let target = called(HOSTILE, &[&long, HOSTILE]);
    for size in [(80, 24), (200, 60)] {
        let mut screen = Screen::attached(&target, &[], &Conditions { size, ..Conditions::default() });
        look_round(&mut screen);
        // The filter and the search take what is pasted as text.
        for action in [Action::Filter, Action::Search] {
            let open = format!("{}{}", key(Action::Go(Page::Processes)), key(action));
            screen.send(&format!("{open}\x1b[200~{HOSTILE}\x1b[201~"));
            screen.answers("a hostile filter");
            screen.send(ESC);
        }
        let left = screen.quit();
        left.assert_clean();
        let written = on_screen(&left);
        assert!(odd(&written).is_empty(), "{:?}", odd(&written));
        assert!(written.contains("OWNED") && written.contains("RED"), "the name was not shown at all");
        assert_eq!(left.count("]0;OWNED\x07"), 0, "the title was set");
        // The name holds a mode of ours: left and taken once, by us.
        assert_eq!((left.count("\x1b[?1049l"), left.count("\x1b[?1049h")), (1, 1));
    }
}

#[test]
fn the_c_locale_and_ascii_get_ascii_alone() {
    let target = called("wörter 漢字 \u{301}", &[]);
    let c: &[(&str, &str)] = &[("LC_ALL", "C")];
    for (environment, option) in [(c, None), (&[][..], Some("--ascii"))] {
        let given = Conditions { size: (120, 40), environment, ..Conditions::default() };
        let mut screen = Screen::attached(&target, &Vec::from_iter(option), &given);
        look_round(&mut screen);
        let left = screen.quit();
        left.assert_clean();
        let odd: String = on_screen(&left).chars().filter(|c| !c.is_ascii()).collect();
        assert_eq!(odd, "");
    }
}

/// The colors of a text that was written: numbers of SGR parameters that set one.
fn colors(text: &str) -> Vec<String> {
    let colored = |number: &str| matches!(number.parse::<u32>(), Ok(30..=38 | 40..=48 | 58 | 90..=97 | 100..=107));
    pieces(text)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Control(parameters, 'm') if parameters.split(';').any(colored) => Some(parameters),
            _ => None,
        })
        .collect()
}

#[test]
fn without_colors_none_is_sent() {
    let target = Target::sleeping();
    let plain: &[(&str, &str)] = &[("NO_COLOR", "1")];
    for (environment, option) in [(plain, None), (&[][..], Some("--no-color"))] {
        let given = Conditions { size: (120, 40), environment, ..Conditions::default() };
        let mut screen = Screen::attached(&target, &Vec::from_iter(option), &given);
        look_round(&mut screen);
        let left = screen.quit();
        left.assert_clean();
        assert_eq!(colors(&on_screen(&left)), Vec::<String>::new(), "{environment:?} {option:?}");
    }
}

#[test]
fn a_terminal_nobody_knows_is_drawn_on_all_the_same() {
    let target = Target::sleeping();
    for term in ["unknown-thing", "", "linux", "screen", "tmux-256color", "vt100"] {
        let environment = [("TERM", term)];
        let given = Conditions { environment: &environment, ..Conditions::default() };
        let mut screen = Screen::attached(&target, &[], &given);
        screen.send(&key(Action::Go(Page::Help)));
        screen.answers(term);
        screen.quit().assert_clean();
    }
    let environment = [("TERM", "xterm-256color")];
    let screen = Screen::attached(&target, &[], &Conditions { environment: &environment, ..Conditions::default() });
    // The opposite of the colorless ones: else they would prove nothing.
    assert!(!colors(&on_screen(&screen.quit())).is_empty());
}
