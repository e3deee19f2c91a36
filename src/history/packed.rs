//! A moment as bytes, by its serde derives: values one after the other, without names. That is a small part of the bytes
//! that JSON takes, and it keeps numbers that JSON cannot say (NaN, infinities).
//!
//! The bytes never leave the memory of the program that made them, so nothing in them says which version that was.
//! Integers are LEB128, signed ones folded; floats three bytes (see [`FLOAT`]), little end first, apart from the rest;
//! text, lists and maps begin with their length; an option with 0 or 1; an enum with the number of its variant; a struct with the
//! number of its fields that were left out (`skip_serializing_if`), then their positions.

mod read;
mod write;

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Serialize, ser};

use read::Unpacker;
use write::Packer;

/// Why a value cannot be packed, or bytes be unpacked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PackError {
    /// From a derive.
    #[error("{0}")]
    Message(String),
    /// There is no place for it in these bytes.
    #[error("{0} cannot be packed")]
    Unsupported(&'static str),
    /// The bytes end too early, or hold what no packed value does.
    #[error("the packed bytes are damaged")]
    Damaged,
}

impl ser::Error for PackError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Message(message.to_string())
    }
}

impl de::Error for PackError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Message(message.to_string())
    }
}

/// Bytes of a float: sign, exponent and 15 bits of the mantissa of an f32. What is looked at later is good to one part in
/// fifty thousand, and the digits beyond that are noise, which does not compress. What an f32 cannot hold becomes
/// infinite.
const FLOAT: usize = 3;

/// Name of [`Exact`] in its derive.
const EXACT: &str = "Exact";

/// A value whose f64 are kept to the last bit, among all else: those of a verdict are few, rounded to decimals that
/// people see in files, and the same from moment to moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Exact<T>(pub T);

/// A float as it is packed.
fn short(v: f32) -> [u8; FLOAT] {
    let bits = v.to_bits();
    // Rounded to nearest; a mantissa that overflows carries into the exponent, as it should. Of a NaN any bit will do.
    let rounded = if v.is_nan() { bits | 0x40_0000 } else { bits.saturating_add(0x80) };
    let [_, low, middle, high] = rounded.to_le_bytes();
    [low, middle, high]
}

/// A float from its packed bytes.
fn long([low, middle, high]: [u8; FLOAT]) -> f32 {
    f32::from_le_bytes([0, low, middle, high])
}

/// Values packed one after the other. Floats lie apart from all else: what is left is nearly the same from moment to
/// moment, and compresses to next to nothing where no floats stand between.
#[derive(Debug, Clone, Default)]
pub(super) struct Packed {
    /// All but floats.
    pub bytes: Vec<u8>,
    /// Floats.
    pub floats: Vec<u8>,
}

/// Adds `value` to `to`. After an error that holds a part of it.
///
/// # Errors
/// A list or map of which the length is not known beforehand; none of ours is.
pub(super) fn pack(to: &mut Packed, value: &impl Serialize) -> Result<(), PackError> {
    value.serialize(&mut Packer { bytes: &mut to.bytes, floats: &mut to.floats, exact: false })
}

/// The value that `bytes` and `floats` hold.
///
/// # Errors
/// Bytes that [`pack`] did not make of this type.
pub(super) fn unpack<T: DeserializeOwned>(bytes: &[u8], floats: &[u8]) -> Result<T, PackError> {
    let mut unpacker = Unpacker { bytes, floats, exact: false };
    let value = T::deserialize(&mut unpacker)?;
    if unpacker.bytes.is_empty() && unpacker.floats.is_empty() { Ok(value) } else { Err(PackError::Damaged) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::diagnosis::verdict::{Rank, Verdict};
    use crate::rates::Frame;
    use crate::rates::stacks::{Activity, ProcessStacks};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Plain,
        One(i64),
        Two(u8, String),
        Named { x: Option<f32>, y: char },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Holder {
        flag: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kinds: Vec<Kind>,
        map: BTreeMap<String, (i8, u64)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<f64>,
        unit: (),
    }

    fn holder() -> impl Strategy<Value = Holder> {
        let kind = prop_oneof![
            Just(Kind::Plain),
            any::<i64>().prop_map(Kind::One),
            any::<(u8, String)>().prop_map(|(a, b)| Kind::Two(a, b)),
            any::<(Option<f32>, char)>().prop_map(|(x, y)| Kind::Named { x, y }),
        ];
        let map = prop::collection::btree_map(".*", any::<(i8, u64)>(), 0..4);
        (any::<bool>(), prop::collection::vec(kind, 0..4), map, any::<Option<f64>>())
            .prop_map(|(flag, kinds, map, last)| Holder { flag, kinds, map, last, unit: () })
    }

    /// To one part in fifty thousand, down to where an f32 has fewer bits.
    fn near(a: f32, b: f32) -> bool {
        let both = |test: fn(f32) -> bool| test(a) && test(b);
        let close = (a - b).abs() <= a.abs() * 2e-5 || both(|v| v.abs() < 1e-35);
        // The largest of all are rounded up to infinity.
        close || both(f32::is_nan) || (b.is_infinite() && a.abs() > 3.39e38 && a.signum() == b.signum())
    }

    fn there_and_back<T: Serialize + DeserializeOwned>(value: &T) -> T {
        let mut packed = Packed::default();
        pack(&mut packed, value).unwrap();
        unpack(&packed.bytes, &packed.floats).unwrap()
    }

    #[test]
    fn what_is_exact_comes_back_to_the_last_bit() {
        let value = (0.93, Exact((0.93, Some(33.795), 1e300)), 0.93);
        let (before, Exact(inside), after) = there_and_back(&value);
        assert_eq!(inside, (0.93, Some(33.795), 1e300));
        assert!(before != 0.93 && before == after, "{before} {after}");
    }

    proptest! {
        #[test]
        fn every_value_comes_back(value in holder()) {
            let mut back = there_and_back(&value);
            let (was, is) = (value.last, back.last);
            prop_assert_eq!(was.is_some(), is.is_some());
            if let (Some(was), Some(is)) = (was, is) {
                prop_assert!(near(was as f32, is as f32), "{was} {is}");
            }
            for (was, is) in value.kinds.iter().zip(&back.kinds) {
                if let (Kind::Named { x: Some(was), .. }, Kind::Named { x: Some(is), .. }) = (was, is) {
                    prop_assert!(near(*was, *is), "{was} {is}");
                }
            }
            let exact = |holder: &mut Holder| {
                holder.last = None;
                for kind in &mut holder.kinds {
                    if let Kind::Named { x, .. } = kind {
                        *x = x.map(|_| 0.0);
                    }
                }
            };
            let mut value = value;
            exact(&mut back);
            exact(&mut value);
            prop_assert_eq!(back, value);
        }

        #[test]
        fn damage_never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..300), floats in prop::collection::vec(any::<u8>(), 0..100),
            at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let _ = unpack::<Frame>(&bytes, &floats);
            let _ = unpack::<Verdict>(&bytes, &floats);
            let mut packed = Packed::default();
            pack(&mut packed, &(Frame::default(), Verdict::default())).unwrap();
            let at = at.index(packed.bytes.len());
            packed.bytes[at] = byte;
            let _ = unpack::<(Frame, Verdict)>(&packed.bytes, &packed.floats);
            packed.bytes.truncate(at);
            prop_assert!(unpack::<(Frame, Verdict)>(&packed.bytes, &packed.floats).is_err());
        }
    }

    #[test]
    fn numbers_that_json_cannot_say_come_back() {
        for value in [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, 100.0, 0.25] {
            let frame = there_and_back(&Frame { seconds: value, own_cpu_pct: Some(value), ..Frame::default() });
            assert_eq!(frame.seconds.to_bits(), value.to_bits());
            assert_eq!(frame.own_cpu_pct.map(f64::to_bits), Some(value.to_bits()));
        }
        assert!(there_and_back(&Frame { seconds: f64::NAN, ..Frame::default() }).seconds.is_nan());
        assert_eq!(there_and_back(&Frame { seconds: f64::MAX, ..Frame::default() }).seconds, f64::INFINITY);
    }

    #[test]
    fn what_a_derive_leaves_out_and_what_it_converts_come_back() {
        let alone = Verdict { pid: 7, ..Verdict::default() };
        assert_eq!(there_and_back(&alone), alone);
        let ranks = Verdict { ranks: vec![Rank { pid: 3, ..Rank::default() }; 2], ..alone };
        assert_eq!(there_and_back(&ranks), ranks);
        let mut stacks = ProcessStacks::default();
        stacks.main.add(Activity::Decode, 9);
        assert_eq!(there_and_back(&stacks), stacks);
    }
}
