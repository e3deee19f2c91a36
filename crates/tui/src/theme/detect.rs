//! What a terminal supports, according to its environment: how many colors, whether more than ASCII, and a guess at its
//! background. The terminal itself is never asked, because an answer may never come.

use super::Depth;
use super::palette::Palette;

/// The value of a variable, if it is not empty.
fn set(variable: &impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}

/// Terminals with 256 colors whose names do not say so.
const TERMS_256: [&str; 8] =
    ["xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour", "rio", "konsole"];
/// Prefixes of the names of terminals with 16 colors, or 8 and bold.
const TERMS_16: [&str; 16] = [
    "linux", "xterm", "screen", "tmux", "rxvt", "vt1", "vt2", "ansi", "cygwin", "gnome", "putty", "mlterm", "eterm",
    "st", "cons", "hurd",
];

/// How many colors: none with `NO_COLOR` (present and not empty, no-color.org) and on a dumb or unknown terminal;
/// otherwise according to `COLORTERM` and the terminal's name.
pub(super) fn depth(variable: &impl Fn(&str) -> Option<String>) -> Depth {
    let term = set(variable, "TERM").unwrap_or_default().to_ascii_lowercase();
    // COLORTERM is inherited by programs inside a terminal that supports no colors (Emacs' shell is TERM=dumb).
    let known = |names: &[&str]| names.iter().any(|name| term.starts_with(name));
    let monochrome = term.ends_with("-m") || term.contains("mono");
    let many = term.contains("256color") || term.contains("-direct") || known(&TERMS_256);
    if set(variable, "NO_COLOR").is_some() || monochrome || !(many || known(&TERMS_16)) {
        return Depth::None;
    }
    // The Linux console accepts 24-bit colors and shows the nearest of 16.
    if term.starts_with("linux") {
        return Depth::Ansi16;
    }
    let true_color = matches!(set(variable, "COLORTERM").as_deref(), Some("truecolor" | "24bit"));
    // GNU screen inherits COLORTERM, and before version 5 misreads 24-bit colors. tmux translates them.
    let screen = in_screen(variable);
    match (true_color || term.contains("-direct"), many) {
        (true, _) if !screen => Depth::TrueColor,
        (true, _) | (false, true) => Depth::Indexed256,
        (false, false) => Depth::Ansi16,
    }
}

/// Whether GNU screen reads the output, here or where ssh was started. tmux may also call itself `screen`, and is known
/// by its own variable. If one runs inside the other, both variables are set, and the name decides.
pub fn in_screen(variable: impl Fn(&str) -> Option<String>) -> bool {
    let term = set(&variable, "TERM").unwrap_or_default();
    let session = set(&variable, "STY").is_some();
    !term.starts_with("tmux") && (session || term.starts_with("screen") && set(&variable, "TMUX").is_none())
}

/// Whether to use ASCII alone: in a locale that is not UTF-8, on the Linux console, whose fonts have no braille, and on
/// a dumb terminal.
pub(super) fn ascii(variable: &impl Fn(&str) -> Option<String>) -> bool {
    let term = set(variable, "TERM").unwrap_or_default();
    !utf8_locale(variable).unwrap_or(false) || term == "linux" || term == "dumb"
}

/// Whether the locale's characters are UTF-8; `None` if no locale is set.
pub fn utf8_locale(variable: &impl Fn(&str) -> Option<String>) -> Option<bool> {
    // The first of the three that is set decides (locale(7)).
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| set(variable, name))?;
    let locale = locale.to_ascii_lowercase();
    Some(locale.contains("utf-8") || locale.contains("utf8"))
}

/// The theme for the terminal's background: `COLORFGBG` (rxvt, Konsole and others) ends with the background's number
/// among the 16, of which 7 and 15 are light. Dark if it is not set.
pub(super) fn palette(variable: &impl Fn(&str) -> Option<String>) -> Palette {
    let colors = set(variable, "COLORFGBG").unwrap_or_default();
    match colors.rsplit(';').next() {
        Some("7" | "15") => Palette::light(),
        _ => Palette::dark(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> + use<> {
        let pairs = pairs.to_vec();
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
    }

    #[test]
    fn the_environment_decides_on_the_depth() {
        use Depth::{Ansi16, Indexed256, None, TrueColor};
        let of = |term: &'static str, more: &[(&'static str, &'static str)]| {
            depth(&with(&[&[("TERM", term)], more].concat()))
        };
        for (term, expected) in [
            ("xterm-256color", Indexed256),
            ("screen-256color", Indexed256),
            ("tmux-256color", Indexed256),
            ("screen.xterm-256color", Indexed256),
            ("xterm-kitty", Indexed256),
            ("alacritty", Indexed256),
            ("foot", Indexed256),
            ("foot-extra", Indexed256),
            ("wezterm", Indexed256),
            ("xterm-direct", TrueColor),
            ("linux", Ansi16),
            ("xterm", Ansi16),
            ("xterm-color", Ansi16),
            ("screen", Ansi16),
            ("vt100", Ansi16),
            ("vt220", Ansi16),
            ("xterm-mono", None),
            ("linux-m", None),
            ("dumb", None),
            ("unknown", None),
            ("", None),
            ("\u{1b}[31m", None),
            ("a-terminal-of-next-year", None),
        ] {
            assert_eq!(of(term, &[]), expected, "{term}");
        }
        let true_color = [("COLORTERM", "truecolor")];
        assert_eq!(of("xterm-256color", &true_color), TrueColor);
        assert_eq!(of("xterm", &[("COLORTERM", "24bit")]), TrueColor);
        assert_eq!(of("xterm-256color", &[("COLORTERM", "yes")]), Indexed256);
        assert_eq!(of("dumb", &true_color), None);
        assert_eq!(of("linux", &true_color), Ansi16);
        assert_eq!(of("xterm-256color", &[("NO_COLOR", "1"), ("COLORTERM", "truecolor")]), None);
        assert_eq!(of("xterm-256color", &[("NO_COLOR", "")]), Indexed256);
        assert_eq!(depth(&with(&[])), None);
    }

    #[test]
    fn screen_is_not_sent_what_it_misreads_and_tmux_is() {
        let in_screen = [("TERM", "screen-256color"), ("COLORTERM", "truecolor"), ("STY", "12.pts-0.host")];
        assert_eq!(depth(&with(&in_screen)), Depth::Indexed256);
        let nested = [("TERM", "screen"), ("STY", "12.pts-0.host"), ("TMUX", "/tmp/tmux-0/default,1,0")];
        assert_eq!(depth(&with(&[&nested[..], &[("COLORTERM", "truecolor")]].concat())), Depth::Indexed256);
        let in_tmux = [("TERM", "screen-256color"), ("COLORTERM", "truecolor"), ("TMUX", "/tmp/tmux-0/default,1,0")];
        assert_eq!(depth(&with(&in_tmux)), Depth::TrueColor);
    }

    #[test]
    fn gnu_screen_is_told_from_tmux() {
        let (sty, tmux) = (("STY", "12.pts-0.host"), ("TMUX", "/tmp/tmux-0/default,1,0"));
        assert!(in_screen(with(&[("TERM", "screen"), sty])) && in_screen(with(&[sty])));
        // Through ssh, only the name is passed on.
        assert!(in_screen(with(&[("TERM", "screen.xterm-256color")])));
        assert!(in_screen(with(&[("TERM", "screen"), sty, tmux])), "screen in tmux");
        assert!(!in_screen(with(&[("TERM", "tmux-256color"), sty, tmux])), "tmux in screen");
        assert!(!in_screen(with(&[("TERM", "screen-256color"), tmux])));
        assert!(!in_screen(with(&[("TERM", "tmux-256color")])) && !in_screen(with(&[("TERM", "xterm")])));
        assert!(!in_screen(with(&[])));
    }

    #[test]
    fn the_background_is_guessed_where_something_tells_it() {
        for (value, light) in
            [("0;15", true), ("0;default;15", true), ("0;7", true), ("15;0", false), ("7", true), ("", false)]
        {
            let found = palette(&with(&[("COLORFGBG", value)]));
            assert_eq!(found == Palette::light(), light, "{value}");
        }
        assert_eq!(palette(&with(&[])), Palette::dark());
        assert_ne!(Palette::dark(), Palette::light());
    }

    #[test]
    fn locale_and_console_decide_on_ascii() {
        assert!(!ascii(&with(&[("LANG", "de_DE.UTF-8"), ("TERM", "xterm")])));
        assert!(ascii(&with(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")])));
        assert!(ascii(&with(&[("LANG", "C.utf8"), ("TERM", "linux")])));
        assert!(ascii(&with(&[])));
    }
}
