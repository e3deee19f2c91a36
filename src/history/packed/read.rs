//! serde's way from packed bytes back to the value.

use serde::de::value::{U32Deserializer, U64Deserializer};
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use super::PackError;

/// Bytes → values.
pub(super) struct Unpacker<'a> {
    pub bytes: &'a [u8],
    pub floats: &'a [u8],
    /// Inside of an [`super::Exact`].
    pub exact: bool,
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PackError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(PackError::Damaged)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, PackError> {
        let (byte, rest) = self.bytes.split_first().ok_or(PackError::Damaged)?;
        self.bytes = rest;
        Ok(*byte)
    }

    fn float<const N: usize>(&mut self) -> Result<[u8; N], PackError> {
        let (float, rest) = self.floats.split_first_chunk().ok_or(PackError::Damaged)?;
        self.floats = rest;
        Ok(*float)
    }

    fn number(&mut self) -> Result<u64, PackError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(PackError::Damaged)
    }

    fn signed(&mut self) -> Result<i64, PackError> {
        self.number().map(|v| (v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// A length. Nothing that we pack is less than a byte long, so a greater one is damage.
    fn length(&mut self) -> Result<usize, PackError> {
        let length = self.number()?;
        usize::try_from(length)
            .ok()
            .filter(|l| *l <= self.bytes.len().saturating_add(self.floats.len()))
            .ok_or(PackError::Damaged)
    }

    fn text(&mut self) -> Result<&'a str, PackError> {
        let length = self.length()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| PackError::Damaged)
    }
}

macro_rules! unpack_numbers {
    ($($method:ident $visit:ident $from:ident),*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
            visitor.$visit(self.$from()?)
        })*
    };
}

macro_rules! unsupported {
    ($($method:ident),*) => {
        $(fn $method<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, PackError> {
            Err(PackError::Unsupported("a value of unknown type"))
        })*
    };
}

impl<'de> de::Deserializer<'de> for &mut Unpacker<'de> {
    type Error = PackError;

    unpack_numbers!(deserialize_u8 visit_u64 number, deserialize_u16 visit_u64 number, deserialize_u32 visit_u64 number,
        deserialize_u64 visit_u64 number, deserialize_i8 visit_i64 signed, deserialize_i16 visit_i64 signed,
        deserialize_i32 visit_i64 signed, deserialize_i64 visit_i64 signed, deserialize_str visit_borrowed_str text,
        deserialize_string visit_borrowed_str text);
    unsupported!(deserialize_any, deserialize_ignored_any, deserialize_identifier);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        visitor.visit_bool(self.byte()? != 0)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        visitor.visit_f32(super::long(self.float()?))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        if self.exact {
            let bytes = self.take(size_of::<f64>())?.try_into().map_err(|_| PackError::Damaged)?;
            return visitor.visit_f64(f64::from_le_bytes(bytes));
        }
        visitor.visit_f64(f64::from(super::long(self.float()?)))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        let c = u32::try_from(self.number()?).ok().and_then(char::from_u32);
        visitor.visit_char(c.ok_or(PackError::Damaged)?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        let length = self.length()?;
        visitor.visit_borrowed_bytes(self.take(length)?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self),
            _ => Err(PackError::Damaged),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, PackError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, PackError> {
        let before = self.exact;
        self.exact |= name == super::EXACT;
        let value = visitor.visit_newtype_struct(&mut *self);
        self.exact = before;
        value
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        let left = self.length()?;
        visitor.visit_seq(Elements { unpacker: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, PackError> {
        visitor.visit_seq(Elements { unpacker: self, left: length })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, PackError> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PackError> {
        let left = self.length()?;
        visitor.visit_map(Elements { unpacker: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PackError> {
        let count = self.byte()?;
        let left_out = self.take(count.into())?;
        visitor.visit_map(Named { unpacker: self, next: 0, count: fields.len(), left_out })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PackError> {
        visitor.visit_enum(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements of a list, tuple or map.
struct Elements<'a, 'de> {
    unpacker: &'a mut Unpacker<'de>,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Elements<'_, 'de> {
    type Error = PackError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, PackError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.unpacker).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> de::MapAccess<'de> for Elements<'_, 'de> {
    type Error = PackError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, PackError> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, PackError> {
        seed.deserialize(&mut *self.unpacker)
    }
}

/// The fields of a struct by their positions, without those that were left out.
struct Named<'a, 'de> {
    unpacker: &'a mut Unpacker<'de>,
    next: usize,
    count: usize,
    left_out: &'de [u8],
}

impl<'de> de::MapAccess<'de> for Named<'_, 'de> {
    type Error = PackError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, PackError> {
        while self.left_out.iter().any(|place| usize::from(*place) == self.next) {
            self.next += 1;
        }
        if self.next >= self.count {
            return Ok(None);
        }
        let key: U64Deserializer<PackError> = (self.next as u64).into_deserializer();
        self.next += 1;
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, PackError> {
        seed.deserialize(&mut *self.unpacker)
    }
}

impl<'de> de::EnumAccess<'de> for &mut Unpacker<'de> {
    type Error = PackError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), PackError> {
        let index = u32::try_from(self.number()?).map_err(|_| PackError::Damaged)?;
        let index: U32Deserializer<PackError> = index.into_deserializer();
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Unpacker<'de> {
    type Error = PackError;

    fn unit_variant(self) -> Result<(), PackError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, PackError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, PackError> {
        de::Deserializer::deserialize_tuple(self, length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PackError> {
        de::Deserializer::deserialize_struct(self, "", fields, visitor)
    }
}
