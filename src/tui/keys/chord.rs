//! A key with its modifiers: how people write it, and which event it is.

use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chord {
    /// The key.
    pub code: KeyCode,
    /// Whether Control and Shift are held. Shift is only for keys that are not characters; a character already includes
    /// it.
    pub held: KeyModifiers,
}

pub(super) const fn key(code: KeyCode) -> Chord {
    Chord { code, held: KeyModifiers::NONE }
}

pub(super) const fn ch(c: char) -> Chord {
    key(KeyCode::Char(c))
}

pub(super) const fn ctrl(c: char) -> Chord {
    Chord { held: KeyModifiers::CONTROL, ..ch(c) }
}

impl Chord {
    pub(super) fn is(self, event: KeyEvent) -> bool {
        let mut counts = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER | KeyModifiers::META;
        counts.set(KeyModifiers::SHIFT, !matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab));
        self.code == event.code && self.held & counts == event.modifiers & counts
    }

    /// The event of pressing it.
    pub fn event(self) -> KeyEvent {
        KeyEvent::new(self.code, self.held)
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let control = self.held.contains(KeyModifiers::CONTROL);
        let shift = if self.held.contains(KeyModifiers::SHIFT) { "Shift-" } else { "" };
        write!(f, "{}{shift}", if control { "Ctrl-" } else { "" })?;
        match self.code {
            KeyCode::Char(c) if control && c != ' ' => write!(f, "{}", c.to_ascii_uppercase()),
            KeyCode::Char(c) if c != ' ' => write!(f, "{c}"),
            KeyCode::BackTab => f.write_str("Shift-Tab"),
            code => match NAMES.iter().find(|(_, known)| *known == code) {
                Some((names, _)) => f.write_str(names.split(' ').next().unwrap_or(names)),
                None => write!(f, "{code}"),
            },
        }
    }
}

/// Keys that are not characters, and characters that are easier to name than to quote: the name that is shown, then
/// other accepted names, in any case.
const NAMES: [(&str, KeyCode); 20] = [
    ("Space", KeyCode::Char(' ')),
    ("Backslash", KeyCode::Char('\\')),
    ("Comma", KeyCode::Char(',')),
    ("Plus", KeyCode::Char('+')),
    ("Minus Hyphen", KeyCode::Char('-')),
    ("Tab", KeyCode::Tab),
    ("BackTab", KeyCode::BackTab),
    ("Enter Return", KeyCode::Enter),
    ("Esc Escape", KeyCode::Esc),
    ("Backspace", KeyCode::Backspace),
    ("Del Delete", KeyCode::Delete),
    ("Ins Insert", KeyCode::Insert),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PgUp PageUp Page-Up", KeyCode::PageUp),
    ("PgDn PgDown PageDown Page-Down", KeyCode::PageDown),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
];

/// Modifiers as they are written before a key.
const MODIFIERS: [(KeyModifiers, &[&str]); 3] = [
    (KeyModifiers::CONTROL, &["ctrl-", "ctrl+", "control-", "control+", "c-"]),
    (KeyModifiers::SHIFT, &["shift-", "shift+", "s-"]),
    (KeyModifiers::ALT, &["alt-", "alt+", "meta-", "meta+", "m-"]),
];

/// The modifier that a text begins with, ignoring case, and the rest; `None` if nothing follows.
fn modifier(text: &str) -> Option<(KeyModifiers, &str)> {
    let prefixes = MODIFIERS.iter().flat_map(|(modifier, prefixes)| prefixes.iter().map(move |p| (*modifier, *p)));
    prefixes.into_iter().find_map(|(modifier, prefix)| {
        let (start, rest) = text.split_at_checked(prefix.len())?;
        (start.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then_some((modifier, rest))
    })
}

fn code(text: &str) -> Option<KeyCode> {
    let mut chars = text.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return (!c.is_control()).then_some(KeyCode::Char(c));
    }
    let is_named = |names: &str| names.split(' ').any(|name| name.eq_ignore_ascii_case(text));
    if let Some((_, code)) = NAMES.iter().find(|(names, _)| is_named(names)) {
        return Some(*code);
    }
    let number = text.strip_prefix(['f', 'F']).filter(|n| n.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
    (1..=24).contains(&number).then_some(KeyCode::F(number))
}

impl FromStr for Chord {
    type Err = String;

    /// Reads what `Display` writes and the usual other spellings: `ctrl-c`, `C-c`, `^c`, `Ctrl+C`, `PageUp`, `space`, `F10`.
    fn from_str(text: &str) -> Result<Self, String> {
        let shown = crate::text::fit(text, 40);
        let refuse = |why: &str| Err(format!("`{shown}` is not a key: {why}"));
        let mut rest = text;
        let mut held = KeyModifiers::NONE;
        if let Some(letter) = text.strip_prefix('^').filter(|letter| !letter.is_empty()) {
            (held, rest) = (KeyModifiers::CONTROL, letter);
        }
        while let Some((modifier, key)) = modifier(rest) {
            if modifier == KeyModifiers::ALT {
                return refuse("Alt belongs to the terminal");
            }
            (held, rest) = (held | modifier, key);
        }
        let (control, shift) = (held.contains(KeyModifiers::CONTROL), held.contains(KeyModifiers::SHIFT));
        let Some(code) = code(rest) else {
            return refuse("write it as q, F10, ctrl-c, shift-left, space, pgup");
        };
        match code {
            KeyCode::Char(' ') if shift => refuse("terminals send Space for it"),
            KeyCode::Char(' ') => Ok(Self { code, held }),
            KeyCode::Char(c) if control => match c.to_ascii_lowercase() {
                _ if shift => refuse("terminals send no Shift with Control and a letter"),
                'i' => refuse("terminals send Tab for it"),
                'm' => refuse("terminals send Enter for it"),
                c if c.is_ascii_lowercase() => Ok(ctrl(c)),
                _ => refuse("with Control only letters are keys"),
            },
            KeyCode::Char(c) if shift && c.is_ascii_alphabetic() => Ok(ch(c.to_ascii_uppercase())),
            KeyCode::Char(_) if shift => refuse("write the character that Shift makes of it"),
            KeyCode::Tab | KeyCode::BackTab if control => refuse("terminals keep it to themselves"),
            KeyCode::Tab if shift => Ok(key(KeyCode::BackTab)),
            KeyCode::BackTab => Ok(key(code)),
            code => Ok(Self { code, held }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_spellings_are_read() {
        for (spellings, chord) in [
            (&["ctrl-c", "C-c", "Ctrl+C", "^C", "^c", "Control-C", "Ctrl-c"][..], ctrl('c')),
            (&["PageUp", "PgUp", "pgup", "page-up"], key(KeyCode::PageUp)),
            (&["space", "Space", " "], ch(' ')),
            (&["F10", "f10"], key(KeyCode::F(10))),
            (&["shift-left", "Shift+Left", "S-left"], Chord { held: KeyModifiers::SHIFT, ..key(KeyCode::Left) }),
            (&["backslash", "\\"], ch('\\')),
            (&["shift-tab", "BackTab"], key(KeyCode::BackTab)),
            (&["shift-a", "A"], ch('A')),
            (&["-", "minus", "hyphen"], ch('-')),
            (&["+", "plus"], ch('+')),
            (&["^"], ch('^')),
            (&["é"], ch('é')),
            (&["esc", "Escape"], key(KeyCode::Esc)),
        ] {
            for spelling in spellings {
                assert_eq!(spelling.parse(), Ok(chord), "{spelling}");
            }
        }
    }

    #[test]
    fn what_no_terminal_sends_is_refused_with_the_reason() {
        for (text, part) in [
            ("", "is not a key"),
            ("ctrl-", "write it as"),
            ("alt-x", "Alt belongs"),
            ("M-x", "Alt belongs"),
            ("ctrl-i", "Tab"),
            ("ctrl-m", "Enter"),
            ("ctrl-5", "only letters"),
            ("shift-1", "the character that Shift makes"),
            ("ctrl-shift-a", "no Shift"),
            ("F25", "write it as"),
            ("f", ""),
            ("F+1", "write it as"),
            ("banana", "`banana` is not a key"),
            ("\u{1b}", "is not a key"),
        ] {
            match text.parse::<Chord>() {
                Ok(chord) => assert_eq!((text, chord), ("f", ch('f'))),
                Err(why) => {
                    assert!(why.contains(part) && !why.contains('\u{1b}'), "{text}: {why}");
                }
            }
        }
    }

    fn chords() -> impl Strategy<Value = Chord> {
        let named = prop::sample::select(NAMES.to_vec()).prop_map(|(_, code)| code);
        let code = prop_oneof![named, (1u8..=24).prop_map(KeyCode::F), any::<char>().prop_map(KeyCode::Char)];
        (code, any::<bool>(), any::<bool>()).prop_filter_map("a chord", |(code, control, shift)| {
            let shift = shift && !matches!(code, KeyCode::Char(_) | KeyCode::Tab | KeyCode::BackTab);
            let control = control
                && match code {
                    KeyCode::Char(c) => c == ' ' || (c.is_ascii_lowercase() && !"im".contains(c)),
                    KeyCode::Tab | KeyCode::BackTab => false,
                    _ => true,
                };
            let readable = !matches!(code, KeyCode::Char(c) if c.is_control());
            let mut held = KeyModifiers::NONE;
            held.set(KeyModifiers::CONTROL, control);
            held.set(KeyModifiers::SHIFT, shift);
            readable.then_some(Chord { code, held })
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(chord in chords()) {
            prop_assert_eq!(chord.to_string().parse(), Ok(chord));
        }

        #[test]
        fn any_text_is_a_key_or_one_line(text in "\\PC*|(?i)(ctrl|c|shift|s|alt|\\^)[-+]?(\\PC|[a-z0-9]{1,5})") {
            match text.parse::<Chord>() {
                Ok(chord) => prop_assert_eq!(chord.to_string().parse(), Ok(chord)),
                Err(why) => prop_assert!(why.lines().count() == 1),
            }
        }
    }
}
