//! The colors of a theme: named slots, read from a TOML file.
//!
//! Each slot has a true color, one of xterm's 256 and one of the 16 that every terminal names. A file may give all
//! three; missing ones are the nearest. The built-in themes are the files in `assets/themes`.

use std::fmt;
use std::sync::LazyLock;

use ratatui::style::Color;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};

use super::Depth;
use super::color::{ANSI, Rgb};
use trainmon_base::text::{fit, refused, refused_by_toml};

/// The slots, each with its key in theme files.
macro_rules! slots {
    ($($(#[$doc:meta])* $slot:ident $key:ident;)*) => {
        /// What has a color. The first eight are those of Okabe and Ito (2008) or replace them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ColorSlot {
            $($(#[$doc])* $slot,)*
        }

        impl ColorSlot {
            /// Number of slots.
            const COUNT: usize = [$(Self::$slot),*].len();
        }

        /// A theme file.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        struct File {
            base: Option<toml::Spanned<String>>,
            $($key: Option<Entry>,)*
        }

        impl File {
            /// The entries in the order of [`ColorSlot`].
            fn entries(self) -> [Option<Entry>; ColorSlot::COUNT] {
                [$(self.$key),*]
            }
        }
    };
}

slots! {
    /// The data-loader.
    Orange orange;
    /// Storage.
    Sky sky;
    /// The GPU.
    Green green;
    /// Unknown.
    Yellow yellow;
    /// Balanced.
    Blue blue;
    /// Queueing.
    Vermillion vermillion;
    /// The CPU.
    Purple purple;
    /// Idle, and everything else.
    Grey grey;
    /// Ordinary text. On a terminal, this is the terminal's own color; an exported picture needs a value.
    Text text;
    /// The assumed background of text. Never painted on a terminal.
    Background background;
    /// Less important text.
    Dim dim;
    /// Frames and rules.
    Edge edge;
    /// Something is wrong.
    Warning warning;
    /// Text of the title bar and of keys.
    BarText bar_text;
    /// Background of the title bar and of keys.
    Bar bar;
    /// Text of the selected row.
    SelectedText selected_text;
    /// Background of the selected row.
    Selected selected;
    /// The cursor in the charts.
    Cursor cursor;
}

/// One slot's color at each depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shade {
    rgb: Rgb,
    indexed: u8,
    ansi: u8,
}

impl Shade {
    fn new(rgb: Rgb, indexed: Option<u8>, ansi: Option<u8>) -> Self {
        let indexed = indexed.unwrap_or_else(|| rgb.nearest(Rgb::FIXED));
        let ansi = ansi.unwrap_or_else(|| rgb.nearest(Rgb::NAMED_COLORS));
        Self { rgb, indexed, ansi }
    }

    /// The color to send to the terminal; [`Color::Reset`] without colors.
    pub(super) fn at(self, depth: Depth) -> Color {
        match depth {
            Depth::None => Color::Reset,
            Depth::Ansi16 => ANSI.get(usize::from(self.ansi)).map_or(Color::Reset, |(_, color, _)| *color),
            Depth::Indexed256 => Color::Indexed(self.indexed),
            Depth::TrueColor => Color::Rgb(self.rgb.0, self.rgb.1, self.rgb.2),
        }
    }
}

/// The colors of a theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    shades: [Shade; ColorSlot::COUNT],
    /// The same colors faded toward the background, the faintest first: the rows of filled charts from the bottom.
    faded: [[Shade; FADED.len()]; ColorSlot::COUNT],
}

/// How far faded colors are toward the background, 0–1.
const FADED: [f64; 3] = [0.45, 0.3, 0.15];

/// The built-in themes' files; the first is the default.
const THEME_FILES: [(&str, &str); 3] = [
    ("dark", include_str!("../../assets/themes/dark.toml")),
    ("light", include_str!("../../assets/themes/light.toml")),
    ("high-contrast", include_str!("../../assets/themes/high-contrast.toml")),
];

static BUILT_IN: LazyLock<[(&str, Palette); 3]> = LazyLock::new(|| {
    THEME_FILES.map(|(name, text)| (name, read(text, |_| Some(Palette::MONOCHROME)).unwrap_or(Palette::MONOCHROME)))
});

impl Palette {
    /// Light gray on black: what a picture of a screen without colors looks like.
    pub(super) const MONOCHROME: Self = {
        let grey = Shade { rgb: Rgb(0xD0, 0xD0, 0xD0), indexed: 252, ansi: 7 };
        let black = Shade { rgb: Rgb::BLACK, indexed: 16, ansi: 0 };
        let mut shades = [grey; ColorSlot::COUNT];
        #[allow(clippy::indexing_slicing, reason = "constants, and below COUNT")]
        {
            shades[ColorSlot::Background as usize] = black;
            shades[ColorSlot::BarText as usize] = black;
            shades[ColorSlot::SelectedText as usize] = black;
        }
        Self { shades, faded: [[grey; FADED.len()]; ColorSlot::COUNT] }
    };

    /// Names of the built-in themes; the first is the default.
    pub fn names() -> impl Iterator<Item = &'static str> {
        THEME_FILES.iter().map(|(name, _)| *name)
    }

    /// A built-in theme by its name.
    pub fn built_in(name: &str) -> Option<Self> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, palette)| *palette)
    }

    /// The name of the theme that fits the terminal's background, according to the environment.
    pub const AUTO: &'static str = "auto";

    /// The themes to choose from, with their names: `auto`, which is this one, and the built-in ones.
    pub fn choices(auto: Self) -> Vec<(String, Self)> {
        [(Self::AUTO, auto)]
            .iter()
            .chain(BUILT_IN.iter())
            .map(|(name, palette)| ((*name).to_owned(), *palette))
            .collect()
    }

    /// For dark backgrounds.
    pub fn dark() -> Self {
        let [(_, dark), ..] = *BUILT_IN;
        dark
    }

    /// For light backgrounds.
    pub fn light() -> Self {
        let [_, (_, light), ..] = *BUILT_IN;
        light
    }

    /// Reads a theme file: slots as `orange = "#e69f00"` or `orange = { hex = "#e69f00", xterm = 178, ansi = "yellow"
    /// }`. Missing slots come from the built-in theme in `base`, or from `dark` if there is no `base`.
    ///
    /// # Errors
    /// The first problem and its location, on one line: invalid TOML, an unknown key, an invalid color.
    pub fn parse(text: &str) -> Result<Self, String> {
        read(text, Self::built_in)
    }

    pub(super) fn shade(&self, slot: ColorSlot) -> Shade {
        let [first, ..] = self.shades;
        self.shades.get(slot as usize).copied().unwrap_or(first)
    }

    /// The color of a slot at a relative height of the chart, 0–1: faint below, the full color at the top.
    pub(super) fn at_height(&self, slot: ColorSlot, part: f64) -> Shade {
        let step = (part * (FADED.len() + 1) as f64) as usize;
        let faded = self.faded.get(slot as usize).and_then(|steps| steps.get(step));
        faded.copied().unwrap_or(self.shade(slot))
    }

    /// A slot's true color.
    pub fn rgb(&self, slot: ColorSlot) -> Rgb {
        self.shade(slot).rgb
    }
}

fn read(text: &str, base: impl Fn(&str) -> Option<Palette>) -> Result<Palette, String> {
    let refuse = |why: String| fit(&why.replace("unknown field", "unknown key"), 300);
    let file: File = toml::from_str(text).map_err(|error| refuse(refused_by_toml(text, &error)))?;
    let (name, at) = file.base.as_ref().map_or(("dark", 0), |name| (name.get_ref().as_str(), name.span().start));
    let mut palette = base(name).ok_or_else(|| {
        let names: Vec<_> = Palette::names().collect();
        refuse(refused(text, at, &format!("unknown theme `{name}`, expected one of {}", names.join(", "))))
    })?;
    for (shade, entry) in palette.shades.iter_mut().zip(file.entries()) {
        if let Some(entry) = entry {
            *shade = entry.0;
        }
    }
    let ground = palette.shade(ColorSlot::Background).rgb;
    palette.faded =
        palette.shades.map(|shade| FADED.map(|part| Shade::new(shade.rgb.towards(ground, part), None, None)));
    Ok(palette)
}

/// A slot as given in the file.
#[derive(Debug)]
struct Entry(Shade);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// A table, if the hex color alone is not enough.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct PaletteTable {
            hex: Rgb,
            xterm: Option<u8>,
            #[serde(default, deserialize_with = "ansi")]
            ansi: Option<u8>,
        }

        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a color such as \"#e69f00\" or { hex = \"#e69f00\", xterm = 178, ansi = \"yellow\" }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Entry, E> {
                Ok(Entry(Shade::new(text.to_owned().try_into().map_err(E::custom)?, None, None)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
                let table = PaletteTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Entry(Shade::new(table.hex, table.xterm, table.ansi)))
            }
        }
        from.deserialize_any(Either)
    }
}

/// Position in [`ANSI`].
fn ansi<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let position = (0..).zip(ANSI).find(|(_, (name, ..))| *name == text).map(|(at, _)| at);
    let names = || ANSI.map(|(name, ..)| name).join(", ");
    position.map(Some).ok_or_else(|| de::Error::custom(format!("`{text}` is not one of {}", names())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_built_in_themes_are_whole() {
        for (name, text) in THEME_FILES {
            let file: File = toml::from_str(text).unwrap();
            assert!(file.base.is_none(), "{name}");
            assert!(file.entries().iter().all(Option::is_some), "{name}: a slot is missing");
            assert_eq!(Palette::built_in(name), Some(Palette::parse(text).unwrap()), "{name}");
        }
        assert_eq!(Palette::built_in("pink"), None);
        assert_eq!(Palette::built_in("dark"), Some(Palette::dark()));
        assert_eq!(Palette::built_in("light"), Some(Palette::light()));
    }

    #[test]
    fn what_a_file_leaves_out_is_the_nearest_or_the_bases() {
        let palette =
            Palette::parse("base = \"light\"\norange = \"#e69f00\"\nsky = { hex = \"#0000f0\", xterm = 3 }").unwrap();
        let orange = palette.shade(ColorSlot::Orange);
        assert_eq!(orange.at(Depth::TrueColor), Color::Rgb(0xE6, 0x9F, 0));
        assert_eq!(orange.at(Depth::Indexed256), Color::Indexed(178));
        let sky = palette.shade(ColorSlot::Sky);
        assert_eq!((sky.at(Depth::Indexed256), sky.at(Depth::Ansi16)), (Color::Indexed(3), Color::Blue));
        assert_eq!(sky.at(Depth::None), Color::Reset);
        assert_eq!(palette.rgb(ColorSlot::Text), Palette::light().rgb(ColorSlot::Text));
        assert_eq!(Palette::parse(""), Ok(Palette::dark()));
    }

    #[test]
    fn refusals_say_where() {
        for (text, expected) in [
            ("\n pink = \"#ffffff\"", "line 2, column 2: unknown key `pink`, expected one of"),
            ("sky = \"#fff\"", "line 1, column 7: `#fff` is not a color, expected `#rrggbb`"),
            ("é = 1", "line 1, column 1: "),
            ("sky = 7", "line 1, column 7: invalid type: integer `7`, expected a color such as"),
            ("sky = { hex = \"#000000\", ansi = \"pink\" }", "line 1, column 33: `pink` is not one of black, red,"),
            ("sky = { hex = \"#000000\", xterm = 256 }", "line 1, column 34: "),
            ("sky = { xterm = 6 }", "line 1, column 7: missing field `hex`"),
            ("sky = { hex = \"#000000\", more = 1 }", "line 1, column 26: unknown key `more`"),
            (
                "dim = \"#000000\"\nbase = \"pink\"",
                "line 2, column 8: unknown theme `pink`, expected one of dark, light",
            ),
        ] {
            let why = Palette::parse(text).unwrap_err().to_string();
            assert!(why.starts_with(expected), "{text}: {why}");
        }
        let hostile = Palette::parse("sky = \"\\u001b[31m\\n\"").unwrap_err().to_string();
        assert!(!hostile.chars().any(char::is_control), "{hostile}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(
            text in "\\PC*|((base|sky|dim|x) = (\"#[0-9a-fx]{5,7}\"|\\{ hex = \"#[0-9a-f]{6}\", xterm = [0-9]{1,4} \\}|\"dark\")\n)*",
        ) {
            if let Err(why) = Palette::parse(&text) {
                let why = why.to_string();
                prop_assert!(why.lines().count() == 1 && why.len() < 1500, "{why}");
            }
        }
    }
}
