//! The texts of a sample that reveal the machine and the people who use it. Code that masks secrets or removes
//! directories receives each text with its kind, so each part lists its texts once.

use std::sync::Arc;

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// A command line.
    Command,
    /// The command line of trainmon itself, or of a program that it started.
    OwnCommand,
    /// The name of a process, thread or library.
    Name,
    /// A path, the source of a mount, a control group.
    Path,
    /// What a descriptor points to: a path, or a kernel name (`pipe:[inode]`).
    Link,
    /// The path of a source file.
    CodeFile,
    /// A line of code, or a reason in words.
    Prose,
    /// An address with its port.
    Address,
}

/// Receives one text after another, and may change it.
pub type Visit<'a> = &'a mut dyn FnMut(TextKind, &mut Arc<str>);

/// A part of a sample that may contain texts.
pub trait Private {
    /// Passes on all texts. A part without texts keeps this default.
    fn visit_texts(&mut self, _visit: Visit<'_>) {}

    /// Drops what must be left out entirely when a sample is given to others.
    fn leave_out(&mut self) {}
}
