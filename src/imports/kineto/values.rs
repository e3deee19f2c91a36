//! The values in a trace's events, as tolerantly as they are written, and a reader that bounds their length.

use std::fmt;
use std::io::{self, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// Longest text in a trace, bytes: names of kernels have a few KiB.
const STRING_MAX: usize = 1 << 20;
/// Most GPUs described.
const DESCRIBED_MAX: usize = 64;

/// A GPU as the trace describes it.
#[derive(Debug, Deserialize)]
pub(super) struct DescribedDevice {
    /// CUDA's number.
    pub id: u32,
    /// Product name.
    #[serde(default)]
    pub name: String,
    /// Memory fitted, bytes.
    #[serde(default, rename = "totalGlobalMem")]
    pub memory_bytes: Option<u64>,
}

/// The keys of an event.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
pub(super) enum EventKey {
    Ph,
    Cat,
    Name,
    Pid,
    Tid,
    Ts,
    Dur,
    Args,
    #[serde(other)]
    Other,
}

/// A text into the room of the last one.
pub(super) struct EventText<'a>(pub &'a mut String);

impl<'de> DeserializeSeed<'de> for EventText<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for EventText<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.0.push_str(text);
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A number, or the number in a text (`stream 7`); other texts are a number of their own.
pub(super) struct EventNumber(pub f64);

impl EventNumber {
    /// As the number of a process or thread.
    pub(super) fn id(&self) -> i64 {
        self.0 as i64
    }
}

impl<'de> Deserialize<'de> for EventNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfNumber;

        impl Visitor<'_> for OfNumber {
            type Value = EventNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<EventNumber, E> {
                Ok(EventNumber(value as f64))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<EventNumber, E> {
                Ok(EventNumber(value as f64))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<EventNumber, E> {
                Ok(EventNumber(value))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EventNumber, E> {
                let last = text.rsplit(' ').next().and_then(|last| last.parse().ok());
                Ok(EventNumber(last.unwrap_or(-1.0)))
            }

            fn visit_unit<E: de::Error>(self) -> Result<EventNumber, E> {
                Ok(EventNumber(-1.0))
            }
        }

        deserializer.deserialize_any(OfNumber)
    }
}

/// What is wanted of `args`: the GPU.
pub(super) struct Arguments(pub Option<i64>);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfArguments;

        impl<'de> Visitor<'de> for OfArguments {
            type Value = Arguments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("arguments")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Arguments, A::Error> {
                #[derive(Deserialize)]
                #[serde(field_identifier, rename_all = "lowercase")]
                enum Name {
                    Device,
                    #[serde(other)]
                    Other,
                }
                let mut device = None;
                while let Some(name) = map.next_key::<Name>()? {
                    match name {
                        Name::Device => device = Some(map.next_value::<EventNumber>()?.id()),
                        Name::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Arguments(device))
            }
        }

        deserializer.deserialize_map(OfArguments)
    }
}

/// The first GPUs of a list.
pub(super) struct DescribedDevices(pub Vec<DescribedDevice>);

impl<'de> Deserialize<'de> for DescribedDevices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfDevices;

        impl<'de> Visitor<'de> for OfDevices {
            type Value = DescribedDevices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of GPUs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<DescribedDevices, A::Error> {
                let mut devices = Vec::new();
                while let Some(device) = seq.next_element::<DescribedDevice>()? {
                    if devices.len() < DESCRIBED_MAX {
                        devices.push(device);
                    }
                }
                Ok(DescribedDevices(devices))
            }
        }

        deserializer.deserialize_seq(OfDevices)
    }
}

/// Refuses JSON with an endless text in it, which the parser would collect.
pub(super) struct BoundedStrings<R> {
    from: R,
    /// Bytes of the text being read.
    length: Option<usize>,
    escaped: bool,
}

impl<R> BoundedStrings<R> {
    /// A reader outside of any text.
    pub(super) fn new(from: R) -> Self {
        Self { from, length: None, escaped: false }
    }
}

impl<R: Read> Read for BoundedStrings<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        for byte in buffer.get(..count).unwrap_or_default() {
            self.length = match (self.length, byte) {
                (None, b'"') => Some(0),
                (None, _) => None,
                (Some(length), _) if self.escaped => {
                    self.escaped = false;
                    Some(length + 1)
                }
                (Some(_), b'"') => None,
                (Some(length), byte) => {
                    self.escaped = *byte == b'\\';
                    Some(length + 1)
                }
            };
            if self.length.is_some_and(|length| length > STRING_MAX) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a text in it is longer than 1 MiB"));
            }
        }
        Ok(count)
    }
}
