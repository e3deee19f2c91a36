//! (previous, current) sample → frame of rates. The only subtraction of counters in the program.

pub mod frame;

pub use frame::Frame;
