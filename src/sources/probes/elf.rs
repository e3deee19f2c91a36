//! The functions that a shared library exports, by where they begin in the file (the ELF specification, and elf(5)).
//!
//! The file is another program's: nothing in it is believed, and no more than [`TABLE_LIMIT`] of it is kept at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::elf::{FileHeader64, PF_X, PT_LOAD, SHT_DYNSYM, STT_FUNC};
use object::read::StringTable;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, pod};

type Header = FileHeader64<Endianness>;

/// The file's header, and program headers close behind it.
const HEAD_BYTES: usize = 64 << 10;
/// Largest table of symbols, and of their names. Torch's largest library has names of 60 MB.
const TABLE_LIMIT: u64 = 128 << 20;

/// The functions that `file` exports and `wanted` knows, each with its offset in the file.
pub fn exported<T>(file: &File, wanted: impl Fn(&[u8]) -> Option<T>) -> Option<Vec<(u64, T)>> {
    let head = read(file, 0, HEAD_BYTES as u64)?;
    let head = head.as_slice();
    let header = Header::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    let count = u64::from(header.e_shnum(endian));
    let size = size_of::<<Header as FileHeader>::SectionHeader>() as u64;
    if u64::from(header.e_shentsize(endian)) != size {
        return None;
    }
    let table = read(file, header.e_shoff(endian), count.checked_mul(size)?)?;
    let sections: &[<Header as FileHeader>::SectionHeader] =
        pod::slice_from_bytes(&table, count.try_into().ok()?).ok()?.0;
    let symbols = sections.iter().find(|section| section.sh_type(endian) == SHT_DYNSYM)?;
    let names = sections.get(usize::try_from(symbols.sh_link(endian)).ok()?)?;
    let names = read(file, names.sh_offset(endian), names.sh_size(endian))?;
    let names = StringTable::new(names.as_slice(), 0, names.len() as u64);
    let table = read(file, symbols.sh_offset(endian), symbols.sh_size(endian))?;
    let count = table.len() / size_of::<<Header as FileHeader>::Sym>();
    let symbols: &[<Header as FileHeader>::Sym] = pod::slice_from_bytes(&table, count).ok()?.0;
    let functions = symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC && !symbol.is_undefined(endian));
    let found = functions.filter_map(|symbol| {
        let found = wanted(symbol.name(endian, names).ok()?)?;
        let address = symbol.st_value(endian);
        let segment = segments.iter().find(|segment| {
            let within = address.checked_sub(segment.p_vaddr(endian));
            segment.p_type(endian) == PT_LOAD
                && segment.p_flags(endian).0 & PF_X.0 != 0
                && within.is_some_and(|within| within < segment.p_filesz(endian))
        })?;
        let offset = (address - segment.p_vaddr(endian)).checked_add(segment.p_offset(endian))?;
        Some((offset, found))
    });
    Some(found.collect())
}

/// So many bytes of a file, or as many as it has; `None` if it should be more than may be kept.
fn read(file: &File, at: u64, bytes: u64) -> Option<Vec<u8>> {
    let end = file.metadata().ok()?.len();
    let bytes = bytes.min(end.checked_sub(at)?);
    if bytes > TABLE_LIMIT {
        return None;
    }
    let mut read = vec![0; bytes.try_into().ok()?];
    file.read_exact_at(&mut read, at).ok()?;
    Some(read)
}
