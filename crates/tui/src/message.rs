//! What happens to the screen, and what the screen asks for.

use std::sync::Arc;

use crossterm::event::{Event, KeyEvent, KeyEventKind, MouseEvent};

use trainmon_attach::jobs::output::OutputTail;
use trainmon_attach::jobs::{JobCandidate, JobEvent, JobKey, Target};
use trainmon_base::text::named_enum;
use trainmon_diagnosis::fleet::Fleet;
use trainmon_profiles::asked::ProfileStage;
use trainmon_sample::ProcessId;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// Text was pasted: for a prompt, if one is open.
    Paste(String),
    /// The terminal now has this many columns and rows.
    Resize(u16, u16),
    /// A job has sent something.
    Job(JobKey, JobEvent),
    /// A job has been attached; it is shown from now on.
    Attached(JobKey, Target),
    /// The processes that may be training, best first, for the list of jobs.
    Candidates(Vec<JobCandidate>),
    /// So many seconds have passed: a replay moves on.
    Advance(f64),
    /// The last lines that the program of `trainmon run` wrote.
    Output(OutputTail),
    /// Prometheus has answered, or why not, in a line.
    Fleet(Result<Arc<Fleet>, String>),
    /// How far the profile is that a job is asked for.
    ProfileStage(JobKey, ProfileStage),
    /// A job's profile is taken and comes with its next tick, or why not, in a line.
    Profile(JobKey, Result<(), String>),
    /// One line for the footer, until the next key.
    Notice(String),
    /// End the program.
    Quit,
}

impl Message {
    /// The message of a terminal event, if it has one: releasing a key has none.
    pub fn from_event(event: Event) -> Option<Self> {
        match event {
            Event::Key(key) => (key.kind != KeyEventKind::Release).then_some(Self::Key(key)),
            Event::Mouse(mouse) => Some(Self::Mouse(mouse)),
            Event::Paste(text) => Some(Self::Paste(text)),
            Event::Resize(columns, rows) => Some(Self::Resize(columns, rows)),
            Event::FocusGained | Event::FocusLost => None,
        }
    }
}

/// Something for the loop to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Leave the screen and exit.
    Quit,
    /// Draw.
    Redraw,
    /// Ask Prometheus again, now.
    Refresh,
    /// Forget what the terminal shows, then draw.
    Repaint,
    /// Leave the screen, stop the process, and return when it is continued.
    Suspend,
    /// Put this text on the clipboard.
    Copy(String),
    /// Write this into a file in the working directory, and say so.
    Save(Export),
    /// Report the mouse, or leave it to the terminal.
    Mouse(bool),
    /// Watch this process as well.
    Attach(u32),
    /// Stop watching this job.
    Detach(JobKey),
    /// Ask these processes of a job for a profile.
    Profile(JobKey, Vec<u32>),
    /// Give the profile up that a job is asked for.
    GiveUpProfile,
    /// Send a signal that a person has confirmed.
    Signal(ProcessId, i32),
}

named_enum! {
    /// The content of a file, with its extension.
    pub enum Export {
        /// The verdict as Markdown.
        Markdown = "md",
        /// The verdict as JSON.
        Json = "json",
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

    #[test]
    fn a_release_does_nothing() {
        let press = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        let release = KeyEvent { kind: KeyEventKind::Release, ..press };
        assert!(Message::from_event(Event::Key(press)).is_some());
        assert!(Message::from_event(Event::Key(release)).is_none());
    }
}
