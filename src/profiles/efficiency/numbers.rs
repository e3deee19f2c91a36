//! Types of elements: how long they are, and in which format the math is done.

use serde::Deserialize;

use super::FACTS;
use crate::text::named_enum;

named_enum! {
    /// The format in which numbers are multiplied: GPUs have a peak for each.
    pub enum NumberFormat {
        /// IEEE double precision.
        F64 = "f64",
        /// IEEE single precision.
        F32 = "f32",
        /// Single precision whose products are rounded to 10 bits. No type of a tensor: a kernel chooses it.
        Tf32 = "tf32",
        /// IEEE half precision.
        F16 = "f16",
        /// Brain floating point.
        Bf16 = "bf16",
        /// 8 bits, of any kind.
        F8 = "f8",
        /// 4 bits.
        F4 = "f4",
        /// Integers of 8 bits.
        I8 = "i8",
        /// Wider integers, Booleans and complex numbers, for which no peak is known.
        Other = "other",
    }
}

/// The type of a tensor's elements.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Element {
    names: Vec<String>,
    numbers: Vec<u8>,
    /// As a person reads it: `bf16`.
    pub word: String,
    pub format: NumberFormat,
    pub bytes: f64,
}

impl Element {
    /// The type with this C++ name; `None` for scalars, lists, and what was not recorded.
    pub fn named(name: &str) -> Option<&'static Self> {
        FACTS.elements.iter().find(|element| element.names.iter().any(|known| known == name))
    }

    /// The type with this number in `c10::ScalarType`, as text.
    pub fn numbered(number: &str) -> Option<&'static Self> {
        let number: u8 = number.parse().ok()?;
        FACTS.elements.iter().find(|element| element.numbers.contains(&number))
    }

    /// How many numbers an element holds.
    pub fn packed(&self) -> f64 {
        if self.format == NumberFormat::F4 { 2.0 } else { 1.0 }
    }

    /// Order of type promotion: floating point above integers, and then the longer.
    pub fn rank(&self) -> (bool, u64) {
        let is_float =
            self.format != NumberFormat::I8 && (self.format != NumberFormat::Other || self.word.starts_with('c'));
        (is_float, self.bytes as u64)
    }
}
