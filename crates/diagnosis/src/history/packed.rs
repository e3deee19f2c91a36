//! A moment as bytes: MessagePack from its serde derives, with the frame's floats rounded.
//!
//! Rounded, because digits beyond one part in fifty thousand are noise, which does not compress. MessagePack, because
//! rmp writes floats one by one, so they can be rounded on the way without knowing the type.
//!
//! The bytes never leave the memory of the program that made them, so they carry no version.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Appends a moment to `to`: the floats of `rounded` are rounded, those of `exact` are not. `None` if one of them
/// cannot be packed; `to` then holds part of it.
///
/// `rounded` is packed without field names, so it must not leave any fields out (`skip_serializing_if`).
pub(super) fn pack(to: &mut Vec<u8>, rounded: &impl Serialize, exact: &impl Serialize) -> Option<()> {
    rmp_serde::encode::write_named(to, exact).ok()?;
    rmp_serde::encode::write(&mut Rounding { to, after: 0 }, rounded).ok()
}

/// The moment from which [`pack`] made these bytes; `None` for other bytes.
pub(super) fn unpack<R: DeserializeOwned, E: DeserializeOwned>(mut bytes: &[u8]) -> Option<(R, E)> {
    let exact = rmp_serde::from_read(&mut bytes).ok()?;
    let rounded = rmp_serde::from_read(&mut bytes).ok()?;
    bytes.is_empty().then_some((rounded, exact))
}

/// MessagePack's markers for floats.
const F32: u8 = 0xCA;
const F64: u8 = 0xCB;

/// Receives MessagePack piece by piece, as rmp writes it: a marker on its own, then its content. No other piece of
/// these lengths follows a byte that looks like a float's marker: a number is followed by a one-byte marker, and the
/// length of a text by a text of that many bytes.
struct Rounding<'a> {
    to: &'a mut Vec<u8>,
    /// The previous piece, if it was a single byte.
    after: u8,
}

impl Write for Rounding<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        match (self.after, piece) {
            (F32, &[a, b, c, d]) => self.to.extend_from_slice(&rounded(f32::from_be_bytes([a, b, c, d]))),
            (F64, &[a, b, c, d, e, f, g, h]) => {
                self.to.pop();
                self.to.push(F32);
                self.to.extend_from_slice(&rounded(f64::from_be_bytes([a, b, c, d, e, f, g, h]) as f32));
            }
            _ => self.to.extend_from_slice(piece),
        }
        self.after = if let [byte] = piece { *byte } else { 0 };
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A float without the last 8 bits of its mantissa. What exceeds an f32 has become infinite.
fn rounded(float: f32) -> [u8; 4] {
    let bits = float.to_bits();
    // Rounded to nearest; a mantissa that overflows carries into the exponent, as it should. For a NaN any bit will do.
    let nearest = if float.is_nan() { bits | 0x40_0000 } else { bits.saturating_add(0x80) };
    (nearest & !0xFF).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::diagnosis::verdict::{Rank, Verdict};
    use trainmon_profiles::account::{IdleRow, ProfileAccount};
    use trainmon_waits::Frame;
    use trainmon_waits::stacks::{Activity, CodePlace, ProcessStacks};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum PackedKind {
        Plain,
        One(i64),
        Two(u8, String),
        Named { x: Option<f32>, y: char },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Holder {
        flag: bool,
        kinds: Vec<PackedKind>,
        map: BTreeMap<String, (i8, u64)>,
        last: Option<f64>,
        unit: (),
    }

    fn holder() -> impl Strategy<Value = Holder> {
        let kind = prop_oneof![
            Just(PackedKind::Plain),
            any::<i64>().prop_map(PackedKind::One),
            any::<(u8, String)>().prop_map(|(a, b)| PackedKind::Two(a, b)),
            any::<(Option<f32>, char)>().prop_map(|(x, y)| PackedKind::Named { x, y }),
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
        let mut packed = Vec::new();
        pack(&mut packed, value, &()).unwrap();
        let (value, ()) = unpack(&packed).unwrap();
        value
    }

    #[test]
    fn what_is_exact_comes_back_to_the_last_bit() {
        let mut packed = Vec::new();
        pack(&mut packed, &(0.93, 0.5f32), &(0.93, Some(33.795), 1e300)).unwrap();
        let (rounded, exact): ((f64, f32), (f64, Option<f64>, f64)) = unpack(&packed).unwrap();
        assert_eq!(exact, (0.93, Some(33.795), 1e300));
        assert!(rounded.0 != 0.93 && near(rounded.0 as f32, 0.93) && rounded.1 == 0.5, "{rounded:?}");
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
                if let (PackedKind::Named { x: Some(was), .. }, PackedKind::Named { x: Some(is), .. }) = (was, is) {
                    prop_assert!(near(*was, *is), "{was} {is}");
                }
            }
            let exact = |holder: &mut Holder| {
                holder.last = None;
                for kind in &mut holder.kinds {
                    if let PackedKind::Named { x, .. } = kind {
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
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let _ = unpack::<Frame, Verdict>(&bytes);
            let mut packed = Vec::new();
            pack(&mut packed, &Frame::default(), &Verdict::default()).unwrap();
            let at = at.index(packed.len());
            packed[at] = byte;
            let _ = unpack::<Frame, Verdict>(&packed);
            packed.truncate(at);
            prop_assert!(unpack::<Frame, Verdict>(&packed).is_none());
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
    fn what_a_derive_leaves_out_comes_back_where_it_is_exact() {
        let exact = |verdict: &Verdict| {
            let mut packed = Vec::new();
            pack(&mut packed, &(), verdict).unwrap();
            unpack::<(), Verdict>(&packed).unwrap().1
        };
        let alone = Verdict { pid: 7, ..Verdict::default() };
        assert_eq!(exact(&alone), alone);
        let row = IdleRow { name: "sleep".into(), idle_ms: 0.1 + 0.2, ..IdleRow::default() };
        let account = ProfileAccount { window_ms: 1049.3, idle_at: vec![row], ..ProfileAccount::default() };
        let profiled = Verdict { profile: Some(account.into()), ..alone.clone() };
        assert_eq!(exact(&profiled), profiled);
        let ranks = Verdict { ranks: vec![Rank { pid: 3, ..Rank::default() }; 2], ..alone };
        assert_eq!(exact(&ranks), ranks);
    }

    #[test]
    fn what_a_derive_converts_comes_back() {
        let mut stacks = ProcessStacks::default();
        stacks.main.add(Activity::Decode, 9);
        assert_eq!(there_and_back(&stacks), stacks);
    }

    /// An entry in every list: none of their types leaves fields out.
    #[test]
    fn a_frame_of_empty_entries_comes_back() {
        let place = CodePlace {
            function: "step".into(),
            file: "train.py".into(),
            line: 9,
            text: None,
            activity: Activity::Forward,
            user: true,
            samples: 3,
            leaf: 2,
            blocked: 1,
        };
        let mut frame = Frame {
            ranks: vec![Default::default()],
            workers: vec![Default::default()],
            processes: vec![Default::default()],
            threads: vec![Default::default()],
            thread_roles: vec![Default::default()],
            other_processes: Some(Default::default()),
            gpus: vec![Default::default()],
            stacks: vec![ProcessStacks { places: vec![place], ..Default::default() }],
            ..Frame::default()
        };
        frame.host.cpus = vec![Default::default()];
        frame.host.net = vec![Default::default()];
        frame.storage.devices = vec![Default::default()];
        frame.storage.mounts = vec![Default::default()];
        let json = |frame: &Frame| serde_json::to_value(frame).unwrap();
        assert_eq!(json(&there_and_back(&frame)), json(&frame));
    }
}
