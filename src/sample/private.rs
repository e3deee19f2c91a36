//! The texts of a sample, which tell of the machine it was taken on and of the people who use it. Whoever masks secrets or
//! takes out directories is handed each of them with its kind, so a part says once what it holds.

use std::sync::Arc;

/// What kind of text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// A command line.
    Command,
    /// The name of a process, of a thread or of a library.
    Name,
    /// A path, the source of a mount, a control group.
    Path,
    /// What a descriptor points to: a path, or a name of the kernel's (`pipe:[inode]`).
    Link,
    /// The path of a file of code.
    CodeFile,
    /// A line of code, or a reason in words.
    Prose,
    /// An address with its port.
    Address,
}

/// Is handed one text after the other, and may change it.
pub type Visit<'a> = &'a mut dyn FnMut(TextKind, &mut Arc<str>);

/// A part of a sample that may hold texts.
pub trait Private {
    /// Hands over all texts. A part that holds none leaves this as it is.
    fn visit_texts(&mut self, _visit: Visit<'_>) {}

    /// Drops what is left out altogether where a sample is given to others.
    fn leave_out(&mut self) {}
}
