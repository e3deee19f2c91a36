//! `/proc/PID/maps` (proc(5)): which file is mapped at an address.

use std::sync::Arc;

use super::fields::{Fields, lines, number, text};

/// Most mappings kept of a process: those with the lowest addresses.
const MOST: usize = 16_384;

/// One line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// May be executed.
    pub is_code: bool,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// Inode of the file; 0 for memory without one.
    pub inode: u64,
    /// Path of the file, `[vdso]` and the like, or empty.
    pub file: &'a [u8],
}

/// Parses one line; `None` where it is none.
#[must_use]
pub fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = Fields::of(line);
    let mut ends = fields.next()?.splitn(2, |&byte| byte == b'-').map(hexadecimal);
    let (start, end) = (ends.next()??, ends.next()??);
    let permissions = fields.next().filter(|permissions| permissions.len() == 4)?;
    let (major, minor) = std::str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?; // after the offset
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = fields.next()?;
    // The rest of the line is the path, blanks and all: there is none where the line ends behind the inode.
    let behind = inode.as_ptr() as usize - line.as_ptr() as usize + inode.len();
    let file = line.get(behind..)?.trim_ascii_start();
    let (inode, is_code) = (number(inode)?, permissions.contains(&b'x'));
    (start < end).then_some(Mapping { start, end, is_code, device, inode, file })
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let is_plain = digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_plain)?, 16).ok()
}

/// The code of a process: mappings that may be executed, by address.
#[derive(Debug, Default)]
pub struct Maps(Vec<(u64, u64, Arc<str>)>);

impl Maps {
    /// Of the whole text of the file.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut maps: Vec<(u64, u64, Arc<str>)> = Vec::new();
        for found in lines(bytes).filter_map(mapping).filter(|mapping| mapping.is_code).take(MOST) {
            let same = maps.last().map(|(.., file)| file).filter(|file| file.as_bytes() == found.file);
            let file = same.map_or_else(|| text(found.file), Arc::clone);
            maps.push((found.start, found.end, file));
        }
        // The kernel writes them in this order.
        maps.sort_by_key(|(start, ..)| *start);
        Self(maps)
    }

    /// The file at an address; empty for code without a file. `None` where there is no code.
    #[must_use]
    pub fn file(&self, address: u64) -> Option<&Arc<str>> {
        let behind = self.0.partition_point(|(start, ..)| *start <= address);
        let (_, end, file) = self.0.get(behind.checked_sub(1)?)?;
        (address < *end).then_some(file)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/python3.11
00651000-00652000 r--p 00051000 08:02 173521      /usr/bin/python3.11
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000001000-7f0000002000 r-xp 00000000 08:02 77                 /opt/my libs/a b.so (deleted)
7ffe1d3fe000-7ffe1d400000 r-xp 00000000 00:00 0                  [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]
";

    #[test]
    fn addresses_find_their_files() {
        let maps = Maps::parse(TEXT);
        let at = |address| maps.file(address).map(|file| &**file);
        assert_eq!(at(0x400000), Some("/usr/bin/python3.11"));
        assert_eq!(at(0x451fff), Some("/usr/bin/python3.11"));
        assert_eq!((at(0x452000), at(0x651000), at(0), at(u64::MAX)), (None, None, None, None));
        assert_eq!(at(0x7f0000000abc), Some(""));
        assert_eq!(at(0x7f0000001000), Some("/opt/my libs/a b.so (deleted)"));
        assert_eq!((at(0x7ffe1d3ff000), at(0xffffffffff600000)), (Some("[vdso]"), Some("[vsyscall]")));
    }

    #[test]
    fn lines_that_are_none() {
        for line in [
            "",
            "-",
            "1-2",
            "2-1 r-xp 0 0:0 0 a",
            "1-1 r-xp 0 0:0 0",
            "x-2 r-xp 0 0:0 0",
            "+1-2 r-xp 0 0:0 0",
            "1-2 rx 0 0:0 0",
            "1-2 r-xp 0 0:0",
            "11111111111111111-2 r-xp 0 0:0 0",
        ] {
            assert_eq!(mapping(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_line_round_trips(start: u64, length in 1_u64..1 << 40, code: bool, file in "(/[ -~]{0,20}[!-~])?") {
            let end = start.saturating_add(length);
            prop_assume!(start < end);
            let x = if code { 'x' } else { '-' };
            let line = format!("{start:08x}-{end:08x} r-{x}p 0001a000 fd:01 123456 {:>9}{file}", "");
            let wanted = Mapping { start, end, is_code: code, device: (0xfd, 1), inode: 123_456, file: file.as_bytes() };
            prop_assert_eq!(mapping(line.as_bytes()), Some(wanted));
            let maps = Maps::parse(line.as_bytes());
            prop_assert_eq!(maps.file(start).map(|file| file.as_bytes()), code.then_some(file.as_bytes()));
            prop_assert_eq!(maps.file(end), None);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), address: u64) {
            let _ = (mapping(&bytes), Maps::parse(&bytes).file(address));
        }

        #[test]
        fn shuffled_and_cut_lines_are_survived(cut in 0..TEXT.len(), from in 0..TEXT.len(), address: u64) {
            let _ = Maps::parse(TEXT.get(from..cut).unwrap_or_default()).file(address);
        }
    }
}
