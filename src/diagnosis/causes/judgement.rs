//! What is found of a window, and what is said beside it.

use serde::{Deserialize, Serialize};

use super::{Cause, CauseSpec};
use crate::diagnosis::class::{Class, Phase};
use crate::diagnosis::culprits::{self, Culprit, CulpritKind, ShareOf};
use crate::diagnosis::features::Features;
use crate::diagnosis::stats::round;
use crate::diagnosis::thresholds::{CERTAIN, Threshold};

/// What is found of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::diagnosis) struct Judgement {
    pub phase: Phase,
    pub class: Class,
    pub cause: Option<Cause>,
    /// 0–1.
    pub confidence: f64,
    /// What it is, where that can be said more closely than for the cause in general.
    pub meaning: Option<String>,
    /// What was missing or contradicts, in words.
    pub doubts: Vec<String>,
    /// What else was found.
    pub others: Vec<Finding>,
}

/// Another finding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Class.
    pub class: Class,
    /// Cause.
    #[serde(default, deserialize_with = "super::known")]
    pub cause: Option<Cause>,
    /// 0–1.
    pub confidence: f64,
    /// For a person.
    pub text: String,
}

impl Finding {
    /// It is no verdict of its own: it says why the verdict is less sure.
    #[must_use]
    pub fn is_doubt(&self) -> bool {
        self.cause.is_none() && self.confidence <= 0.0
    }

    /// One of a cause.
    pub(in crate::diagnosis) fn new(cause: Cause, confidence: f64, text: impl Into<String>) -> Self {
        let confidence = round(confidence.clamp(0.0, 1.0), 2);
        Self { class: cause.spec().class, cause: Some(cause), confidence, text: text.into() }
    }
}

impl Judgement {
    /// One without a cause.
    pub fn state(phase: Phase, class: Class, confidence: impl Into<f64>) -> Self {
        Self { phase, class, confidence: confidence.into(), ..Self::default() }
    }

    /// A cause that holds back a loop.
    pub fn new(cause: Cause, confidence: impl Into<f64>) -> Self {
        let confidence = confidence.into().clamp(0.0, CERTAIN.value);
        Self { cause: Some(cause), ..Self::state(Phase::Training, cause.spec().class, confidence) }
    }

    /// Says it more closely.
    pub fn meaning(mut self, text: impl Into<String>) -> Self {
        self.meaning = Some(text.into());
        self
    }

    /// Says what was missing.
    pub fn doubt(mut self, text: impl Into<String>) -> Self {
        self.doubts.push(text.into());
        self
    }

    /// Says what makes it less sure, and by which factor.
    pub fn less_sure(mut self, factor: Threshold, text: impl Into<String>) -> Self {
        self.confidence *= factor.value;
        self.doubt(text)
    }

    /// Says first of all else that this is true as well: it costs less.
    pub fn beside(mut self, cause: Cause, confidence: impl Into<f64>, text: impl Into<String>) -> Self {
        self.others.insert(0, Finding::new(cause, confidence.into(), text));
        self
    }

    /// Adds another finding.
    pub fn other(mut self, cause: Cause, confidence: impl Into<f64>, text: impl Into<String>) -> Self {
        self.others.push(Finding::new(cause, confidence.into(), text));
        self
    }

    /// Whom or what it blames, most to blame first, given what is known of its cause.
    pub fn culprits(&self, spec: Option<&CauseSpec>, window: &Features) -> Vec<Culprit> {
        let mut found: Vec<Culprit> = match spec {
            Some(spec) => spec.culprits.iter().flat_map(|search| search(window)).collect(),
            None if self.phase == Phase::Hung => {
                window.ranks_gone.iter().map(|rank| Culprit::rank(*rank, None)).collect()
            }
            None => Vec::new(),
        };
        let line = spec.and_then(|spec| spec.line(window));
        found.extend(
            line.map(|(_, line)| Culprit::new(CulpritKind::Line, line.to_string()).taking(line.share, ShareOf::Time)),
        );
        found.truncate(culprits::MOST);
        found
    }

    /// Whom or what the causes outside of the job blame that are true as well.
    pub fn culprits_outside(&self, window: &Features) -> Vec<Culprit> {
        let causes = self.others.iter().filter_map(|other| other.cause).filter(|cause| cause.is_outside());
        causes.flat_map(|cause| cause.spec().culprits).flat_map(|search| search(window)).collect()
    }
}
