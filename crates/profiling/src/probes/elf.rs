//! The functions that a shared library exports, by where they begin in the file (the ELF specification, and elf(5)).
//!
//! The file is another program's: nothing in it is believed, and no more than [`ELF_TABLE_LIMIT`] of it is kept at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::elf::{FileHeader64, PF_X, PT_LOAD, SHT_DYNSYM, STT_FUNC};
use object::read::StringTable;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, pod};

type ElfHeader = FileHeader64<Endianness>;

/// The file's header, and program headers close behind it.
const HEAD_BYTES: usize = 64 << 10;
/// Largest table of symbols, and of their names. Torch's largest library has names of 60 MB.
const ELF_TABLE_LIMIT: u64 = 128 << 20;

/// The functions that `file` exports and `wanted` knows, each with its offset in the file.
pub fn exported<T>(file: &File, wanted: impl Fn(&[u8]) -> Option<T>) -> Option<Vec<(u64, T)>> {
    let head = read(file, 0, HEAD_BYTES as u64)?;
    let head = head.as_slice();
    let header = ElfHeader::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    let count = u64::from(header.e_shnum(endian));
    let size = size_of::<<ElfHeader as FileHeader>::SectionHeader>() as u64;
    if u64::from(header.e_shentsize(endian)) != size {
        return None;
    }
    let table = read(file, header.e_shoff(endian), count.checked_mul(size)?)?;
    let sections: &[<ElfHeader as FileHeader>::SectionHeader] =
        pod::slice_from_bytes(&table, count.try_into().ok()?).ok()?.0;
    let symbols = sections.iter().find(|section| section.sh_type(endian) == SHT_DYNSYM)?;
    let names = sections.get(usize::try_from(symbols.sh_link(endian)).ok()?)?;
    let names = read(file, names.sh_offset(endian), names.sh_size(endian))?;
    let names = StringTable::new(names.as_slice(), 0, names.len() as u64);
    let table = read(file, symbols.sh_offset(endian), symbols.sh_size(endian))?;
    let count = table.len() / size_of::<<ElfHeader as FileHeader>::Sym>();
    let symbols: &[<ElfHeader as FileHeader>::Sym] = pod::slice_from_bytes(&table, count).ok()?.0;
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
    if bytes > ELF_TABLE_LIMIT {
        return None;
    }
    let mut read = vec![0; bytes.try_into().ok()?];
    file.read_exact_at(&mut read, at).ok()?;
    Some(read)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// A library whose code at address 0x4000 lies at 0x1000 in the file, with a function `wanted` at 0x4010, one beside it, one that it
    /// imports, and one at an address that no code has.
    fn library() -> Vec<u8> {
        let names = b"\0wanted\0other\0imported\0nowhere\0";
        let symbol = |name: u32, info: u8, section: u16, value: u64| {
            [&name.to_le_bytes()[..], &[info, 0], &section.to_le_bytes(), &value.to_le_bytes(), &8_u64.to_le_bytes()]
                .concat()
        };
        let function = 0x12;
        let symbols = [
            symbol(0, 0, 0, 0),
            symbol(1, function, 1, 0x4010),
            symbol(8, function, 1, 0x4020),
            symbol(14, function, 0, 0),
            symbol(23, function, 1, 0x9000),
        ]
        .concat();
        let section = |kind: u32, offset: u64, size: u64, link: u32, entry: u64| {
            let head = [[0; 4], kind.to_le_bytes()].concat();
            let middle = [[0; 8], [0; 8], offset.to_le_bytes(), size.to_le_bytes()].concat();
            let links = [link.to_le_bytes(), [0; 4]].concat();
            [head, middle, links, [1_u64.to_le_bytes(), entry.to_le_bytes()].concat()].concat()
        };
        let (names_at, symbols_at) = (120_u64, 120 + names.len() as u64);
        let sections_at = symbols_at + symbols.len() as u64;
        let sections = [
            section(0, 0, 0, 0, 0),
            section(11, symbols_at, symbols.len() as u64, 2, 24),
            section(3, names_at, names.len() as u64, 0, 0),
        ]
        .concat();
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
        file.extend([0_u64, 64, sections_at].map(u64::to_le_bytes).as_flattened());
        file.extend([0; 4]);
        file.extend([64_u16, 56, 1, 64, 3, 0].map(u16::to_le_bytes).as_flattened());
        // PT_LOAD, readable and executable.
        file.extend([1_u32, 5].map(u32::to_le_bytes).as_flattened());
        file.extend([0x1000_u64, 0x4000, 0x4000, 0x100, 0x100, 0x1000].map(u64::to_le_bytes).as_flattened());
        [file, names.to_vec(), symbols, sections].concat()
    }

    fn found(bytes: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        exported(&file, |name| Some(name.to_vec()))
    }

    #[test]
    fn exported_functions_are_found_where_they_are_in_the_file() {
        assert_eq!(found(&library()), Some(vec![(0x1010, b"wanted".to_vec()), (0x1020, b"other".to_vec())]));
    }

    #[test]
    fn what_is_no_library_has_none() {
        assert_eq!(found(b""), None);
        assert_eq!(found(b"#!/bin/sh\n"), None);
        let whole = library();
        for length in 0..whole.len() {
            let _ = found(&whole[..length]);
        }
    }

    proptest! {
        #[test]
        fn any_file_is_survived(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..12),
            large in any::<proptest::sample::Index>(),
        ) {
            let mut file = library();
            for (place, byte) in changes {
                let place = place.index(file.len());
                file[place] = byte;
            }
            let _ = found(&file);
            // Sizes and offsets that are out of all bounds.
            let place = large.index(file.len() - 8);
            file[place..place + 8].fill(0xff);
            let _ = found(&file);
        }
    }
}
