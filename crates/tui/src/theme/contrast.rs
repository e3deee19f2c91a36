//! Tests of the built-in themes: whether they can be read, also by people with color blindness.

use ratatui::style::Color;

use super::color::Rgb;
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

const WHITE: Rgb = Rgb(255, 255, 255);

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
        grounds: &[WHITE, Rgb(0xFD, 0xF6, 0xE3)],
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
    match color {
        Some(Color::Rgb(red, green, blue)) => Rgb(red, green, blue),
        Some(Color::Indexed(index)) => Rgb::indexed(index),
        other => panic!("{other:?} has no numbers"),
    }
}

/// Red, green and blue as amounts of light, 0–1 (IEC 61966-2-1).
fn linear(color: Rgb) -> [f64; 3] {
    [color.0, color.1, color.2].map(|channel| {
        let v = f64::from(channel) / 255.0;
        if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    })
}

/// Contrast of two colors, 1–21 (WCAG 2.1, 1.4.3).
fn contrast(one: Rgb, other: Rgb) -> f64 {
    let luminance = |color: Rgb| {
        let [r, g, b] = linear(color);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (a, b) = (luminance(one) + 0.05, luminance(other) + 0.05);
    a.max(b) / a.min(b)
}

/// Lightness and two hue axes of a color given as light, spaced as the eye sees them: Björn Ottosson's Oklab (2020).
fn oklab([r, g, b]: [f64; 3]) -> [f64; 3] {
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
fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn seen(color: Rgb, sight: &[[f64; 3]; 3]) -> [f64; 3] {
    let light = linear(color);
    oklab(sight.map(|row| row.iter().zip(light).map(|(weight, part)| weight * part).sum::<f64>().clamp(0.0, 1.0)))
}

#[test]
fn every_text_can_be_read_on_the_backgrounds_it_is_made_for() {
    each(|expected, theme| {
        let text = [ColorSlot::Text, ColorSlot::Dim, ColorSlot::Warning, ColorSlot::Cursor];
        for slot in HUES.into_iter().chain(text) {
            for ground in expected.grounds.iter().copied().chain([theme.palette.rgb(ColorSlot::Background)]) {
                let reached = contrast(rgb(theme.fg(slot).fg), ground);
                let (name, least) = (expected.name, expected.contrast);
                assert!(reached >= least, "{name} {:?} {slot:?} on {ground:?}: {reached:.2}", theme.depth);
            }
        }
    });
}

#[test]
fn text_on_bars_and_selected_rows_can_be_read() {
    each(|expected, theme| {
        for style in [theme.bar(), theme.selected()] {
            let reached = contrast(rgb(style.fg), rgb(style.bg));
            assert!(reached >= expected.contrast, "{} {:?} {style:?}: {reached:.2}", expected.name, theme.depth);
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

#[test]
fn contrast_is_wcags() {
    assert!((contrast(Rgb::BLACK, WHITE) - 21.0).abs() < 1e-9);
    assert!((contrast(WHITE, WHITE) - 1.0).abs() < 1e-9);
    // The example of WebAIM's checker: #767676 on white is the lightest gray that passes AA.
    assert!((contrast(Rgb(0x76, 0x76, 0x76), WHITE) - 4.54).abs() < 0.01);
}
