//! Parts that make up pages and popups. They know the current job and how to draw, and nothing about the app.

pub mod bars;
pub mod card;
pub mod chart;
mod drawn;
mod ghost_line;
pub mod loop_area;
pub mod menu;
pub mod panel;
pub mod pipeline;
pub mod popup;
pub mod prompt;
mod scene;
mod scroll;
pub mod table;
mod text;
pub mod tile;

pub use chart::{ChartLine, Top};
pub use drawn::{Drawn, Extent, Hit};
pub use menu::{Confirm, Menu, MenuItem, MenuOutcome};
pub use popup::PopupBox;
pub use prompt::{Prompt, PromptKind, Typed};
pub use scene::Scene;
pub use scroll::{Scroll, beside, scrolled};
pub use text::{Piece, Text, cells, count, piece_lines, side_by_side, tabs, write_lines, write_up};
