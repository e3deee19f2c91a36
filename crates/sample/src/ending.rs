//! How the attached process has ended, as far as that can be known from outside.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::{Private, TextKind, Visit};

/// The end of the attached process, in the last sample of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndingSample {
    /// Its exit code, if it ended on its own and its status could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The number of the signal that killed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// The kernel's log says that it was killed because memory ran out; `None` if the log cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<bool>,
    /// The end of the file that its output goes to, if it is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputEnd>,
}

impl EndingSample {
    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The last lines of a file of output, with secrets masked and without control characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputEnd {
    /// Path of the file.
    pub file: Arc<str>,
    /// The lines: the end of the last traceback, otherwise those at the very end.
    pub lines: Vec<Arc<str>>,
    /// They are the end of a traceback.
    pub traceback: bool,
    /// Lines with text that follow the traceback.
    pub lines_after: u32,
}

impl Private for EndingSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        if let Some(output) = &mut self.output {
            visit(TextKind::Path, &mut output.file);
            output.lines.iter_mut().for_each(|line| visit(TextKind::Prose, line));
        }
    }

    fn leave_out(&mut self) {
        self.output = None; // a program may print anything
    }
}
