//! Parts that pages and popups are drawn with. They know the job that is shown and how to draw, and nothing of the app.

pub mod banner;
pub mod bars;
pub mod chart;
pub mod drawn;
pub mod menu;
pub mod popup;
pub mod prompt;
pub mod scene;
pub mod scroll;
pub mod table;
pub mod text;
