//! Types of elements: how long they are, and in which format the math is done.

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
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Element {
    /// As a person reads it: `bf16`.
    pub word: &'static str,
    pub number: NumberFormat,
    pub bytes: f64,
}

/// Elements by the C++ names that profilers record, and by their number in `c10::ScalarType`, which concrete inputs
/// hold.
const ELEMENTS: &[(&[&str], &[u8], Element)] = &[
    (&["float"], &[6], element("f32", NumberFormat::F32, 4.0)),
    (&["double"], &[7], element("f64", NumberFormat::F64, 8.0)),
    (&["c10::Half"], &[5], element("f16", NumberFormat::F16, 2.0)),
    (&["c10::BFloat16"], &[15], element("bf16", NumberFormat::Bf16, 2.0)),
    (
        &[
            "c10::Float8_e4m3fn",
            "c10::Float8_e5m2",
            "c10::Float8_e4m3fnuz",
            "c10::Float8_e5m2fnuz",
            "c10::Float8_e8m0fnu",
        ],
        &[23, 24, 25, 26, 44],
        element("f8", NumberFormat::F8, 1.0),
    ),
    // Two numbers in a byte, which is one element.
    (&["c10::Float4_e2m1fn_x2"], &[45], element("f4", NumberFormat::F4, 1.0)),
    (&["signed char"], &[1], element("i8", NumberFormat::I8, 1.0)),
    (&["unsigned char"], &[0], element("u8", NumberFormat::I8, 1.0)),
    (&["short", "short int"], &[2], element("i16", NumberFormat::Other, 2.0)),
    (&["unsigned short", "short unsigned int"], &[27], element("u16", NumberFormat::Other, 2.0)),
    (&["int"], &[3], element("i32", NumberFormat::Other, 4.0)),
    (&["unsigned int"], &[28], element("u32", NumberFormat::Other, 4.0)),
    (&["long", "long int", "long long", "long long int"], &[4], element("i64", NumberFormat::Other, 8.0)),
    (&["unsigned long", "long unsigned int"], &[29], element("u64", NumberFormat::Other, 8.0)),
    (&["bool"], &[11], element("bool", NumberFormat::Other, 1.0)),
    (&["c10::complex<c10::Half>"], &[8], element("c32", NumberFormat::Other, 4.0)),
    (&["c10::complex<float>"], &[9], element("c64", NumberFormat::Other, 8.0)),
    (&["c10::complex<double>"], &[10], element("c128", NumberFormat::Other, 16.0)),
];

const fn element(word: &'static str, number: NumberFormat, bytes: f64) -> Element {
    Element { word, number, bytes }
}

impl Element {
    pub const F32: Self = element("f32", NumberFormat::F32, 4.0);
    pub const BF16: Self = element("bf16", NumberFormat::Bf16, 2.0);
    pub const I32: Self = element("i32", NumberFormat::Other, 4.0);
    pub const BOOL: Self = element("bool", NumberFormat::Other, 1.0);

    /// The type with this C++ name; `None` for scalars, lists, and what was not recorded.
    pub fn named(name: &str) -> Option<Self> {
        ELEMENTS.iter().find(|(names, ..)| names.contains(&name)).map(|(.., element)| *element)
    }

    /// The type with this number in `c10::ScalarType`, as text.
    pub fn numbered(number: &str) -> Option<Self> {
        let number: u8 = number.parse().ok()?;
        ELEMENTS.iter().find(|(_, numbers, _)| numbers.contains(&number)).map(|(.., element)| *element)
    }

    /// How many numbers an element holds.
    pub fn packed(self) -> f64 {
        if self.number == NumberFormat::F4 { 2.0 } else { 1.0 }
    }

    /// Order of type promotion: floating point above integers, and then the longer.
    pub fn rank(self) -> (bool, u64) {
        let is_float =
            self.number != NumberFormat::I8 && (self.number != NumberFormat::Other || self.word.starts_with('c'));
        (is_float, self.bytes as u64)
    }
}
