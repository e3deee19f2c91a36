//! The address of a variable that a program or library exports, from its table in memory (the ELF specification, and the GNU hash
//! table as glibc and LLVM document it): the file may lie in another container.

use object::elf::{
    DT_GNU_HASH, DT_STRTAB, DT_SYMTAB, DynamicTag, FileHeader64, PT_DYNAMIC, PT_LOAD, ProgramHeader64, Sym64,
};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{NativeEndian, pod};

use super::memory::{Memory, half_at};

type ProgramHead = FileHeader64<NativeEndian>;
type Segment = ProgramHeader64<NativeEndian>;
type Symbol = Sym64<NativeEndian>;

/// Most segments and entries of the dynamic table; usual are 13 and 30.
const LONGEST_TABLE: usize = 128;
/// Longest chain of symbols with the same hash.
const LONGEST_CHAIN: u32 = 4096;

/// Where the symbol `name` is, of what is mapped from `base` on; `None` if it is not exported there.
pub(super) fn symbol(memory: &Memory, base: u64, name: &[u8]) -> Option<u64> {
    let head: [u8; size_of::<ProgramHead>()] = memory.array(base)?;
    let header = ProgramHead::parse(head.as_slice()).ok()?;
    let endian = header.endian().ok()?;
    let count = usize::from(header.e_phnum(endian)).min(LONGEST_TABLE);
    let table = memory.vec(base.checked_add(header.e_phoff(endian))?, count * size_of::<Segment>())?;
    let segments: &[Segment] = pod::slice_from_bytes(&table, count).ok()?.0;
    let first = segments.iter().find(|segment| segment.p_type(endian) == PT_LOAD)?;
    // What addresses in the file are shifted by: 0 for a program that must be at its own.
    let shift = base.wrapping_sub(first.p_vaddr(endian));
    let dynamic = segments.iter().find(|segment| segment.p_type(endian) == PT_DYNAMIC)?;
    let entries = (usize::try_from(dynamic.p_memsz(endian)).ok()? / 16).min(LONGEST_TABLE);
    let entries = memory.vec(dynamic.p_vaddr(endian).wrapping_add(shift), entries * 16)?;
    let entry = |wanted: DynamicTag| {
        let (pairs, _) = entries.as_chunks::<16>();
        let found = pairs
            .iter()
            .find(|pair| pair.first_chunk().is_some_and(|tag: &[u8; 8]| i64::from_ne_bytes(*tag) == wanted.0))?;
        let address = u64::from_ne_bytes(*found.last_chunk()?);
        // glibc writes the shifted address here, musl leaves the file's.
        Some(if address < base { address.wrapping_add(shift) } else { address })
    };
    let table = GnuHash { memory, at: entry(DT_GNU_HASH)? };
    let (symbols, names) = (entry(DT_SYMTAB)?, entry(DT_STRTAB)?);
    let place = table.find(name, |place| {
        let symbol: [u8; size_of::<Symbol>()] =
            memory.array(symbols.checked_add(u64::from(place) * size_of::<Symbol>() as u64)?)?;
        let symbol: &Symbol = pod::from_bytes(&symbol).ok()?.0;
        let found = memory.vec(names.checked_add(symbol.st_name(endian).into())?, name.len() + 1)?;
        let is_it = found.strip_suffix(b"\0") == Some(name) && !symbol.is_undefined(endian);
        Some(is_it.then(|| symbol.st_value(endian).wrapping_add(shift)))
    });
    place.filter(|&address| address != 0)
}

/// The hash table of exported symbols: `buckets`, `first symbol`, `words of the filter`, `shift`, the filter, the buckets, the chains.
struct GnuHash<'a> {
    memory: &'a Memory<'a>,
    at: u64,
}

impl GnuHash<'_> {
    /// The first of the symbols that may have this name for which `test` has an answer; `test` returns `None` to give up.
    fn find<T>(&self, name: &[u8], test: impl Fn(u32) -> Option<Option<T>>) -> Option<T> {
        let head: [u8; 16] = self.memory.array(self.at)?;
        let [buckets, first, words] = [0, 4, 8].map(|offset| half_at(&head, offset));
        let (buckets, first, words) = (buckets?, first?, words?);
        let hash = name.iter().fold(5381_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        let table = self.at.checked_add(16)?.checked_add(u64::from(words) * 8)?;
        let half = |address: u64| self.memory.array(address).map(u32::from_ne_bytes);
        let mut place = half(table.checked_add(u64::from(hash.checked_rem(buckets)?) * 4)?)?;
        let chains = table.checked_add(u64::from(buckets) * 4)?;
        for _ in 0..LONGEST_CHAIN {
            let chained = half(chains.checked_add(u64::from(place.checked_sub(first)?) * 4)?)?;
            if chained | 1 == hash | 1
                && let Some(found) = test(place)?
            {
                return Some(found);
            }
            if chained & 1 == 1 {
                return None;
            }
            place = place.checked_add(1)?;
        }
        None
    }
}
