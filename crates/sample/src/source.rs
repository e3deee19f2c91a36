//! The state of a source at a tick, and what follows from the table of sources (`sources!` in the parent module).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::Private;
use super::{Sample, SourceId};

/// The part of a [`Sample`] that one source fills.
pub trait SamplePart: Private + Sized {
    /// The source that fills it.
    const SOURCE: SourceId;

    /// Its place in a sample.
    fn place(sample: &mut Sample) -> &mut Option<Arc<Self>>;
}

/// Builds the table of sources. For each: its part, the part's field in [`Sample`], the field of its status in
/// [`Sources`], its title for users, and its word in a verdict's `seen`, if it has one. `without_status` lists the other
/// fields of [`Sample`] that hold a part: no page and no verdict says how their sources are.
macro_rules! sources {
    (without_status: $($more:ident),*; $($(#[$doc:meta])* $source:ident($part:ty) {
        value: $value:ident, status: $status:ident, title: $title:literal, seen: $seen:expr $(,)?
    })*) => {
        /// A source.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SourceId {
            $($(#[$doc])* $source,)*
        }

        /// The state of each source.
        #[derive(Debug, Clone, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Sources {
            $($(#[$doc])* pub $status: SourceStatus,)*
        }

        impl SourceId {
            /// All of them, in display order.
            pub const ALL: &[Self] = &[$(Self::$source),*];

            /// Its title for users.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$source => $title,)*
                }
            }

            /// Its name in a verdict's `seen`.
            pub fn seen_as(self) -> Option<&'static str> {
                match self {
                    $(Self::$source => $seen,)*
                }
            }
        }

        impl Sources {
            /// All of them, in the order of [`SourceId::ALL`].
            pub fn all(&self) -> [(SourceId, &SourceStatus); SourceId::ALL.len()] {
                [$((SourceId::$source, &self.$status)),*]
            }

            /// Like [`Self::all`], mutable.
            pub fn all_mut(&mut self) -> [&mut SourceStatus; SourceId::ALL.len()] {
                [$(&mut self.$status),*]
            }
        }

        impl Sample {
            /// The parts that exist, mutable.
            fn parts_mut(&mut self) -> impl Iterator<Item = &mut dyn Private> {
                let parts: Vec<Option<&mut dyn Private>> = vec![
                    $(self.$value.as_mut().map(|part| Arc::make_mut(part) as _),)*
                    $(self.$more.as_mut().map(|part| Arc::make_mut(part) as _),)*
                ];
                parts.into_iter().flatten()
            }
        }

        $(impl SamplePart for $part {
            const SOURCE: SourceId = SourceId::$source;

            fn place(sample: &mut Sample) -> &mut Option<Arc<Self>> {
                &mut sample.$value
            }
        })*
    };
}
pub(super) use sources;

/// State of one source, with the reason in words unless it is [`SourceState::Fresh`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// The state.
    pub state: SourceState,
    /// Why, in one short line ("libnvidia-ml.so.1 not found").
    pub reason: Option<Arc<str>>,
    /// The command or setting that would fix it.
    #[serde(alias = "mend")]
    pub fix: Option<Arc<str>>,
    /// Milliseconds since the value shown was read.
    pub age_ms: Option<u64>,
}

impl SourceStatus {
    /// A state with its reason. Line breaks in the reason (the loader's messages have them) become blanks.
    pub fn new(state: SourceState, reason: impl Into<Arc<str>>) -> Self {
        let mut reason = reason.into();
        if reason.contains(['\n', '\r']) {
            let lines = reason.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
            reason = lines.collect::<Vec<_>>().join(" ").into();
        }
        Self { state, reason: Some(reason), ..Self::default() }
    }

    /// The same, with how to fix it.
    pub fn fixed_by(self, fix: impl Into<Arc<str>>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

impl fmt::Display for SourceStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason.as_deref().unwrap_or(self.state.seen()))
    }
}

impl From<SourceState> for SourceStatus {
    fn from(state: SourceState) -> Self {
        Self { state, ..Self::default() }
    }
}

/// Whether a source's latest value can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceState {
    /// Nothing has been read yet.
    #[default]
    Pending,
    /// Read within the last two intervals.
    Fresh,
    /// The last value is older than two intervals.
    Stale,
    /// A call has taken longer than its timeout.
    Hung,
    /// What was read is gone (process exited, GPU lost).
    Gone,
    /// There is nothing to read here (no driver, no library, no such file).
    Absent,
    /// The kernel refuses access.
    Denied,
}

impl SourceState {
    /// The word in the JSON's `seen` object: `ok`, `denied`, `absent`, `hung`, or a short kind.
    pub fn seen(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Fresh => "ok",
            Self::Stale => "stale",
            Self::Hung => "hung",
            Self::Gone => "gone",
            Self::Absent => "absent",
            Self::Denied => "denied",
        }
    }
}
