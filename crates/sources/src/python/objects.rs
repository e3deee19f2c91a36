//! Python objects: whole numbers, text, attributes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::layout::{AttributesPlace, MARKS, PythonLayout};
use super::memory::{Memory, half_at, word_at};

/// Longest text read, characters: paths are shorter than PATH_MAX.
const TEXT: usize = 4096;
/// Longest name of an attribute or a variable.
const NAME: usize = 64;
/// Most entries of a dictionary looked at: a module that imports all of several libraries has thousands.
const ENTRIES: u64 = 4096;
/// Most attributes of an object.
const ATTRIBUTES: u64 = 256;
/// Flags of types (`Include/object.h`): values behind the object, a dictionary before it, made by Python code.
const INLINE_VALUES: u64 = 1 << 2;
const MANAGED_DICT: u64 = 1 << 4;
const HEAP_TYPE: u64 = 1 << 9;
/// Bits of each digit of a whole number, and most digits read: more do not fit into 60 bits.
const DIGIT_BITS: u32 = 30;
const MOST_DIGITS: u64 = 2;

/// What is known of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    /// Of NumPy, 64 bits.
    NumpyInt,
    Code,
    Dict,
    /// An iterator whose turns are known.
    Counting(TurnsPlace),
    Generator,
    /// Of torch.
    Tensor,
    /// Another one, made by Python code, that may have attributes.
    Object(ObjectType),
    /// Another iterator.
    Iterator,
    Other,
}

/// Where an iterator keeps how far it has come, bytes into the object (`Objects`, `Python/bltinmodule.c`, `Modules/itertoolsmodule.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnsPlace {
    /// The number itself.
    At(u64),
    /// A range: the number, or what is left since 3.12.
    Range,
    /// As far as the first of a tuple of iterators.
    First(u64),
    /// `itertools.cycle`: as far as what it iterates over, and later a number.
    Cycle,
    /// `itertools.batched`: as far as what it iterates over, by batches.
    Batched,
}

impl TurnsPlace {
    /// By the name of the iterator's type.
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"range_iterator" => Self::Range,
            b"list_iterator" | b"tuple_iterator" | b"iterator" | b"enumerate" | b"itertools.count" => Self::At(16),
            b"dict_itemiterator" | b"dict_keyiterator" | b"dict_valueiterator" => Self::At(32),
            b"itertools.islice" => Self::At(48),
            b"zip" => Self::First(24),
            b"map" => Self::First(16),
            b"itertools.cycle" => Self::Cycle,
            b"itertools.batched" => Self::Batched,
            _ => return None,
        })
    }
}

/// Where the attributes of a type's objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectType {
    at: u64,
    flags: u64,
    size: u64,
    dict: u64,
    /// The function for `next`.
    pub(super) next: u64,
}

/// The objects of one reading.
pub(super) struct Objects<'m> {
    pub(super) memory: &'m Memory<'m>,
    pub(super) layout: &'static PythonLayout,
    pub(super) no_next: u64,
    kinds: RefCell<HashMap<u64, Kind>>,
    names: RefCell<HashMap<u64, Option<Arc<str>>>>,
}

impl<'m> Objects<'m> {
    pub(super) fn new(memory: &'m Memory<'m>, layout: &'static PythonLayout, no_next: u64) -> Self {
        Self { memory, layout, no_next, kinds: RefCell::default(), names: RefCell::default() }
    }

    /// The type of an object.
    pub(super) fn kind(&self, object: u64) -> Option<Kind> {
        let of = self.memory.word(object.checked_add(8)?)?;
        if let Some(known) = self.kinds.borrow().get(&of) {
            return Some(*known);
        }
        let kind = self.kind_of_type(of)?;
        self.kinds.borrow_mut().insert(of, kind);
        Some(kind)
    }

    fn kind_of_type(&self, at: u64) -> Option<Kind> {
        // Name 24, size 32, flags 168, the function of `next` 224, place of the dictionary 288: the same in all versions.
        let head: [u8; 296] = self.memory.array(at)?;
        let (flags, next) = (word_at(&head, 168)?, word_at(&head, 224)?);
        let name: [u8; 24] = self.memory.array(word_at(&head, 24)?)?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        // An open file iterates over its lines, and lies on the stack of a `with`, too.
        if name.starts_with(b"_io.") {
            return Some(Kind::Other);
        }
        // Since 3.12 the types of itertools look as if Python code had made them; what such code makes has no dot in its name.
        let turns = TurnsPlace::named(name).filter(|_| flags & HEAP_TYPE == 0 || name.contains(&b'.'));
        if let Some(turns) = turns {
            return Some(Kind::Counting(turns));
        }
        if flags & HEAP_TYPE != 0 {
            let (size, dict) = (word_at(&head, 32)?, word_at(&head, 288)?);
            let object = Kind::Object(ObjectType { at, flags, size, dict, next });
            return Some(if name == b"Tensor" { Kind::Tensor } else { object });
        }
        Some(match name {
            b"int" => Kind::Int,
            b"numpy.int64" => Kind::NumpyInt,
            b"code" => Kind::Code,
            b"dict" => Kind::Dict,
            b"generator" => Kind::Generator,
            _ if next == 0 || next == self.no_next => Kind::Other,
            _ => Kind::Iterator,
        })
    }

    /// The function that an object made by Python code has for `next`.
    pub(super) fn next_of(&self, object: u64) -> Option<u64> {
        if let Kind::Object(of) = self.kind(object)? { Some(of.next) } else { None }
    }

    /// The whole number that is referred to at an address; `None` if it is something else, larger than 60 bits, or if another one was
    /// put there meanwhile: the memory of the first may hold anything since, another variable's value for example.
    pub(super) fn int_at(&self, place: u64) -> Option<i64> {
        let object = || Some(self.memory.word(place)? & !MARKS);
        let read = object()?;
        let value = match self.kind(read)? {
            Kind::Int => self.int(read)?,
            Kind::NumpyInt => self.memory.word(read.checked_add(16)?)?.cast_signed(),
            _ => return None,
        };
        (object()? == read).then_some(value)
    }

    fn int(&self, object: u64) -> Option<i64> {
        let head: [u8; 32] = self.memory.array(object).or_else(|| {
            // A small one may be the last thing of its page.
            let short: [u8; 28] = self.memory.array(object)?;
            let mut head = [0; 32];
            head.first_chunk_mut().map(|begin| *begin = short)?;
            Some(head)
        })?;
        let length = word_at(&head, 16)?;
        let (digits, is_negative) = if self.layout.is_tagged {
            (length >> 3, length & 3 == 2)
        } else {
            (length.cast_signed().unsigned_abs(), length.cast_signed() < 0)
        };
        let low = if digits > 0 { i64::from(half_at(&head, 24)?) } else { 0 };
        let high = if digits > 1 { i64::from(half_at(&head, 28)?) } else { 0 };
        let value = low.checked_add(high.checked_mul(1 << DIGIT_BITS)?)?;
        (digits <= MOST_DIGITS && low >> DIGIT_BITS == 0 && high >> DIGIT_BITS == 0).then_some(if is_negative {
            -value
        } else {
            value
        })
    }

    /// A text.
    pub(super) fn text(&self, object: u64) -> Option<String> {
        let head: [u8; 36] = self.memory.array(object)?;
        let length = usize::try_from(word_at(&head, 16)?).ok().filter(|&length| length <= TEXT)?;
        // Two bits of another meaning, three of the width, one that it lies behind its head, one that it is ASCII.
        let state = half_at(&head, 32)?;
        let (width, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let (ascii, other) = self.layout.text;
        let at = object.checked_add(if is_ascii { ascii } else { other })?;
        let bytes = self.memory.vec(at, length.checked_mul(usize::try_from(width).ok()?)?)?;
        let chars = |width: usize| bytes.chunks_exact(width);
        if !is_compact {
            return None;
        }
        match width {
            1 if is_ascii => String::from_utf8(bytes).ok(),
            1 => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
            2 => {
                let units: Vec<u16> =
                    chars(2).filter_map(|pair| pair.first_chunk().copied().map(u16::from_ne_bytes)).collect();
                String::from_utf16(&units).ok()
            }
            4 => chars(4).map(|four| char::from_u32(u32::from_ne_bytes(*four.first_chunk()?))).collect(),
            _ => None,
        }
    }

    /// A name of ASCII characters, as identifiers nearly always are; kept for this reading.
    pub(super) fn name(&self, object: u64) -> Option<Arc<str>> {
        if let Some(known) = self.names.borrow().get(&object) {
            return known.clone();
        }
        let name = self.text(object).filter(|name| name.len() <= NAME && name.is_ascii()).map(Arc::from);
        self.names.borrow_mut().insert(object, name.clone());
        name
    }

    /// The items of a tuple, at most `most`.
    pub(super) fn items(&self, tuple: u64, most: u64) -> Option<Vec<u64>> {
        let count = self.memory.word(tuple.checked_add(16)?)?.min(most);
        self.words(tuple.checked_add(self.layout.tuple)?, count)
    }

    /// So many words.
    pub(super) fn words(&self, at: u64, count: u64) -> Option<Vec<u64>> {
        let bytes = self.memory.vec(at, usize::try_from(count).ok()?.checked_mul(8)?)?;
        Some(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }

    /// The attributes of an object that `wanted` names, and where it refers to their values.
    pub(super) fn attributes(&self, object: u64, wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, u64)> {
        let Some(Kind::Object(of)) = self.kind(object) else { return Vec::new() };
        self.own_attributes(object, of, &wanted).unwrap_or_default()
    }

    fn own_attributes(
        &self,
        object: u64,
        of: ObjectType,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<(Arc<str>, u64)>> {
        let before = |words: u64| self.memory.word(object.checked_sub(words * 8)?);
        let is_managed = of.flags & MANAGED_DICT != 0;
        let values = |at: u64| {
            // Behind the type, its slots for numbers, sequences and so on; one more word before them since 3.12.
            let cached = if self.layout.attributes == AttributesPlace::TwoBefore { 872 } else { 880 };
            self.entries(self.memory.word(of.at.checked_add(cached)?)?, at, ATTRIBUTES, wanted)
        };
        let dict = match self.layout.attributes {
            AttributesPlace::TwoBefore if is_managed => match before(4)? {
                0 => before(3)?,
                at => return values(at),
            },
            AttributesPlace::OneBefore if is_managed => match before(3)? {
                tagged if tagged & 1 == 1 => return values(tagged.checked_add(1)?),
                dict => dict,
            },
            AttributesPlace::Behind if is_managed => match before(3)? {
                0 if of.flags & INLINE_VALUES != 0 => {
                    return values(object.checked_add(of.size)?.checked_add(self.layout.dict.values)?);
                }
                dict => dict,
            },
            // Not behind the items of an object of any length.
            _ if of.dict < of.size && of.dict > 0 => self.memory.word(object.checked_add(of.dict)?)?,
            _ => return None,
        };
        self.dict(dict, ATTRIBUTES, wanted)
    }

    /// The entries of a module's variables that `wanted` names, and where it refers to their values.
    pub(super) fn variables(&self, dict: u64, wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, u64)> {
        self.dict(dict, ENTRIES, &wanted).unwrap_or_default()
    }

    fn dict(&self, dict: u64, most: u64, wanted: &dyn Fn(&str) -> bool) -> Option<Vec<(Arc<str>, u64)>> {
        let head: [u8; 48] = self.memory.array(dict)?;
        let values = match word_at(&head, 40)? {
            0 => 0,
            at => at.checked_add(self.layout.dict.values)?,
        };
        self.entries(word_at(&head, 32)?, values, most, wanted)
    }

    /// The entries of a table of keys, whose values are in it, or at `values`, and where each is referred to.
    fn entries(
        &self,
        keys: u64,
        values: u64,
        most: u64,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<(Arc<str>, u64)>> {
        let head: [u8; 40] = self.memory.array(keys)?;
        let (count, entries, has_hash) = if self.layout.dict.is_compact {
            let [_, index_bits, kind, ..] = *head.get(8..)?.first_chunk::<4>()?;
            let indices = 1_u64.checked_shl(index_bits.into()).filter(|&bytes| bytes < 1 << 32)?;
            (word_at(&head, 24)?, indices.checked_add(32)?, kind == 0)
        } else {
            let slots = word_at(&head, 8)?;
            let width = match slots {
                0..=0xff => 1,
                0x100..=0xffff => 2,
                _ => 4,
            };
            (word_at(&head, 32)?, slots.checked_mul(width)?.checked_add(40)?, true)
        };
        let count = count.min(most);
        let width = if has_hash { 3 } else { 2 };
        let (table, row_bytes) = (keys.checked_add(entries)?, width * 8);
        let rows = self.words(table, count * width)?;
        let rows = (0..).zip(rows.chunks_exact(usize::try_from(width).ok()?));
        let found = rows.filter_map(|(row, words)| {
            let [key, _] = *words.last_chunk()?;
            // The value is the last word of its row.
            let own = table.checked_add((row + 1) * row_bytes)?.checked_sub(8)?;
            let place = if values == 0 { own } else { values.checked_add(row * 8)? };
            if key == 0 {
                return None;
            }
            Some((self.name(key).filter(|name| wanted(name))?, place))
        });
        Some(found.collect())
    }
}
