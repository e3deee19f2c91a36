//! The frames of a process's threads, with what they count.

use std::sync::Arc;

use super::PythonPlaces;
use super::iterators::{Progress, batches};
use super::layout::{MARKS, NEXT_THREAD, PythonLayout, StackTop};
use super::memory::{Memory, half_at, word_at};
use super::objects::{Kind, Objects};
use crate::fields::{head, tail};
use trainmon_sample::locals::{COUNTS, FRAMES, LOOPS, MODULE, NAME, NUMBERS, THREADS, THREADS_BEGUN, UNKNOWN_TURNS};
use trainmon_sample::{FrameLocals, ThreadLocals, stacks};

/// Most threads of an interpreter looked at, and frames of a thread.
const THREADS_LOOKED_AT: usize = 512;
const FRAMES_LOOKED_AT: usize = 1024;
/// The ends of names of attributes in which loops of libraries keep an object with what they count: Transformers, Ignite, uvicorn.
const STATE: &str = "state";
/// The local variable whose tensor has all tokens so far where text is generated: Transformers.
const TOKENS: &str = "input_ids";
/// Folders of code that is not the user's: what it counts in objects of other names is not looked for.
const OF_LIBRARIES: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python3"];
/// The file of servers that begin a thread for each request, the module by which they do, and what counts its threads.
const SERVER: &str = "/socketserver.py";
const THREADING: &str = "threading";
const THREAD_COUNTER: &str = "_counter";
/// Where a module has its variables, and a method that is bound to an object that object.
const MODULE_VARIABLES: u64 = 16;
const METHOD_OBJECT: u64 = 24;
/// What a bar of tqdm has done, and an attribute that only such bars have; in code of libraries only variables are asked that are called so.
const BAR_DONE: &str = "n";
const OF_BARS: &str = "last_print_n";
const BAR: &str = "bar";
/// Part of the name of a variable that says how many items a batch has.
const SIZE: &str = "size";
/// Attributes in which iterators keep another one.
const ITERATORS: [&str; 6] = ["iterator", "_iterator", "iter", "_iter", "it", "_it"];
/// How many generators are looked into one another: a progress bar around a loader's generator.
const GENERATORS_WITHIN: u32 = 4;
/// How often frames are read that change meanwhile.
const FRAME_TRIES: u32 = 3;
/// Most local variables and places of the stack looked at: a `for` loop is at the bottom of the stack.
const LOCALS: u64 = 256;
const STACK: u64 = 12;
/// The file that runs modules when they are imported.
const IMPORTLIB: &str = "<frozen importlib._bootstrap>";

/// The threads of one process.
pub(super) struct Threads<'m> {
    objects: Objects<'m>,
    runtime: u64,
}

/// A frame before anything that it refers to is read.
struct PythonFrame {
    at: u64,
    head: [u8; 88],
    code: u64,
}

impl<'m> Threads<'m> {
    pub(super) fn new(memory: &'m Memory<'m>, layout: &'static PythonLayout, places: PythonPlaces) -> Self {
        Self { objects: Objects::new(memory, layout, places.no_next), runtime: places.runtime }
    }

    /// The threads, those of `main_tids` first.
    pub(super) fn read(&self, main_tids: &[u32]) -> Vec<ThreadLocals> {
        self.list(main_tids)
            .into_iter()
            .map(|(at, thread)| {
                let frames = (0..FRAME_TRIES).find_map(|_| self.frames(at)).unwrap_or_default();
                ThreadLocals { frames, ..thread }
            })
            .collect()
    }

    /// The function that objects have for `next` that are no iterators. It is not exported in all versions, so an object is asked that is
    /// not one: what loaded a module that runs.
    pub(super) fn no_next(&self, main_tids: &[u32]) -> Option<u64> {
        let (thread, _) = self.list(main_tids).into_iter().next()?;
        (0..FRAME_TRIES).find_map(|_| {
            self.chain(thread)?.iter().rev().find_map(|(frame, _)| {
                let globals = word_at(&frame.head, self.objects.layout.frame.globals)?;
                let (_, loader) = self.objects.variables(globals, |name| name == "__loader__").pop()?;
                self.objects.next_of(self.objects.memory.word(loader)?)
            })
        })
    }

    /// The threads by address, the first one before the others.
    fn list(&self, main_tids: &[u32]) -> Vec<(u64, ThreadLocals)> {
        let Objects { memory, layout, .. } = self.objects;
        let mut at = layout.first_thread(memory, self.runtime).unwrap_or(0);
        let mut found = Vec::new();
        while at != 0 && found.len() < THREADS_LOOKED_AT {
            let tid = layout.thread.native_id.and_then(|offset| memory.word(at.checked_add(offset)?));
            let tid = tid.and_then(|tid| u32::try_from(tid).ok());
            let is_main = tid.is_some_and(|tid| main_tids.contains(&tid));
            found.push((at, ThreadLocals { tid, is_main, frames: Vec::new() }));
            at = at.checked_add(NEXT_THREAD).and_then(|next| memory.word(next)).unwrap_or(0);
        }
        if layout.thread.native_id.is_none() {
            found = found.pop().into_iter().collect();
            for (_, thread) in &mut found {
                (thread.tid, thread.is_main) = (main_tids.first().copied(), true);
            }
        }
        found.sort_by_key(|(_, thread)| !thread.is_main);
        found.truncate(THREADS);
        found
    }

    /// The outermost frames of a thread, outermost first; `None` if they changed while they were read, so that they do not lead to the
    /// outermost one.
    fn frames(&self, thread: u64) -> Option<Vec<FrameLocals>> {
        let mut frames: Vec<FrameLocals> = Vec::new();
        let chain = self.chain(thread)?;
        for (frame, _) in chain.iter().rev().filter(|(_, is_function)| *is_function).take(FRAMES) {
            let is_imported = frames.last().is_some_and(|outer| *outer.file == *IMPORTLIB);
            frames.extend(self.read_frame(frame, is_imported));
        }
        Some(frames)
    }

    /// All frames of a thread, innermost first, and whether each is a function's.
    fn chain(&self, thread: u64) -> Option<Vec<(PythonFrame, bool)>> {
        let Objects { memory, layout, .. } = self.objects;
        let mut at = memory.word(thread.checked_add(layout.thread.frame)?)?;
        if let Some(offset) = layout.thread.held_at {
            at = memory.word(at.checked_add(offset)?)?;
        }
        let mut found = Vec::new();
        while at != 0 {
            if found.len() == FRAMES_LOOKED_AT {
                return None;
            }
            let frame = self.frame(at)?;
            at = word_at(&frame.head, layout.frame.previous)?;
            let is_function = layout
                .frame
                .owner
                .is_none_or(|(offset, from)| frame.head.get(offset).is_some_and(|owner| *owner < from));
            found.push((frame, is_function));
        }
        Some(found)
    }

    fn frame(&self, at: u64) -> Option<PythonFrame> {
        let Objects { memory, layout, .. } = self.objects;
        let head: [u8; 88] = memory.array(at)?;
        let code = word_at(&head, layout.frame.code)? & !MARKS;
        Some(PythonFrame { at, head, code })
    }

    /// A frame; the variables of a module that is being imported count nothing.
    fn read_frame(&self, frame: &PythonFrame, is_imported: bool) -> Option<FrameLocals> {
        let Objects { memory, layout, .. } = self.objects;
        if self.objects.kind(frame.code)? != Kind::Code {
            return None;
        }
        let code: [u8; 136] = memory.array(frame.code)?;
        let text = |offset: usize| self.objects.text(word_at(&code, offset)?);
        let (function, file) = (text(layout.code.name)?, text(layout.code.file)?);
        let is_users = !OF_LIBRARIES.iter().any(|folder| file.contains(folder)) && !is_imported;
        let mut numbers = self.numbers(frame, &code, is_users).unwrap_or_default();
        if file.ends_with(SERVER) {
            numbers.extend(self.threads_begun(frame).map(|begun| (THREADS_BEGUN.into(), begun)));
        }
        if function == MODULE && !is_imported {
            let globals = word_at(&frame.head, layout.frame.globals)?;
            let variables = self.objects.variables(globals, is_variable);
            if is_users {
                numbers.extend(variables.iter().flat_map(|(name, place)| self.counts_in(name, *place)));
            }
            numbers.extend(self.ints(variables, ""));
        }
        // Another call may have taken its place meanwhile, with other variables.
        if self.frame(frame.at).is_none_or(|now| now.code != frame.code) {
            numbers.clear();
        }
        numbers.retain(|(name, _)| name.len() <= NAME);
        numbers.truncate(NUMBERS);
        let (function, file) = (head(&function, stacks::NAME).into(), tail(&file, stacks::NAME).into());
        Some(FrameLocals { function, file, numbers })
    }

    /// The local variables that are whole numbers, what `self` counts and, in the user's code, other objects, and how far the loops have
    /// come.
    fn numbers(&self, frame: &PythonFrame, code: &[u8], is_users: bool) -> Option<Vec<(Arc<str>, i64)>> {
        let mut numbers = Vec::new();
        for (name, place) in self.locals(frame, code)? {
            match self.objects.kind(self.objects.memory.word(place)? & !MARKS) {
                Some(Kind::Int | Kind::NumpyInt) => {
                    numbers.extend(self.objects.int_at(place).map(|value| (name, value)))
                }
                Some(Kind::Tensor) if *name == *TOKENS => {
                    numbers.extend(self.objects.elements_at(place).map(|tokens| (name, tokens)));
                }
                Some(Kind::Object(_)) if *name == *"self" => {
                    let object = self.objects.memory.word(place)? & !MARKS;
                    let found = self.objects.attributes(object, |name| name.ends_with(STATE) || counts(name));
                    let states = found.iter().filter(|(name, _)| name.ends_with(STATE));
                    let of_states = states.flat_map(|(name, place)| self.counts_in(&format!("self.{name}"), *place));
                    numbers.extend(of_states.collect::<Vec<_>>());
                    numbers.extend(self.ints(found, "self."));
                }
                Some(Kind::Object(_) | Kind::Dict) if is_users || name.ends_with(BAR) => {
                    numbers.extend(self.counts_in(&name, place));
                }
                _ => {}
            }
        }
        let loops = self.loops(frame, code, true, GENERATORS_WITHIN).unwrap_or_default();
        numbers.extend(LOOPS.iter().map(|name| Arc::from(*name)).zip(loops));
        Some(numbers)
    }

    /// How many threads Python has numbered, as a module knows that uses `threading`.
    fn threads_begun(&self, frame: &PythonFrame) -> Option<i64> {
        let Objects { memory, layout, .. } = self.objects;
        let of = |variables: u64, name: &str| {
            let (_, place) = self.objects.variables(variables, |known| known == name).pop()?;
            memory.word(place)
        };
        let module = of(word_at(&frame.head, layout.frame.globals)?, THREADING)?;
        let next = of(memory.word(module.checked_add(MODULE_VARIABLES)?)?, THREAD_COUNTER)?;
        match self.objects.progress(memory.word(next.checked_add(METHOD_OBJECT)?)?)? {
            Progress::Turns(turns) => Some(turns),
            _ => None,
        }
    }

    /// The local variables of a frame, and where it refers to their values.
    fn locals(&self, frame: &PythonFrame, code: &[u8]) -> Option<Vec<(Arc<str>, u64)>> {
        let layout = self.objects.layout;
        let count = u64::from(half_at(code, layout.code.locals)?).min(LOCALS);
        let begin = frame.at.checked_add(layout.frame.locals)?;
        let values = self.objects.words(begin, count)?;
        let names = self.objects.items(word_at(code, layout.code.names)?, count)?;
        let variables = (begin..).step_by(8).zip(values).zip(names);
        let is_set = |value: u64| value & !MARKS != 0;
        let named = variables.filter_map(
            |((place, value), name)| {
                if is_set(value) { Some((self.objects.name(name)?, place)) } else { None }
            },
        );
        Some(named.collect())
    }

    /// How far the loops on a frame's stack have come, the outermost one first. Where a frame runs, its end is not known: what is above
    /// it is old, so only iterators are followed: an old one does not move. Generators are looked into one another so often.
    fn loops(&self, frame: &PythonFrame, code: &[u8], runs: bool, within: u32) -> Option<Vec<i64>> {
        let layout = self.objects.layout;
        let locals = u64::from(half_at(code, layout.code.locals)?);
        let begin = frame.at.checked_add(layout.frame.locals)?;
        let stack = match layout.frame.stack {
            Some(offset) => word_at(&frame.head, offset)?,
            None => begin.checked_add(locals * 8)?,
        };
        let size = match layout.frame.top {
            _ if runs => u64::from(half_at(code, layout.code.stack_size)?),
            StackTop::Address(offset) => word_at(&frame.head, offset)?.checked_sub(stack)? / 8,
            StackTop::Depth(offset) => half_at(&frame.head, offset)?.into(),
            StackTop::WithLocals(offset) => {
                let end = begin.checked_add(u64::from(half_at(&frame.head, offset)?) * 8)?;
                end.checked_sub(stack)? / 8
            }
        };
        let size = size.min(STACK);
        let progress =
            self.objects.words(stack, size)?.into_iter().filter_map(|place| self.objects.progress(place & !MARKS));
        let counts = progress.map(|progress| self.turns(progress, within).unwrap_or(UNKNOWN_TURNS));
        Some(counts.take(LOOPS.len()).collect())
    }

    /// How many turns an iterator has handed out, if that is known.
    fn turns(&self, progress: Progress, within: u32) -> Option<i64> {
        match progress {
            Progress::Turns(turns) => Some(turns),
            Progress::Generator(generator) => self.generator(generator, within),
            Progress::Object(object) => self.object(object, within),
            Progress::Unknown => None,
        }
    }

    /// How far an iterator of Python code has come: by what it counts, or by what it iterates over itself.
    fn object(&self, object: u64, within: u32) -> Option<i64> {
        if let Some((_, value)) = self.counts(object, "").first() {
            return Some(*value);
        }
        let within = within.checked_sub(1)?;
        let inner = self.objects.attributes(object, |name| ITERATORS.contains(&name));
        inner.into_iter().find_map(|(_, place)| {
            self.turns(self.objects.progress(self.objects.memory.word(place)? & !MARKS)?, within)
        })
    }

    /// How far the loop in a generator has come. Its variables may count what it yields or what it reads. If it has no `for` loop, it may
    /// take so many items for each turn from an iterator among its variables: `list(islice(items, size))`.
    fn generator(&self, generator: u64, within: u32) -> Option<i64> {
        let within = within.checked_sub(1)?;
        let Objects { memory, layout, .. } = self.objects;
        let at = generator.checked_add(layout.generator)?;
        let frame = self.frame(if layout.frame.owner.is_some() { at } else { memory.word(at)? })?;
        let code: [u8; 136] = memory.array(frame.code)?;
        if self.objects.kind(frame.code)? != Kind::Code {
            return None;
        }
        self.loops(&frame, &code, false, within)?.first().copied().or_else(|| {
            let locals = self.locals(&frame, &code)?;
            let items = locals.iter().find_map(|(_, place)| {
                match self.objects.progress(self.objects.memory.word(*place)? & !MARKS)? {
                    Progress::Turns(items) => Some(items),
                    _ => None,
                }
            })?;
            let sizes = locals.iter().filter(|(name, _)| name.contains(SIZE));
            let size = sizes.filter_map(|(_, place)| self.objects.int_at(*place)).next();
            batches(items, size.unwrap_or(1))
        })
    }

    /// The attributes under which an object keeps how far it has come.
    fn counts(&self, object: u64, prefix: &str) -> Vec<(Arc<str>, i64)> {
        self.ints(self.objects.attributes(object, counts), prefix)
    }

    /// What the attributes of an object or the entries of a dictionary count that is referred to at an address.
    fn counts_in(&self, name: &str, place: u64) -> Vec<(Arc<str>, i64)> {
        let Some(object) = self.objects.memory.word(place).map(|object| object & !MARKS) else { return Vec::new() };
        match self.objects.kind(object) {
            Some(Kind::Object(_)) => {
                let mut found =
                    self.objects.attributes(object, |name| counts(name) || [BAR_DONE, OF_BARS].contains(&name));
                let is_bar = found.iter().any(|(name, _)| **name == *OF_BARS);
                found.retain(|(name, _)| counts(name) || is_bar && **name == *BAR_DONE);
                self.ints(found, &format!("{name}."))
            }
            Some(Kind::Dict) => {
                let found = self.ints(self.objects.variables(object, counts), "");
                found.into_iter().map(|(key, value)| (format!("{name}['{key}']").into(), value)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn ints(&self, found: Vec<(Arc<str>, u64)>, prefix: &str) -> Vec<(Arc<str>, i64)> {
        let named = |name: Arc<str>| if prefix.is_empty() { name } else { format!("{prefix}{name}").into() };
        let int = |(name, place): (Arc<str>, u64)| Some((named(name), self.objects.int_at(place)?));
        found.into_iter().filter_map(int).take(NUMBERS).collect()
    }
}

/// Whether it is called like a count.
fn counts(name: &str) -> bool {
    COUNTS.iter().any(|part| name.contains(part))
}

/// Whether a module's name is one that a loop's variable has: constants are in capitals, and what is private or built in begins with an underscore.
fn is_variable(name: &str) -> bool {
    !name.starts_with('_') && name.chars().any(char::is_lowercase)
}
