//! Colors as numbers: hex, xterm's palettes, and the nearest entry of a palette.

use std::ops::RangeInclusive;

use ratatui::style::Color;
use serde::Deserialize;

/// A color in sRGB; `#rrggbb` in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Rgb(pub u8, pub u8, pub u8);

impl TryFrom<String> for Rgb {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix('#').filter(|d| d.len() == 6 && d.bytes().all(|b| b.is_ascii_hexdigit()));
        let all = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let [_, red, green, blue] =
            all.ok_or_else(|| format!("`{text}` is not a color, expected `#rrggbb`"))?.to_be_bytes();
        Ok(Self(red, green, blue))
    }
}

impl Rgb {
    /// Black.
    pub const BLACK: Self = Self(0, 0, 0);
    /// Entry `index` of xterm's 256 colors (256colres.pl of xterm): 16 named ones, a 6×6×6 cube, 24 grays.
    pub fn indexed(index: u8) -> Self {
        let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
        match index {
            0..16 => ANSI.get(usize::from(index)).map_or(Self::BLACK, |(_, _, rgb)| *rgb),
            16..232 => {
                let cube = index - 16;
                Self(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
            }
            232.. => {
                let grey = 8 + 10 * (index - 232);
                Self(grey, grey, grey)
            }
        }
    }

    /// The color a part of the way to another one, 0–1.
    pub(super) fn towards(self, other: Self, part: f64) -> Self {
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// The entries of xterm's 256 colors that have names.
    pub const NAMED_COLORS: RangeInclusive<u8> = 0..=15;
    /// Its cube and grays. People change the others.
    pub const FIXED: RangeInclusive<u8> = 16..=255;

    /// The entry among these whose channels differ least from this color's, by the sum of squares.
    pub fn nearest(self, entries: RangeInclusive<u8>) -> u8 {
        let apart = |entry: &u8| {
            let Self(red, green, blue) = Self::indexed(*entry);
            [(self.0, red), (self.1, green), (self.2, blue)]
                .map(|(a, b)| u32::from(a.abs_diff(b)).pow(2))
                .iter()
                .sum::<u32>()
        };
        entries.min_by_key(apart).unwrap_or_default()
    }
}

/// The 16 named colors as ANSI orders them: the name in theme files, ratatui's, and xterm's default (XTerm-col.ad).
pub const ANSI: [(&str, Color, Rgb); 16] = [
    ("black", Color::Black, Rgb(0, 0, 0)),
    ("red", Color::Red, Rgb(205, 0, 0)),
    ("green", Color::Green, Rgb(0, 205, 0)),
    ("yellow", Color::Yellow, Rgb(205, 205, 0)),
    ("blue", Color::Blue, Rgb(0, 0, 238)),
    ("magenta", Color::Magenta, Rgb(205, 0, 205)),
    ("cyan", Color::Cyan, Rgb(0, 205, 205)),
    ("white", Color::Gray, Rgb(229, 229, 229)),
    ("bright-black", Color::DarkGray, Rgb(127, 127, 127)),
    ("bright-red", Color::LightRed, Rgb(255, 0, 0)),
    ("bright-green", Color::LightGreen, Rgb(0, 255, 0)),
    ("bright-yellow", Color::LightYellow, Rgb(255, 255, 0)),
    ("bright-blue", Color::LightBlue, Rgb(92, 92, 255)),
    ("bright-magenta", Color::LightMagenta, Rgb(255, 0, 255)),
    ("bright-cyan", Color::LightCyan, Rgb(0, 255, 255)),
    ("bright-white", Color::White, Rgb(255, 255, 255)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_or_refused() {
        assert_eq!("#e69F00".to_owned().try_into(), Ok(Rgb(0xE6, 0x9F, 0)));
        for wrong in ["e69f00", "#e69f0", "#e69f000", "#+69f00", "#é9f00", "", "#"] {
            assert!(Rgb::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn xterm_has_the_colors_it_is_documented_with() {
        assert_eq!(Rgb::indexed(16), Rgb(0, 0, 0));
        assert_eq!(Rgb::indexed(178), Rgb(0xD7, 0xAF, 0));
        assert_eq!(Rgb::indexed(74), Rgb(0x5F, 0xAF, 0xD7));
        assert_eq!(Rgb::indexed(231), Rgb(255, 255, 255));
        assert_eq!(Rgb::indexed(232), Rgb(8, 8, 8));
        assert_eq!(Rgb::indexed(255), Rgb(238, 238, 238));
    }

    #[test]
    fn a_palettes_own_colors_are_their_nearest() {
        // 16 and 231 map to themselves; 59, 102, … of the cube are also grays of the ramp: the first one wins.
        for index in 16..=255 {
            let nearest = Rgb::indexed(index).nearest(Rgb::FIXED);
            assert_eq!(Rgb::indexed(nearest), Rgb::indexed(index), "{index} → {nearest}");
        }
        for index in 0..16 {
            assert_eq!(Rgb::indexed(index).nearest(Rgb::NAMED_COLORS), index);
        }
        assert_eq!(Rgb(0xE6, 0x9F, 0x00).nearest(Rgb::FIXED), 178);
        assert_eq!(Rgb(0x56, 0xB4, 0xE9).nearest(Rgb::FIXED), 74);
    }
}
