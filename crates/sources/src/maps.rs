//! `/proc/PID/maps` (proc(5)): which files are mapped.

use super::fields::{Fields, hexadecimal, number};

/// One line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Its first address, and the one behind it.
    pub addresses: (u64, u64),
    /// Where in the file it begins, bytes.
    pub offset: u64,
    /// Executable.
    pub is_code: bool,
    /// The file's device number: major, minor.
    pub device: (u32, u32),
    /// Inode of the file; 0 for anonymous memory.
    pub inode: u64,
    /// Path of the file, `[vdso]` and the like, or empty.
    pub file: &'a [u8],
}

/// Parses one line; `None` if it is malformed.
pub fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = Fields::new(line);
    let mut ends = fields.next()?.splitn(2, |&byte| byte == b'-').map(hexadecimal);
    let (start, end) = (ends.next()??, ends.next()??);
    let permissions = fields.next().filter(|permissions| permissions.len() == 4)?;
    let offset = hexadecimal(fields.next()?)?;
    let (major, minor) = std::str::from_utf8(fields.next()?).ok()?.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = fields.next()?;
    // The path is the rest of the line, blanks included; empty if the line ends after the inode.
    let behind = inode.as_ptr() as usize - line.as_ptr() as usize + inode.len();
    let file = line.get(behind..)?.trim_ascii_start();
    let (inode, is_code) = (number(inode)?, permissions.contains(&b'x'));
    (start < end).then_some(Mapping { addresses: (start, end), offset, is_code, device, inode, file })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            let wanted = Mapping { addresses: (start, end), offset: 0x1a000, is_code: code, device: (0xfd, 1), inode: 123_456, file: file.as_bytes() };
            prop_assert_eq!(mapping(line.as_bytes()), Some(wanted));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = mapping(&bytes);
        }
    }
}
