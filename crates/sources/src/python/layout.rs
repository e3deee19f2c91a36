//! Where CPython keeps what is read here, by version: offsets in bytes of the structures in its headers (`Include/cpython`,
//! `Include/internal`), for 64-bit builds with a GIL. They are the same for all releases of a version. Since 3.13 CPython itself keeps a
//! table of most of them, for readers like this one; those that are not in it are here.

use super::memory::{Memory, word_at};

/// The offsets of one version.
#[derive(Debug)]
pub(super) struct PythonLayout {
    /// 3.MINOR.
    minor: u32,
    /// Where the runtime holds the first interpreter, and that its first thread; `None` where its own table says it.
    heads: Option<(u64, u64)>,
    pub(super) thread: ThreadLayout,
    pub(super) frame: FrameLayout,
    pub(super) code: CodeLayout,
    pub(super) dict: DictLayout,
    /// A short string's text, and a longer one's whose characters are not ASCII.
    pub(super) text: (u64, u64),
    /// The first item of a tuple.
    pub(super) tuple: u64,
    /// The frame of a generator, or the address of it.
    pub(super) generator: u64,
    /// How a whole number says its length.
    pub(super) is_tagged: bool,
    /// The attributes of objects.
    pub(super) attributes: AttributesPlace,
}

/// `PyThreadState`.
#[derive(Debug)]
pub(super) struct ThreadLayout {
    /// The frame that runs, or what holds its address, with the place there.
    pub(super) frame: u64,
    pub(super) held_at: Option<u64>,
    /// The thread's ID; before 3.11 only the first thread is known, because it is the last one of the list.
    pub(super) native_id: Option<u64>,
}

/// `PyFrameObject` before 3.11, `_PyInterpreterFrame` since.
#[derive(Debug)]
pub(super) struct FrameLayout {
    pub(super) code: usize,
    pub(super) previous: usize,
    pub(super) globals: usize,
    /// What owns it, and from which owner on it is not a function's.
    pub(super) owner: Option<(usize, u8)>,
    pub(super) locals: u64,
    /// The address of its stack; `None` if that begins behind the locals.
    pub(super) stack: Option<usize>,
    /// How far its stack reaches while it does not run.
    pub(super) top: StackTop,
}

/// How a frame that does not run says how far its stack reaches.
#[derive(Debug, Clone, Copy)]
pub(super) enum StackTop {
    /// The address of its end.
    Address(usize),
    /// The number of words in it.
    Depth(usize),
    /// The same, and of the locals before it.
    WithLocals(usize),
}

/// `PyCodeObject`.
#[derive(Debug)]
pub(super) struct CodeLayout {
    /// Number of local variables.
    pub(super) locals: usize,
    pub(super) stack_size: usize,
    /// Their names.
    pub(super) names: usize,
    pub(super) file: usize,
    /// With its class where the code has that.
    pub(super) name: usize,
}

/// `PyDictObject` and its keys.
#[derive(Debug)]
pub(super) struct DictLayout {
    /// Since 3.11 the sizes are logarithms, and keys that are all text have no hash beside them.
    pub(super) is_compact: bool,
    /// Where the values of a table that shares its keys begin.
    pub(super) values: u64,
}

/// Where an object's attributes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributesPlace {
    /// A dictionary, whose place its type says.
    Dict,
    /// Two words before the object: its values, or its dictionary (3.11).
    TwoBefore,
    /// One word before the object, odd if it holds values (3.12).
    OneBefore,
    /// Behind the object, or one word before it (since 3.13).
    Behind,
}

/// Addresses are multiples of four; since 3.14 frames keep marks in the bits below (`Include/internal/pycore_stackref.h`).
pub(super) const MARKS: u64 = 3;
/// The head of a thread's list, and the next one, in every version.
pub(super) const NEXT_THREAD: u64 = 8;
/// What CPython's own table of offsets begins with (`_Py_Debug_Cookie`).
const OWN_TABLE_COOKIE: &[u8; 8] = b"xdebugpy";

const NEW_CODE: CodeLayout = CodeLayout { locals: 72, stack_size: 64, names: 96, file: 112, name: 128 };

const fn old_frame(locals: u64, top: StackTop) -> FrameLayout {
    FrameLayout { code: 32, previous: 24, globals: 48, owner: None, locals, stack: Some(64), top }
}

const fn new_frame(locals: u64, owner: (usize, u8), top: StackTop) -> FrameLayout {
    FrameLayout { code: 0, previous: 8, globals: 24, owner: Some(owner), locals, stack: None, top }
}

const V3_9: PythonLayout = PythonLayout {
    minor: 9,
    heads: Some((32, 8)),
    thread: ThreadLayout { frame: 24, held_at: None, native_id: None },
    frame: old_frame(360, StackTop::Address(72)),
    code: CodeLayout { locals: 28, stack_size: 32, names: 72, file: 104, name: 112 },
    dict: DictLayout { is_compact: false, values: 0 },
    text: (48, 72),
    tuple: 24,
    generator: 16,
    is_tagged: false,
    attributes: AttributesPlace::Dict,
};
const V3_11: PythonLayout = PythonLayout {
    minor: 11,
    heads: Some((40, 16)),
    thread: ThreadLayout { frame: 56, held_at: Some(8), native_id: Some(160) },
    frame: FrameLayout {
        code: 32,
        previous: 48,
        globals: 8,
        owner: Some((69, 3)),
        locals: 72,
        stack: None,
        top: StackTop::WithLocals(64),
    },
    code: CodeLayout { locals: 76, stack_size: 68, ..NEW_CODE },
    dict: DictLayout { is_compact: true, values: 0 },
    generator: 80,
    attributes: AttributesPlace::TwoBefore,
    ..V3_9
};
const V3_12: PythonLayout = PythonLayout {
    minor: 12,
    heads: Some((40, 72)),
    thread: ThreadLayout { frame: 56, held_at: Some(0), native_id: Some(144) },
    frame: new_frame(72, (70, 3), StackTop::WithLocals(64)),
    code: NEW_CODE,
    text: (40, 56),
    generator: 72,
    is_tagged: true,
    attributes: AttributesPlace::OneBefore,
    ..V3_11
};
const V3_13: PythonLayout = PythonLayout {
    minor: 13,
    heads: None,
    thread: ThreadLayout { frame: 72, held_at: None, native_id: Some(160) },
    dict: DictLayout { is_compact: true, values: 8 },
    attributes: AttributesPlace::Behind,
    ..V3_12
};
static LAYOUTS: [PythonLayout; 6] = [
    V3_9,
    PythonLayout { minor: 10, frame: old_frame(352, StackTop::Depth(80)), ..V3_9 },
    V3_11,
    V3_12,
    V3_13,
    PythonLayout { minor: 14, frame: new_frame(80, (74, 3), StackTop::Address(64)), tuple: 32, ..V3_13 },
];

impl PythonLayout {
    /// The one of 3.`minor`.
    pub(super) fn of_version(minor: u32) -> Option<&'static Self> {
        LAYOUTS.iter().find(|layout| layout.minor == minor)
    }

    /// The newest thread of the main interpreter.
    pub(super) fn first_thread(&self, memory: &Memory, runtime: u64) -> Option<u64> {
        let (first, threads) = match self.heads {
            Some(heads) => heads,
            None => own_table(memory, runtime, self.minor)?,
        };
        let interpreter = memory.word(runtime.checked_add(first)?)?;
        memory.word(interpreter.checked_add(threads)?).filter(|&thread| thread != 0)
    }
}

/// Where the runtime holds the first interpreter, and that its first thread, as the runtime's own table says: its cookie, version,
/// whether it has no GIL, three words about the runtime, and then about interpreters.
fn own_table(memory: &Memory, runtime: u64, minor: u32) -> Option<(u64, u64)> {
    let table: [u8; 80] = memory.array(runtime)?;
    let version = word_at(&table, 8)?;
    let is_known =
        table.starts_with(OWN_TABLE_COOKIE) && version >> 16 == u64::from(0x300 | minor) && word_at(&table, 16)? == 0;
    let (first, threads) = (word_at(&table, 40)?, word_at(&table, 72)?);
    // Offsets, which are added to addresses.
    (is_known && first < 1 << 32 && threads < 1 << 32).then_some((first, threads))
}
