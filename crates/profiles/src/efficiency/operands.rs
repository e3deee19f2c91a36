//! A call's arguments, read from the JSON texts of a trace: which of them are tensors, of which shape, and of which type: how long an
//! element is, and in which format the math is done.

use serde::Deserialize;

use super::{FACTS, Recorded};
use trainmon_base::text::named_enum;

/// The longest text of a call that is read.
const LONGEST_TEXT: usize = 16 << 10;
const MOST_OPERANDS: usize = 64;
const MOST_DIMENSIONS: usize = 16;

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

/// The shape of a tensor, or the shapes of a list of tensors. The shape of what is no tensor is empty.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Sizes {
    One(Vec<u64>),
    List(Vec<Vec<u64>>),
}

/// A tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub dims: Vec<u64>,
    /// How many elements lie in memory: a dimension of stride 0 counts once.
    pub stored: f64,
    pub element: &'static Element,
}

impl Tensor {
    fn new(dims: Vec<u64>, strides: Option<&Vec<u64>>, element: &'static Element) -> Self {
        let strides = strides.filter(|strides| strides.len() == dims.len());
        let stride = |at: usize| strides.and_then(|strides| strides.get(at));
        let stored = dims.iter().enumerate().map(|(at, size)| match stride(at) {
            Some(0) => (*size).min(1),
            _ => *size,
        });
        let stored = numel(stored);
        Self { dims, stored, element }
    }

    /// How many elements it seems to have.
    pub(crate) fn numel(&self) -> f64 {
        numel(self.dims.iter().copied())
    }

    /// Bytes that lie in memory.
    pub fn bytes(&self) -> f64 {
        self.stored * self.element.bytes
    }

    /// Bytes of a result with its shape and type.
    pub fn written(&self) -> f64 {
        self.numel() * self.element.bytes
    }

    /// The size of a dimension, counted from the front, or from the end if negative.
    pub fn size(&self, at: i64) -> Option<u64> {
        let at = if at < 0 { at.checked_add(i64::try_from(self.dims.len()).ok()?)? } else { at };
        self.dims.get(usize::try_from(at).ok()?).copied()
    }
}

/// The product of sizes: in floating point, which cannot overflow into a wrong number.
pub(super) fn numel(dims: impl Iterator<Item = u64>) -> f64 {
    dims.map(|size| size as f64).product()
}

/// The arguments of a call, in the order of the operator's schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operands {
    pub sizes: Vec<Sizes>,
    /// The tensors among them whose type is known.
    pub tensors: Vec<Option<Tensor>>,
    /// Values of what is no tensor, as texts; empty where not recorded.
    values: Vec<String>,
}

impl Operands {
    /// Reads them; `None` if there are no shapes, or more than a call has.
    pub fn read(call: &Recorded) -> Option<Self> {
        let texts = [call.dims, call.types, call.strides, call.values];
        if texts.iter().any(|text| text.len() > LONGEST_TEXT) {
            return None;
        }
        let sizes: Vec<Sizes> = serde_json::from_str(call.dims).ok()?;
        let types: Vec<&str> = serde_json::from_str(call.types).unwrap_or_default();
        let strides: Vec<Sizes> = serde_json::from_str(call.strides).unwrap_or_default();
        let values: Vec<String> = serde_json::from_str(call.values).unwrap_or_default();
        let too_many = sizes.iter().any(|sizes| matches!(sizes, Sizes::One(dims) if dims.len() > MOST_DIMENSIONS));
        if sizes.len() > MOST_OPERANDS || too_many {
            return None;
        }
        let tensor = |(at, sizes): (usize, &Sizes)| {
            let Sizes::One(dims) = sizes else { return None };
            let strides = match strides.get(at) {
                Some(Sizes::One(strides)) => Some(strides),
                _ => None,
            };
            Some(Tensor::new(dims.clone(), strides, Element::named(types.get(at)?)?))
        };
        let tensors = sizes.iter().enumerate().map(tensor).collect();
        Some(Self { sizes, tensors, values })
    }

    /// The tensor at this place of the schema.
    pub fn tensor(&self, at: usize) -> Option<&Tensor> {
        self.tensors.get(at)?.as_ref()
    }

    /// Bytes of the tensor at this place; 0 if no tensor was given.
    pub fn bytes(&self, at: usize) -> f64 {
        self.tensor(at).map_or(0.0, Tensor::bytes)
    }

    /// The value at this place; `None` if it was not recorded.
    pub fn value(&self, at: usize) -> Option<&str> {
        self.values.get(at).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A list of integers, or a single one.
    pub fn integers(&self, at: usize) -> Option<Vec<i64>> {
        let value = self.value(at)?;
        serde_json::from_str(value).ok().or_else(|| Some(vec![value.parse().ok()?]))
    }

    /// A list of Booleans, as Python writes them: `[True, False]`.
    pub fn flags(&self, at: usize) -> Option<Vec<bool>> {
        let flags = self.value(at)?.trim_start_matches('[').trim_end_matches(']').split(',');
        flags
            .map(|flag| match flag.trim() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            })
            .collect()
    }

    /// A Boolean.
    pub fn flag(&self, at: usize) -> Option<bool> {
        self.flags(at)?.first().copied()
    }

    /// A type, given by its number.
    pub fn element(&self, at: usize) -> Option<&'static Element> {
        Element::numbered(self.value(at)?)
    }
}
