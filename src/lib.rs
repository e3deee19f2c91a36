//! trainmon attaches to a running training job from outside and says what holds it back.
//!
//! Data flows one way: `sources` read → `sample` (raw counters of one tick) → `rates` (a frame) → `history` (a ring of
//! frames) → `diagnosis` (verdict) → `outputs` and `tui`. `collector` decides when to read what, `commands` wire it all.

pub mod diagnosis;
pub mod history;
pub mod rates;
pub mod sample;
pub mod text;
pub mod tui;
