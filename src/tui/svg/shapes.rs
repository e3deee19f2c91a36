//! Characters that are pictures: blocks and braille (Unicode's block elements and braille patterns) and the light lines
//! of boxes, as rectangles and dots inside a cell of 8×16 units.

/// What a character looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// x, y, width, height; at most one for each quarter of a cell, or each arm of a line.
    Rectangles([Option<(u32, u32, u32, u32)>; 4]),
    /// The whole cell in stripes, so many quarters of it filled: a texture, not only another colour.
    Shade(u32),
    /// The dots of a braille character, by its number in the block.
    Dots(u32),
}

impl Shape {
    /// The shape of a cell's text, `None` where it is text.
    pub(super) fn of(symbol: &str) -> Option<Self> {
        let mut chars = symbol.chars();
        let (c, None) = (chars.next()?, chars.next()) else { return None };
        let code = u32::from(c);
        let one = |rectangle| Some(Self::Rectangles([Some(rectangle), None, None, None]));
        match code {
            0x2580 => one((0, 0, 8, 8)),
            // Lower eighths, up to the full block.
            0x2581..=0x2588 => {
                let height = (code - 0x2580) * 2;
                one((0, 16 - height, 8, height))
            }
            // Left seven eighths down to one.
            0x2589..=0x258F => one((0, 0, 0x2590 - code, 16)),
            0x2590 => one((4, 0, 4, 16)),
            0x2591..=0x2593 => Some(Self::Shade(code - 0x2590)),
            0x2594 => one((0, 0, 8, 2)),
            0x2595 => one((7, 0, 1, 16)),
            0x2596..=0x259F => Some(quadrants(code)),
            0x2800..=0x28FF => Some(Self::Dots(code - 0x2800)),
            _ => arms(c).map(lines),
        }
    }
}

/// Quarters: upper left 1, upper right 2, lower left 4, lower right 8.
fn quadrants(code: u32) -> Shape {
    const FILLED: [u8; 10] = [4, 8, 1, 1 | 4 | 8, 1 | 8, 1 | 2 | 4, 1 | 2 | 8, 2, 2 | 4, 2 | 4 | 8];
    let filled = FILLED.get(code.saturating_sub(0x2596) as usize).copied().unwrap_or(0);
    let quarter = |bit: u8, x, y| (filled & bit != 0).then_some((x, y, 4, 8));
    Shape::Rectangles([quarter(1, 0, 0), quarter(2, 4, 0), quarter(4, 0, 8), quarter(8, 4, 8)])
}

/// Which arms a line has: left 1, right 2, up 4, down 8. Round corners are drawn as square ones.
fn arms(c: char) -> Option<u8> {
    Some(match c {
        '─' => 3,
        '│' => 12,
        '┌' | '╭' => 2 | 8,
        '┐' | '╮' => 1 | 8,
        '└' | '╰' => 2 | 4,
        '┘' | '╯' => 1 | 4,
        '├' => 2 | 4 | 8,
        '┤' => 1 | 4 | 8,
        '┬' => 1 | 2 | 8,
        '┴' => 1 | 2 | 4,
        '┼' => 15,
        _ => return None,
    })
}

/// Arms of one unit, meeting in the middle.
fn lines(arms: u8) -> Shape {
    let arm = |bit: u8, rectangle| (arms & bit != 0).then_some(rectangle);
    Shape::Rectangles([arm(1, (0, 8, 4, 1)), arm(2, (4, 8, 4, 1)), arm(4, (4, 0, 1, 9)), arm(8, (4, 8, 1, 8))])
}

/// Whether a braille character has the dot in column `side` (0–1) and row `line` (0–3). Unicode numbers the dots 1 to 6
/// down the columns and added 7 and 8 below.
pub(super) fn has_dot(bits: u32, side: u32, line: u32) -> bool {
    let bit = if line == 3 { 6 + side } else { side * 3 + line };
    bits >> bit & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Area of a shape of rectangles, in units.
    fn filled(c: char) -> Option<u32> {
        match Shape::of(&c.to_string())? {
            Shape::Rectangles(all) => Some(all.into_iter().flatten().map(|(_, _, w, h)| w * h).sum()),
            Shape::Shade(_) | Shape::Dots(_) => None,
        }
    }

    #[test]
    fn blocks_fill_what_their_names_say() {
        for (c, eighths) in [
            ('█', 8),
            ('▀', 4),
            ('▄', 4),
            ('▁', 1),
            ('▇', 7),
            ('▏', 1),
            ('▌', 4),
            ('▉', 7),
            ('▐', 4),
            ('▔', 1),
            ('▕', 1),
            ('▖', 2),
            ('▙', 6),
            ('▚', 4),
            ('▟', 6),
        ] {
            assert_eq!(filled(c), Some(eighths * 16), "{c}");
        }
        assert_eq!(Shape::of("▒"), Some(Shape::Shade(2)));
    }

    #[test]
    fn nothing_leaves_its_cell() {
        for c in ('\u{2500}'..='\u{259F}').chain('\u{2800}'..='\u{28FF}') {
            if let Some(Shape::Rectangles(all)) = Shape::of(&c.to_string()) {
                assert!(all.iter().flatten().all(|(x, y, w, h)| x + w <= 8 && y + h <= 16 && w * h > 0), "{c}");
            }
        }
        for text in ["", "a", "██", "═", "日"] {
            assert_eq!(Shape::of(text), None, "{text}");
        }
    }

    #[test]
    fn braille_dots_stand_where_unicode_says() {
        let dots = |c: char| {
            let bits = u32::from(c) - 0x2800;
            (0..4).flat_map(|line| (0..2).map(move |side| has_dot(bits, side, line))).collect::<Vec<_>>()
        };
        assert_eq!(dots('⣿'), [true; 8]);
        // Dots 1 and 8: upper left, lower right.
        assert_eq!(dots('⢁'), [true, false, false, false, false, false, false, true]);
        // Dots 3 and 4: left of the third row, right of the first.
        assert_eq!(dots('⠌'), [false, true, false, false, true, false, false, false]);
    }
}
