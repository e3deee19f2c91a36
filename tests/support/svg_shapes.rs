//! Characters that are pictures: blocks and braille (Unicode's block elements and braille patterns) and light
//! box-drawing lines, as rectangles and dots inside a cell of 8×16 units.

/// x, y, width, height.
pub(super) type Rectangle = (u32, u32, u32, u32);

/// The shape of a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Parts of the cell.
    Rectangles(Vec<Rectangle>),
    /// The whole cell in stripes, with so many quarters of it filled: a texture, not only another color.
    Shade(u32),
    /// The dots of a braille character, by its number in the block.
    Dots(u32),
}

/// Quarters of a cell with their bits in [`QUADRANTS`].
const QUARTERS: [(u8, Rectangle); 4] = [(1, (0, 0, 4, 8)), (2, (4, 0, 4, 8)), (4, (0, 8, 4, 8)), (8, (4, 8, 4, 8))];
/// The filled quarters, from U+2596 on.
const QUADRANTS: [u8; 10] = [4, 8, 1, 1 | 4 | 8, 1 | 8, 1 | 2 | 4, 1 | 2 | 8, 2, 2 | 4, 2 | 4 | 8];

/// Arms of a line, one unit thick, that meet in the middle, with their bits in [`LINES_OF_BOXES`]: left, right, up,
/// down.
const ARMS: [(u8, Rectangle); 4] = [(1, (0, 8, 4, 1)), (2, (4, 8, 4, 1)), (4, (4, 0, 1, 9)), (8, (4, 8, 1, 8))];
/// The arms of each character. Round corners are drawn as square ones.
const LINES_OF_BOXES: [(&str, u8); 11] = [
    ("─", 1 | 2),
    ("│", 4 | 8),
    ("┌╭", 2 | 8),
    ("┐╮", 1 | 8),
    ("└╰", 2 | 4),
    ("┘╯", 1 | 4),
    ("├", 2 | 4 | 8),
    ("┤", 1 | 4 | 8),
    ("┬", 1 | 2 | 8),
    ("┴", 1 | 2 | 4),
    ("┼", 1 | 2 | 4 | 8),
];

impl Shape {
    /// The shape of a cell's character, `None` if it is drawn as text.
    pub(super) fn from_symbol(symbol: &str) -> Option<Self> {
        let mut chars = symbol.chars();
        let (c, None) = (chars.next()?, chars.next()) else { return None };
        let code = u32::from(c);
        let parts = |of: [(u8, Rectangle); 4], bits: u8| {
            of.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, rectangle)| rectangle).collect()
        };
        Some(match code {
            0x2591..=0x2593 => Self::Shade(code - 0x2590),
            0x2800..=0x28FF => Self::Dots(code - 0x2800),
            _ => Self::Rectangles(match code {
                0x2580 => vec![(0, 0, 8, 8)],
                // Lower eighths, up to the full block.
                0x2581..=0x2588 => vec![(0, (0x2588 - code) * 2, 8, (code - 0x2580) * 2)],
                // Left seven eighths down to one.
                0x2589..=0x258F => vec![(0, 0, 0x2590 - code, 16)],
                0x2590 => vec![(4, 0, 4, 16)],
                0x2594 => vec![(0, 0, 8, 2)],
                0x2595 => vec![(7, 0, 1, 16)],
                0x2596..=0x259F => parts(QUARTERS, *QUADRANTS.get(code as usize - 0x2596)?),
                _ => parts(ARMS, LINES_OF_BOXES.iter().find(|(characters, _)| characters.contains(c))?.1),
            }),
        })
    }
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
        match Shape::from_symbol(&c.to_string())? {
            Shape::Rectangles(all) => Some(all.into_iter().map(|(_, _, w, h)| w * h).sum()),
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
        assert_eq!(Shape::from_symbol("▒"), Some(Shape::Shade(2)));
    }

    #[test]
    fn nothing_leaves_its_cell() {
        for c in ('\u{2500}'..='\u{259F}').chain('\u{2800}'..='\u{28FF}') {
            if let Some(Shape::Rectangles(all)) = Shape::from_symbol(&c.to_string()) {
                assert!(all.iter().all(|(x, y, w, h)| x + w <= 8 && y + h <= 16 && w * h > 0), "{c}");
            }
        }
        for text in ["", "a", "██", "═", "日"] {
            assert_eq!(Shape::from_symbol(text), None, "{text}");
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
