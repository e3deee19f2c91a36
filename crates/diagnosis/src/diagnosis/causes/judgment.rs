//! The judgment on a window, and what else was found in it.

use serde::{Deserialize, Serialize};

use super::Cause;
use crate::diagnosis::class::{Class, Phase};
use crate::diagnosis::thresholds::{CERTAIN, Threshold};
use trainmon_base::stats::round;

/// The judgment on a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::diagnosis) struct Judgment {
    pub phase: Phase,
    pub class: Class,
    pub cause: Option<Cause>,
    /// 0–1.
    pub confidence: f64,
    /// What it means here, if that is more than what the cause means in general.
    pub meaning: Option<String>,
    /// What was missing or contradicts, in words that follow "Less certain:".
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
    /// Share of the loop's time that it costs, if it is one of several limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

impl Finding {
    /// It only says why the verdict is less certain.
    pub fn is_doubt(&self) -> bool {
        self.cause.is_none() && self.confidence <= 0.0
    }

    /// A finding of a cause.
    pub(in crate::diagnosis) fn new(cause: Cause, confidence: f64, text: impl Into<String>) -> Self {
        let confidence = round(confidence.clamp(0.0, 1.0), 2);
        Self { class: cause.spec().class, cause: Some(cause), confidence, text: text.into(), share: None }
    }
}

impl Judgment {
    /// A judgment without a cause.
    pub fn state(phase: Phase, class: Class, confidence: impl Into<f64>) -> Self {
        Self { phase, class, confidence: confidence.into(), ..Self::default() }
    }

    /// A cause that holds back a loop.
    pub fn new(cause: Cause, confidence: impl Into<f64>) -> Self {
        let confidence = confidence.into().clamp(0.0, CERTAIN.value);
        Self { cause: Some(cause), ..Self::state(Phase::Training, cause.spec().class, confidence) }
    }

    /// Says what it means here.
    pub fn meaning(mut self, text: impl Into<String>) -> Self {
        self.meaning = Some(text.into());
        self
    }

    /// Says what was missing.
    pub fn doubt(mut self, text: impl Into<String>) -> Self {
        self.doubts.push(text.into());
        self
    }

    /// Says what makes it less certain, and by which factor.
    pub fn less_sure(mut self, factor: Threshold, text: impl Into<String>) -> Self {
        self.confidence *= factor.value;
        self.doubt(text)
    }

    /// The same, if this is so.
    pub fn less_sure_if(self, is_so: bool, factor: Threshold, text: impl Into<String>) -> Self {
        if is_so { self.less_sure(factor, text) } else { self }
    }

    /// Puts another finding first: it is true too, and costs less.
    pub fn beside(mut self, cause: Cause, confidence: impl Into<f64>, text: impl Into<String>) -> Self {
        self.others.insert(0, Finding::new(cause, confidence.into(), text));
        self
    }

    /// Adds another finding.
    pub fn other(mut self, cause: Cause, confidence: impl Into<f64>, text: impl Into<String>) -> Self {
        self.others.push(Finding::new(cause, confidence.into(), text));
        self
    }
}
