//! serde's way from a value to packed bytes.

use serde::ser::{self, Serialize};

use super::PackError;

/// Values → bytes.
pub(super) struct Packer<'a> {
    pub bytes: &'a mut Vec<u8>,
    pub floats: &'a mut Vec<u8>,
    /// Inside of an [`super::Exact`].
    pub exact: bool,
}

impl Packer<'_> {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn length(&mut self, length: Option<usize>) -> Result<(), PackError> {
        self.number(length.ok_or(PackError::Unsupported("a list of unknown length"))? as u64);
        Ok(())
    }
}

/// What follows the start of a struct.
pub(super) struct Fields<'a, 'b> {
    packer: &'a mut Packer<'b>,
    start: usize,
    next: u8,
    left_out: Vec<u8>,
}

macro_rules! numbers {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, v: $type) -> Result<(), PackError> {
            self.number(u64::from(v));
            Ok(())
        })*
    };
}

macro_rules! signed {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, v: $type) -> Result<(), PackError> {
            let v = i64::from(v);
            self.number(((v << 1) ^ (v >> 63)) as u64);
            Ok(())
        })*
    };
}

impl<'a, 'b> ser::Serializer for &'a mut Packer<'b> {
    type Ok = ();
    type Error = PackError;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Fields<'a, 'b>;
    type SerializeStructVariant = Fields<'a, 'b>;

    numbers!(serialize_bool bool, serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_char char);
    signed!(serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64);

    fn serialize_f32(self, v: f32) -> Result<(), PackError> {
        self.floats.extend_from_slice(&super::short(v));
        Ok(())
    }

    fn serialize_f64(self, v: f64) -> Result<(), PackError> {
        if self.exact {
            self.bytes.extend_from_slice(&v.to_le_bytes());
            return Ok(());
        }
        self.serialize_f32(v as f32)
    }

    fn serialize_str(self, v: &str) -> Result<(), PackError> {
        self.serialize_bytes(v.as_bytes())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), PackError> {
        self.number(v.len() as u64);
        self.bytes.extend_from_slice(v);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), PackError> {
        self.bytes.push(0);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), PackError> {
        self.bytes.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), PackError> {
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), PackError> {
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        index: u32,
        _variant: &'static str,
    ) -> Result<(), PackError> {
        self.number(index.into());
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), PackError> {
        let before = self.exact;
        self.exact |= name == super::EXACT;
        let done = value.serialize(&mut *self);
        self.exact = before;
        done
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        index: u32,
        _variant: &'static str,
        value: &T,
    ) -> Result<(), PackError> {
        self.number(index.into());
        value.serialize(self)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self, PackError> {
        self.length(length)?;
        Ok(self)
    }

    fn serialize_tuple(self, _length: usize) -> Result<Self, PackError> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Self, PackError> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self, PackError> {
        self.number(index.into());
        Ok(self)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, PackError> {
        self.length(length)?;
        Ok(self)
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Fields<'a, 'b>, PackError> {
        let start = self.bytes.len();
        self.bytes.push(0);
        Ok(Fields { packer: self, start, next: 0, left_out: Vec::new() })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        _variant: &'static str,
        length: usize,
    ) -> Result<Fields<'a, 'b>, PackError> {
        self.number(index.into());
        self.serialize_struct(name, length)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident),*) => {
        $(impl ser::$trait for &mut Packer<'_> {
            type Ok = ();
            type Error = PackError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PackError> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), PackError> {
                Ok(())
            }
        })*
    };
}

elements!(SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field);

impl ser::SerializeMap for &mut Packer<'_> {
    type Ok = ();
    type Error = PackError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), PackError> {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PackError> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), PackError> {
        Ok(())
    }
}

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Fields<'_, '_> {
            type Ok = ();
            type Error = PackError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _key: &'static str, value: &T) -> Result<(), PackError> {
                self.next = self.next.checked_add(1).ok_or(PackError::Unsupported("a struct of so many fields"))?;
                value.serialize(&mut *self.packer)
            }

            fn skip_field(&mut self, _key: &'static str) -> Result<(), PackError> {
                self.left_out.push(self.next);
                self.next = self.next.checked_add(1).ok_or(PackError::Unsupported("a struct of so many fields"))?;
                Ok(())
            }

            fn end(self) -> Result<(), PackError> {
                if let (false, Some(count)) = (self.left_out.is_empty(), self.packer.bytes.get_mut(self.start)) {
                    *count = self.left_out.len() as u8;
                    let after = self.start + 1;
                    self.packer.bytes.splice(after..after, self.left_out);
                }
                Ok(())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);
