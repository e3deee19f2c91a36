//! Colors as numbers: hex, xterm's palettes, contrast, and the nearest entry of a palette.
//!
//! The nearest entry is measured in Oklab, which the tests of the themes need anyway. ansi_colours has the LGPL; its
//! entries are 1.2 times as far off (mean CIEDE2000 over random colors: 6.8, here 5.7). Those of anstyle-lossy are 1.1
//! times as far off, and 1.2 times among the 16 named colors (18.1, here 15.3).

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
    /// White.
    pub const WHITE: Self = Self(255, 255, 255);

    /// What a terminal shows for `color`, with xterm's defaults for the named ones; `None` for the terminal's own
    /// foreground or background.
    pub fn from_color(color: Color) -> Option<Self> {
        match color {
            Color::Reset => None,
            Color::Rgb(r, g, b) => Some(Self(r, g, b)),
            Color::Indexed(index) => Some(Self::indexed(index)),
            named => ANSI.iter().find(|(_, c, _)| *c == named).map(|(_, _, rgb)| *rgb),
        }
    }

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

    /// Red, green and blue as amounts of light, 0–1 (IEC 61966-2-1).
    pub(super) fn linear(self) -> [f64; 3] {
        [self.0, self.1, self.2].map(|channel| {
            let v = f64::from(channel) / 255.0;
            if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Contrast of two colors, 1–21 (WCAG 2.1, 1.4.3).
    pub fn contrast(self, other: Self) -> f64 {
        let luminance = |color: Self| {
            let [r, g, b] = color.linear();
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(self) + 0.05, luminance(other) + 0.05);
        a.max(b) / a.min(b)
    }

    /// The entries of xterm's 256 colors that have names.
    pub const NAMED_COLORS: RangeInclusive<u8> = 0..=15;
    /// Its cube and grays. People change the others.
    pub const FIXED: RangeInclusive<u8> = 16..=255;

    /// The entry among these that looks most like this color.
    pub fn nearest(self, entries: RangeInclusive<u8>) -> u8 {
        let own = oklab(self.linear());
        let apart = |entry: &u8| distance(own, oklab(Self::indexed(*entry).linear()));
        entries.min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or_default()
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

/// Lightness and two hue axes of a color given as light, spaced as the eye sees them: Björn Ottosson's Oklab (2020).
pub(super) fn oklab([r, g, b]: [f64; 3]) -> [f64; 3] {
    let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
    let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
    let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
    [
        0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
        1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
        0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
    ]
}

/// Distance of two points of Oklab, 0 for the same and 1 from black to white.
pub(super) fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

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
        assert_eq!(Rgb::from_color(Color::Reset), None);
        assert_eq!(Rgb::from_color(Color::White), Some(Rgb::WHITE));
    }

    #[test]
    fn contrast_is_wcags() {
        assert!((Rgb::BLACK.contrast(Rgb::WHITE) - 21.0).abs() < 1e-9);
        assert!((Rgb::WHITE.contrast(Rgb::WHITE) - 1.0).abs() < 1e-9);
        // The example of WebAIM's checker: #767676 on white is the lightest gray that passes AA.
        assert!((Rgb(0x76, 0x76, 0x76).contrast(Rgb::WHITE) - 4.54).abs() < 0.01);
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
