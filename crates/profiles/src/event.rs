//! One event of a trace, as far as the account needs it. Every field may be missing or of another type: then it is empty.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// An event with a name and a time.
#[derive(Debug, Default)]
pub struct TraceEvent<'a> {
    /// Whether it is of the kind that has a begin and a length, `ph` of `X`.
    pub is_span: bool,
    /// Category, raw.
    pub category: Cow<'a, str>,
    /// Name, raw.
    pub name: Cow<'a, str>,
    /// Begin, nanoseconds of the trace's clock.
    pub start_ns: Option<i128>,
    /// Length, nanoseconds; not negative.
    pub length_ns: Option<i128>,
    /// PID, or the number of a GPU.
    pub pid: TracePlace<'a>,
    /// TID, or the number of a stream.
    pub tid: TracePlace<'a>,
    /// More about it.
    pub args: Args<'a>,
}

/// A number, or a word in its place.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub enum TracePlace<'a> {
    /// Nothing that says where.
    #[default]
    Nowhere,
    /// A number.
    Number(i64),
    /// A word, raw.
    Word(Cow<'a, str>),
}

/// What the account needs of an event's `args`. Texts of shapes are raw JSON.
#[derive(Debug, Default)]
pub struct Args<'a> {
    /// Number of the GPU.
    pub gpu: Option<i64>,
    /// Number of the stream.
    pub stream: Option<i64>,
    /// What ties a call to what it started on the GPU; 0 for none.
    pub correlation: u64,
    /// What ties a kernel to its operator; 0 for none.
    pub external: u64,
    /// Bytes copied or set.
    pub bytes: Option<u64>,
    /// `kind` of a copy by roctracer: `DtoH`.
    pub kind: Cow<'a, str>,
    /// Blocks of a kernel's grid, in each direction.
    pub grid: Vec<u64>,
    /// Threads of a block, in each direction.
    pub block: Vec<u64>,
    /// Blocks for each multiprocessor.
    pub blocks_per_sm: Option<f64>,
    /// Estimated occupancy, percent.
    pub occupancy_pct: Option<f64>,
    /// `Input Dims`, raw.
    pub dims: &'a str,
    /// `Input type`, raw.
    pub types: &'a str,
    /// `Input Strides`, raw.
    pub strides: &'a str,
    /// `Concrete Inputs`, raw.
    pub values: &'a str,
    /// `Call stack` of older versions: frames with lines, innermost last or first as the version has it.
    pub call_stack: Cow<'a, str>,
    /// Name of a collective.
    pub collective: Cow<'a, str>,
    /// Elements that a rank sends into it.
    pub sent_elements: Option<u64>,
    /// Elements that a rank receives.
    pub received_elements: Option<u64>,
    /// Type of its elements.
    pub element: Cow<'a, str>,
    /// Ranks of its group.
    pub group_size: Option<u64>,
    /// Name of its group.
    pub group: Cow<'a, str>,
    /// The ranks of its group: `[0, 1]`, the middle of many left out.
    pub group_ranks: Cow<'a, str>,
    /// Its number among the collectives of its group.
    pub sequence: Option<u64>,
}

/// Implements [`Deserialize`] for a struct by its keys: the last of equal keys counts, others are passed over, and what is not an
/// object is the default.
macro_rules! tolerant {
    ($name:ident, $keys:ident { $($field:ident : $($key:literal)|+ => $read:expr),+ $(,)? }) => {
        #[allow(non_camel_case_types)]
        enum $keys { $($field,)+ Other }

        impl<'de> Deserialize<'de> for $keys {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Key;
                impl Visitor<'_> for Key {
                    type Value = $keys;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a key")
                    }
                    fn visit_str<E>(self, key: &str) -> Result<$keys, E> {
                        Ok(match key { $($($key)|+ => $keys::$field,)+ _ => $keys::Other })
                    }
                }
                deserializer.deserialize_identifier(Key)
            }
        }

        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object<'a>(std::marker::PhantomData<&'a ()>);
                impl<'de: 'a, 'a> Visitor<'de> for Object<'a> {
                    type Value = $name<'a>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a value")
                    }
                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name<'a>, A::Error> {
                        let mut out = $name::default();
                        while let Some(key) = map.next_key::<$keys>()? {
                            match key {
                                $($keys::$field => {
                                    let read: fn(&mut $name<'a>, &mut A) -> Result<(), A::Error> = $read;
                                    read(&mut out, &mut map)?;
                                })+
                                $keys::Other => { map.next_value::<IgnoredAny>()?; }
                            }
                        }
                        Ok(out)
                    }
                    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<$name<'a>, A::Error> {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        Ok($name::default())
                    }
                    fn visit_unit<E>(self) -> Result<$name<'a>, E> { Ok($name::default()) }
                    fn visit_bool<E>(self, _: bool) -> Result<$name<'a>, E> { Ok($name::default()) }
                    fn visit_i64<E>(self, _: i64) -> Result<$name<'a>, E> { Ok($name::default()) }
                    fn visit_u64<E>(self, _: u64) -> Result<$name<'a>, E> { Ok($name::default()) }
                    fn visit_f64<E>(self, _: f64) -> Result<$name<'a>, E> { Ok($name::default()) }
                    fn visit_str<E>(self, _: &str) -> Result<$name<'a>, E> { Ok($name::default()) }
                }
                deserializer.deserialize_any(Object(std::marker::PhantomData))
            }
        }
    };
}

tolerant!(TraceEvent, EventKey {
    is_span: "ph" => |out, map| { out.is_span = map.next_value::<Scalar>()?.text() == "X"; Ok(()) },
    category: "cat" => |out, map| { out.category = map.next_value::<Scalar>()?.text(); Ok(()) },
    name: "name" => |out, map| { out.name = map.next_value::<Scalar>()?.text(); Ok(()) },
    start_ns: "ts" => |out, map| { out.start_ns = nanoseconds(map.next_value::<&RawValue>()?.get()); Ok(()) },
    length_ns: "dur" => |out, map| {
        out.length_ns = nanoseconds(map.next_value::<&RawValue>()?.get()).filter(|ns| *ns >= 0);
        Ok(())
    },
    pid: "pid" => |out, map| { out.pid = map.next_value::<Scalar>()?.place(); Ok(()) },
    tid: "tid" => |out, map| { out.tid = map.next_value::<Scalar>()?.place(); Ok(()) },
    args: "args" => |out, map| { out.args = map.next_value()?; Ok(()) },
});

tolerant!(Args, ArgKey {
    gpu: "device" => |out, map| { out.gpu = map.next_value::<Scalar>()?.number(); Ok(()) },
    stream: "stream" => |out, map| { out.stream = map.next_value::<Scalar>()?.number(); Ok(()) },
    correlation: "correlation" => |out, map| { out.correlation = map.next_value::<Scalar>()?.count().unwrap_or_default(); Ok(()) },
    external: "External id" | "external id" => |out, map| { out.external = map.next_value::<Scalar>()?.count().unwrap_or_default(); Ok(()) },
    bytes: "bytes" => |out, map| { out.bytes = map.next_value::<Scalar>()?.count(); Ok(()) },
    kind: "kind" => |out, map| { out.kind = map.next_value::<Scalar>()?.text(); Ok(()) },
    grid: "grid" => |out, map| { out.grid = map.next_value::<GridCounts>()?.0; Ok(()) },
    block: "block" => |out, map| { out.block = map.next_value::<GridCounts>()?.0; Ok(()) },
    blocks_per_sm: "blocks per SM" => |out, map| { out.blocks_per_sm = map.next_value::<Scalar>()?.real(); Ok(()) },
    occupancy_pct: "est. achieved occupancy %" => |out, map| { out.occupancy_pct = map.next_value::<Scalar>()?.real(); Ok(()) },
    dims: "Input Dims" | "Input dims" => |out, map| { out.dims = map.next_value::<&RawValue>()?.get(); Ok(()) },
    types: "Input type" => |out, map| { out.types = map.next_value::<&RawValue>()?.get(); Ok(()) },
    strides: "Input Strides" => |out, map| { out.strides = map.next_value::<&RawValue>()?.get(); Ok(()) },
    values: "Concrete Inputs" => |out, map| { out.values = map.next_value::<&RawValue>()?.get(); Ok(()) },
    call_stack: "Call stack" => |out, map| { out.call_stack = map.next_value::<Scalar>()?.text(); Ok(()) },
    collective: "Collective name" => |out, map| { out.collective = map.next_value::<Scalar>()?.text(); Ok(()) },
    sent_elements: "In msg nelems" => |out, map| { out.sent_elements = map.next_value::<Scalar>()?.count(); Ok(()) },
    received_elements: "Out msg nelems" => |out, map| { out.received_elements = map.next_value::<Scalar>()?.count(); Ok(()) },
    element: "dtype" => |out, map| { out.element = map.next_value::<Scalar>()?.text(); Ok(()) },
    group_size: "Group size" => |out, map| { out.group_size = map.next_value::<Scalar>()?.count(); Ok(()) },
    group: "Process Group Name" => |out, map| { out.group = map.next_value::<Scalar>()?.text(); Ok(()) },
    group_ranks: "Process Group Ranks" => |out, map| { out.group_ranks = map.next_value::<Scalar>()?.text(); Ok(()) },
    sequence: "Seq" => |out, map| { out.sequence = map.next_value::<Scalar>()?.count(); Ok(()) },
});

/// A number or a text.
#[derive(Debug, Default)]
enum Scalar<'a> {
    /// Anything else.
    #[default]
    None,
    Whole(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl<'a> Scalar<'a> {
    fn text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text,
            Self::Whole(number) => number.to_string().into(),
            _ => Cow::Borrowed(""),
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Real(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn count(&self) -> Option<u64> {
        self.number().and_then(|number| u64::try_from(number).ok())
    }

    fn real(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Real(number) => Some(*number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    fn place(self) -> TracePlace<'a> {
        match self {
            Self::Whole(number) => TracePlace::Number(number),
            // The first versions quoted the thread's number in some events and not in others of the same thread.
            Self::Text(text) => text.parse().map_or(TracePlace::Word(text), TracePlace::Number),
            _ => TracePlace::Nowhere,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;
        impl<'de> Visitor<'de> for AnyScalar {
            type Value = Scalar<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_i64<E>(self, number: i64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Whole(number))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Scalar<'de>, E> {
                Ok(i64::try_from(number).map_or(Scalar::Real(number as f64), Scalar::Whole))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Real(number))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(text.into()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(text.to_owned().into()))
            }
            fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
                Ok(Scalar::None)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Scalar<'de>, E> {
                Ok(Scalar::None)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::None)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar<'de>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::None)
            }
        }
        deserializer.deserialize_any(AnyScalar)
    }
}

/// A short list of whole numbers; anything else is an empty one.
struct GridCounts(Vec<u64>);

impl<'de> Deserialize<'de> for GridCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let inner = raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
        Ok(Self(inner.split(',').take(3).filter_map(|part| part.trim().parse().ok()).collect()))
    }
}

/// Longest text of a time: more digits than any clock has.
const TIME_MAX: usize = 30;

/// Microseconds as JSON writes them → nanoseconds, exactly. Times since 1970 have more digits than an `f64` holds.
pub fn nanoseconds(text: &str) -> Option<i128> {
    let text = text.trim_matches('"');
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() > TIME_MAX {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        // With an exponent.
        let ns = text.parse::<f64>().ok()? * 1000.0;
        return (ns.abs() < 1e30).then_some(ns.round() as i128);
    }
    let mut ns = whole.parse::<i128>().ok()? * 1000;
    let mut unit = 100;
    let mut digits = fraction.bytes();
    for digit in digits.by_ref().take(3) {
        ns += i128::from(digit - b'0') * unit;
        unit /= 10;
    }
    ns += i128::from(digits.next().is_some_and(|digit| digit >= b'5'));
    Some(if negative { -ns } else { ns })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_of_each_version_is_read() {
        let text = r#"{"ph": "X", "cat": "kernel", "name": "a\u00e9", "pid": 0, "tid": "stream 7", "ts": 1690000000000123.4567,
            "dur": 25, "args": {"device": 1, "External id": 18446744073709551615, "correlation": "12", "grid": [1, 2, 3],
            "est. achieved occupancy %": 12, "Input Dims": [[8, 4], []], "stream": 7.0, "x": {"y": [1]}}, "more": [1, {}]}"#;
        let event: TraceEvent = serde_json::from_str(text).unwrap();
        assert!(event.is_span && event.name == "aé" && event.pid == TracePlace::Number(0));
        assert_eq!((event.start_ns, event.length_ns), (Some(1_690_000_000_000_123_457), Some(25_000)));
        assert_eq!(event.tid, TracePlace::Word("stream 7".into()));
        let args = event.args;
        assert_eq!((args.gpu, args.stream, args.correlation, args.external), (Some(1), Some(7), 12, 0));
        assert_eq!((&*args.grid, args.occupancy_pct, args.dims), (&[1, 2, 3][..], Some(12.0), "[[8, 4], []]"));
        let quoted: TraceEvent = serde_json::from_str(r#"{"tid": "5555", "ts": "1.5", "dur": -4, "ph": 1}"#).unwrap();
        assert_eq!((quoted.tid, quoted.start_ns, quoted.length_ns), (TracePlace::Number(5555), Some(1500), None));
    }

    #[test]
    fn fields_of_other_types_are_empty() {
        for value in ["null", "true", "[1, [2]]", "{\"a\": {}}", "1.5", "-7", "\"x\"", "1e400"] {
            let text = format!(
                "{{\"ph\": {value}, \"cat\": {value}, \"name\": {value}, \"ts\": {value}, \"dur\": {value}, \"pid\": {value}, \
                 \"args\": {{\"device\": {value}, \"grid\": {value}, \"bytes\": {value}, \"Input Dims\": {value}}}}}"
            );
            if let Ok(event) = serde_json::from_str::<TraceEvent>(&text) {
                assert!(!event.is_span && event.length_ns.is_none_or(|ns| ns >= 0), "{value}");
            }
            assert!(
                serde_json::from_str::<TraceEvent>(&format!("{{\"args\": {value}}}")).is_ok() || value == "1e400"
            );
        }
        let twice: TraceEvent = serde_json::from_str(r#"{"name": "a", "name": "b"}"#).unwrap();
        assert_eq!(twice.name, "b");
    }

    #[test]
    fn times_are_exact() {
        for (text, ns) in [
            ("1", Some(1000)),
            ("-1.5", Some(-1500)),
            ("1.0004", Some(1000)),
            ("1.0006", Some(1001)),
            ("9007199254740993.001", Some(9_007_199_254_740_993_001)),
            ("99999999999999999999", Some(99_999_999_999_999_999_999_000)),
            ("1e3", Some(1_000_000)),
            ("1e300", None),
            ("NaN", None),
            ("null", None),
            ("", None),
            (&"9".repeat(31), None),
        ] {
            assert_eq!(nanoseconds(text), ns, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_none(text in "\\PC{0,40}", number in any::<f64>()) {
            let _ = nanoseconds(&text);
            if let Some(ns) = nanoseconds(&number.to_string()) {
                prop_assert!((ns as f64 - number * 1000.0).abs() <= 1.0 + number.abs() * 1e-9);
            }
        }
    }
}
