//! Which gap of the drawn step is looked at, and how closely. The longest one comes first.

use std::cmp::Reverse;
use std::sync::Arc;

use super::super::action::Action;
use super::zoom::{self, TimeSpan};
use crate::profiles::account::ProfileAccount;
use crate::profiles::drawn::{DrawnGap, DrawnStep};

/// The cursor in the drawn step.
#[derive(Debug, Clone, Default)]
pub struct StepCursor {
    /// The profile whose step it is in.
    account: Option<Arc<ProfileAccount>>,
    /// Place of the gap among those of the step.
    gap: usize,
    /// How many times the time axis is zoomed onto it.
    zoom: usize,
}

impl StepCursor {
    /// Takes over another profile; in the same one, gap and zoom stay.
    pub fn refresh(&mut self, account: Option<&Arc<ProfileAccount>>) {
        let stays = match (self.account.as_ref(), account) {
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => true,
            (old, new) => drawn(old).map(|step| &step.gaps) == drawn(new).map(|step| &step.gaps),
        };
        if !stays {
            let gaps = drawn(account).map(|step| step.gaps.as_slice()).unwrap_or_default();
            (self.gap, self.zoom) = (by_length(gaps).first().copied().unwrap_or(0), 0);
        }
        self.account = account.map(Arc::clone);
    }

    /// The gap under the cursor.
    pub fn gap<'s>(&self, step: &'s DrawnStep) -> Option<&'s DrawnGap> {
        step.gaps.get(self.gap)
    }

    /// Which of the gaps it is, by their lengths, from 1.
    pub fn rank(&self, step: &DrawnStep) -> Option<usize> {
        by_length(&step.gaps).iter().position(|place| *place == self.gap).map(|place| place + 1)
    }

    /// The part of the step that is shown.
    pub fn span(&self, step: &DrawnStep) -> TimeSpan {
        let spans = self.gap(step).map(|gap| zoom::spans(step, gap)).unwrap_or_default();
        spans.get(self.zoom.min(spans.len().saturating_sub(1))).copied().unwrap_or(zoom::WHOLE)
    }

    /// Whether a key moves the cursor or zooms here, whatever it does on other pages.
    pub fn takes(&self, action: Action) -> bool {
        let gaps = self.step().is_some_and(|step| !step.gaps.is_empty());
        let moves = matches!(action, Action::StepBack | Action::StepForward | Action::ZoomIn | Action::ZoomOut);
        gaps && (moves || matches!(action, Action::PreviousChange | Action::NextChange))
    }

    /// Moves to the next or the previous gap in time or by length, or zooms.
    pub fn act(&mut self, action: Action) {
        let Some((step, gap)) = self.step().and_then(|step| Some((step, self.gap(step)?))) else { return };
        let last = step.gaps.len().saturating_sub(1);
        let order = by_length(&step.gaps);
        let rank = order.iter().position(|place| *place == self.gap).unwrap_or(0);
        let ranked = |rank: usize| order.get(rank.min(last)).copied().unwrap_or(self.gap);
        let (place, zoom) = match action {
            Action::StepBack => (self.gap.saturating_sub(1), self.zoom),
            Action::StepForward => ((self.gap + 1).min(last), self.zoom),
            Action::PreviousChange => (ranked(rank.saturating_sub(1)), self.zoom),
            Action::NextChange => (ranked(rank + 1), self.zoom),
            Action::ZoomIn => (self.gap, self.zoom + 1),
            Action::ZoomOut => (self.gap, self.zoom.min(zoom::spans(step, gap).len() - 1).saturating_sub(1)),
            _ => return,
        };
        let most = step.gaps.get(place).map_or(0, |gap| zoom::spans(step, gap).len().saturating_sub(1));
        // A gap with fewer stages does not make the next one forget the zoom.
        let zoom = if action == Action::ZoomIn { zoom.min(most) } else { zoom };
        (self.gap, self.zoom) = (place, zoom);
    }

    /// Goes to a gap.
    pub fn go(&mut self, gap: usize) {
        if self.step().is_some_and(|step| gap < step.gaps.len()) {
            self.gap = gap;
        }
    }

    fn step(&self) -> Option<&DrawnStep> {
        drawn(self.account.as_ref())
    }
}

fn drawn(account: Option<&Arc<ProfileAccount>>) -> Option<&DrawnStep> {
    account.and_then(|account| account.drawn.as_ref())
}

/// The places of the gaps, the longest first.
fn by_length(gaps: &[DrawnGap]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..gaps.len()).collect();
    order.sort_by_key(|place| Reverse(gaps.get(*place).map(|gap| (gap.ms.max(0.0) * 1e6) as u64)));
    order
}
