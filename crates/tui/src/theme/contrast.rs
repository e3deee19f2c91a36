//! Tests of the built-in themes: whether they can be read, also by people with color blindness.

use ratatui::style::Color;

use super::color::{Rgb, distance, oklab};
use super::*;

/// Complete loss of one kind of cone, on linear RGB: Machado, Oliveira and Fernandes (2009), table 1, severity 1.0.
const SIGHTS: [(&str, [[f64; 3]; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    ),
    (
        "deuteranopia",
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ),
    (
        "tritanopia",
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ),
];

const HUES: [ColorSlot; 8] = [
    ColorSlot::Orange,
    ColorSlot::Sky,
    ColorSlot::Green,
    ColorSlot::Yellow,
    ColorSlot::Blue,
    ColorSlot::Vermillion,
    ColorSlot::Purple,
    ColorSlot::Grey,
];

struct Expected {
    name: &'static str,
    grounds: &'static [Rgb],
    /// Minimum contrast of any text.
    contrast: f64,
    /// Minimum distance in Oklab of two colors of one chart, for each kind of color vision. About 0.02 is just
    /// noticeable side by side. Colors dark enough to be read on white leave little room, especially among xterm's.
    true_color: f64,
    indexed: f64,
}

const THEMES: [Expected; 3] = [
    Expected {
        name: "dark",
        grounds: &[Rgb::BLACK, Rgb(0x1E, 0x1E, 0x1E)],
        contrast: 4.5,
        true_color: 0.045,
        indexed: 0.05,
    },
    Expected {
        name: "light",
        grounds: &[Rgb::WHITE, Rgb(0xFD, 0xF6, 0xE3)],
        contrast: 4.5,
        true_color: 0.045,
        indexed: 0.02,
    },
    Expected { name: "high-contrast", grounds: &[Rgb::BLACK], contrast: 7.0, true_color: 0.07, indexed: 0.07 },
];

/// Every built-in theme at both depths with known colors.
fn each(mut check: impl FnMut(&Expected, Theme)) {
    assert!(THEMES.iter().map(|theme| theme.name).eq(Palette::names()));
    for expected in &THEMES {
        for depth in [Depth::TrueColor, Depth::Indexed256] {
            check(expected, Theme { depth, ascii: false, palette: Palette::built_in(expected.name).unwrap() });
        }
    }
}

fn rgb(color: Option<Color>) -> Rgb {
    Rgb::from_color(color.unwrap()).unwrap()
}

fn seen(color: Rgb, sight: &[[f64; 3]; 3]) -> [f64; 3] {
    let light = color.linear();
    oklab(sight.map(|row| row.iter().zip(light).map(|(weight, part)| weight * part).sum::<f64>().clamp(0.0, 1.0)))
}

#[test]
fn every_text_can_be_read_on_the_backgrounds_it_is_made_for() {
    each(|expected, theme| {
        let text = [ColorSlot::Text, ColorSlot::Dim, ColorSlot::Warning, ColorSlot::Cursor];
        for slot in HUES.into_iter().chain(text) {
            for ground in expected.grounds.iter().copied().chain([theme.palette.rgb(ColorSlot::Background)]) {
                let contrast = rgb(theme.fg(slot).fg).contrast(ground);
                let (name, least) = (expected.name, expected.contrast);
                assert!(contrast >= least, "{name} {:?} {slot:?} on {ground:?}: {contrast:.2}", theme.depth);
            }
        }
    });
}

#[test]
fn text_on_bars_and_selected_rows_can_be_read() {
    each(|expected, theme| {
        for style in [theme.bar(), theme.selected()] {
            let contrast = rgb(style.fg).contrast(rgb(style.bg));
            assert!(contrast >= expected.contrast, "{} {:?} {style:?}: {contrast:.2}", expected.name, theme.depth);
        }
    });
}

#[test]
fn colors_of_one_chart_differ_for_every_kind_of_sight() {
    each(|expected, theme| {
        let least = if theme.depth == Depth::TrueColor { expected.true_color } else { expected.indexed };
        let groups: [Vec<Option<Color>>; 4] = [
            Class::ALL.map(|class| theme.series(class).fg).to_vec(),
            LoopActivity::ALL.map(|a| theme.style(a.look()).fg).to_vec(),
            Look::STAGES.map(|stage| theme.style(stage).fg).to_vec(),
            [Class::Gpu, Class::Cpu, Class::Io, Class::DataLoader].map(|class| theme.series(class).fg).to_vec(),
        ];
        for colors in groups {
            for (at, one) in colors.iter().enumerate() {
                for other in colors.iter().skip(at + 1) {
                    for (sight, matrix) in &SIGHTS {
                        let d = distance(seen(rgb(*one), matrix), seen(rgb(*other), matrix));
                        let (name, depth) = (expected.name, theme.depth);
                        assert!(d >= least, "{name} {depth:?} {sight}: {one:?} and {other:?}: {d:.3}");
                    }
                }
            }
        }
    });
}

#[test]
fn the_sixteen_colors_differ_too() {
    for name in Palette::names() {
        let theme = Theme { depth: Depth::Ansi16, ascii: true, palette: Palette::built_in(name).unwrap() };
        for colors in [
            Class::ALL.map(|class| theme.series(class).fg.unwrap()).to_vec(),
            LoopActivity::ALL.map(|a| theme.style(a.look()).fg.unwrap()).to_vec(),
            Look::STAGES.map(|stage| theme.style(stage).fg.unwrap()).to_vec(),
        ] {
            for (at, one) in colors.iter().enumerate() {
                assert!(!matches!(one, Color::Indexed(_) | Color::Rgb(..)), "{name}: {one:?}");
                assert!(!colors.iter().skip(at + 1).any(|other| other == one), "{name}: {one:?} twice");
            }
        }
    }
}

#[test]
fn words_and_textures_say_what_colors_say() {
    let mut names = Class::ALL.map(Class::name).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Class::ALL.len());
    for ascii in [false, true] {
        let theme = Theme::plain(ascii);
        let mut parts = LoopActivity::ALL.map(|a| theme.glyph(a.look())).to_vec();
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts.len(), 5);
        let mut stages = Look::STAGES.map(|stage| theme.glyph(stage)).to_vec();
        stages.sort_unstable();
        stages.dedup();
        assert_eq!(stages.len(), 4);
    }
}
