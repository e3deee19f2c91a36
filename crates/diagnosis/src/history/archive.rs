//! An hour of complete moments (frame and verdict) in bounded memory, so that the screen can go back to any of them.
//!
//! The newest moment is kept as it is. Once it has a successor it is packed, and sixteen packed moments are compressed
//! into a block: adjacent moments are much alike, so a block is far smaller than its moments one by one. Blocks are
//! dropped whole, oldest first. What navigation needs (time, class) is kept outside the blocks for every moment, so
//! that only moments that are shown are ever unpacked.
//!
//! The account of a profile is the same at all moments until the next one, and is kept beside the blocks, once.
//!
//! A clock that goes backwards, as in a recording that continues after a reboot, starts a new series. Times mean
//! nothing across series: [`Archive::at`] searches the newest one, [`Archive::near`] the one that contains a moment.

use std::collections::VecDeque;
use std::mem::{size_of, size_of_val};
use std::sync::Arc;
use std::time::Duration;

use super::packed;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::{Class, Verdict};
use trainmon_profiles::account::ProfileAccount;
use trainmon_waits::Frame;

/// Moments per block: more pack better, fewer load faster.
const BLOCK: usize = 16;

/// zstd's level. Its default, 3, packs an hour 3% smaller, which is not worth the larger tables while it packs.
const LEVEL: i32 = 1;

/// Accounts of profiles that are kept, the newest.
const ACCOUNTS: usize = 8;

/// Identifies a moment for as long as it is kept: counts from 0, never reused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MomentId(pub u64);

/// Readings and verdict at one moment.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    /// Which moment.
    pub id: MomentId,
    /// The frame.
    pub frame: Arc<Frame>,
    /// The verdict at that moment.
    pub verdict: Arc<Verdict>,
    /// Since when its class and cause had been the same, CLOCK_MONOTONIC nanoseconds.
    pub since_ns: u64,
}

/// What is known about a moment without unpacking it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stamp {
    /// Which moment.
    pub id: MomentId,
    /// CLOCK_MONOTONIC at the end of its interval, nanoseconds.
    pub monotonic_ns: u64,
    /// Length of its interval, seconds; 0 for the first of a session.
    pub seconds: f64,
    /// Wall clock at its end, milliseconds since 1970.
    pub unix_ms: i64,
    /// The series breaks before it.
    pub gap: bool,
    /// Stacks were taken in its interval.
    pub has_stacks: bool,
    /// Class of its verdict.
    pub class: Class,
    /// Cause of its verdict.
    pub cause: Option<Cause>,
}

/// How much is kept. The newest moment always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time back from the newest moment; a block that extends beyond it is kept whole.
    pub span: Duration,
    /// Memory, bytes.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { span: Duration::from_secs(3600), bytes: 24 << 20 }
    }
}

/// Packed moments, one after another: plain in the archive's `open`, compressed together in its `blocks`.
#[derive(Debug, Clone, Default)]
struct Block {
    /// Where each moment ends before compression.
    ends: Vec<usize>,
    packed: Vec<u8>,
}

impl Block {
    fn push(&mut self, moment: &Moment) {
        let before = self.packed.len();
        // A verdict has few floats, already rounded to the decimals shown in files.
        let has_account = moment.verdict.profile.is_some();
        let without = has_account.then(|| Verdict { profile: None, ..(*moment.verdict).clone() });
        let exact = (without.as_ref().unwrap_or(&*moment.verdict), moment.since_ns, has_account);
        if packed::pack(&mut self.packed, &*moment.frame, &exact).is_none() {
            // What cannot be serialized loads as nothing: an empty piece.
            self.packed.truncate(before);
        }
        self.ends.push(self.packed.len());
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.ends) + self.packed.len()
    }

    fn compressed(mut self) -> Self {
        self.ends.shrink_to_fit();
        Self { ends: self.ends, packed: zstd::bulk::compress(&self.packed, LEVEL).unwrap_or_default() }
    }

    /// Unpacks a moment of a compressed block, and says whether its verdict has an account.
    fn load(&self, place: usize, id: MomentId) -> Option<(Moment, bool)> {
        self.unpack(&zstd::bulk::decompress(&self.packed, *self.ends.last()?).ok()?, place, id)
    }

    /// The moment at a place in `plain`, the uncompressed bytes.
    fn unpack(&self, plain: &[u8], place: usize, id: MomentId) -> Option<(Moment, bool)> {
        let start = place.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        let (frame, (verdict, since_ns, has_account)): (Frame, (Verdict, u64, bool)) =
            packed::unpack(plain.get(start..*self.ends.get(place)?)?)?;
        Some((Moment { id, frame: Arc::new(frame), verdict: Arc::new(verdict), since_ns }, has_account))
    }
}

/// The moments kept, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    limits: Limits,
    /// One for each moment.
    stamps: VecDeque<Stamp>,
    blocks: VecDeque<Arc<Block>>,
    /// What comes after the blocks.
    open: Block,
    newest: Option<Moment>,
    /// Moments whose class or cause differs from the previous moment's.
    changes: VecDeque<MomentId>,
    /// First moments of all series except the oldest.
    series: VecDeque<MomentId>,
    /// Accounts of profiles, each from its moment on.
    accounts: VecDeque<(MomentId, Arc<ProfileAccount>)>,
    next: MomentId,
}

impl Archive {
    /// An empty archive.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds the newest moment; its verdict's class and cause have been the same since `since_ns`.
    pub fn push(&mut self, frame: Arc<Frame>, verdict: Arc<Verdict>, since_ns: u64) {
        let id = self.next;
        self.next = MomentId(id.0 + 1);
        if let Some(last) = self.stamps.back() {
            if frame.monotonic_ns < last.monotonic_ns {
                self.series.push_back(id);
            }
            if last.class != verdict.class || last.cause != verdict.cause {
                self.changes.push_back(id);
            }
        }
        if let Some(account) = &verdict.profile {
            self.keep_account(id, account);
        }
        self.stamps.push_back(Stamp {
            id,
            monotonic_ns: frame.monotonic_ns,
            seconds: frame.seconds,
            unix_ms: frame.unix_ms,
            gap: frame.gap,
            has_stacks: !frame.stacks.is_empty(),
            class: verdict.class,
            cause: verdict.cause,
        });
        if let Some(before) = self.newest.replace(Moment { id, frame, verdict, since_ns }) {
            self.open.push(&before);
        }
        if self.open.ends.len() >= BLOCK || self.open.packed.len() > self.limits.bytes / 4 {
            self.blocks.push_back(Arc::new(std::mem::take(&mut self.open).compressed()));
        }
        self.shrink();
    }

    /// The stamp of the oldest moment kept.
    pub fn first(&self) -> Option<&Stamp> {
        self.stamps.front()
    }

    /// The stamp of the newest moment.
    pub fn last(&self) -> Option<&Stamp> {
        self.stamps.back()
    }

    /// The newest moment, complete.
    pub fn latest(&self) -> Option<&Moment> {
        self.newest.as_ref()
    }

    /// Number of moments kept.
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Whether no moment is kept.
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Memory that the moments take, bytes, except the newest one.
    pub fn bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|block| block.bytes()).sum();
        blocks + self.open.bytes() + self.stamps.len() * size_of::<Stamp>()
    }

    /// The stamp of a moment, while it is kept.
    pub fn stamp(&self, id: MomentId) -> Option<&Stamp> {
        self.stamps.get(self.place(id)?)
    }

    /// The moment whose interval contains `monotonic_ns`, else the one that ends nearest to it.
    pub fn at(&self, monotonic_ns: u64) -> Option<MomentId> {
        self.near(self.last()?.id, monotonic_ns)
    }

    /// Like [`Self::at`], in the series of a moment; in the oldest series for a moment that is no longer kept.
    pub fn near(&self, id: MomentId, monotonic_ns: u64) -> Option<MomentId> {
        let next = self.series.partition_point(|first| *first <= id);
        let start = next.checked_sub(1).and_then(|at| self.series.get(at)).copied().unwrap_or_default();
        let end = self.series.get(next).copied().unwrap_or(self.next);
        // Times are in order within a series.
        let is_before = |s: &Stamp| s.id < start || s.id < end && s.monotonic_ns < monotonic_ns;
        let from = self.stamps.partition_point(is_before);
        let inside = |place: usize| self.stamps.get(place).filter(|s| (start..end).contains(&s.id));
        let (before, after) = (from.checked_sub(1).and_then(inside), inside(from));
        let (Some(after), Some(before)) = (after, before) else { return after.or(before).map(|s| s.id) };
        let length_ns = (after.seconds.max(0.0) * 1e9) as u64;
        let holds = after.monotonic_ns.saturating_sub(length_ns) < monotonic_ns;
        let nearer = after.monotonic_ns - monotonic_ns <= monotonic_ns - before.monotonic_ns;
        Some(if holds || nearer { after.id } else { before.id })
    }

    /// The moment `by` moments after this one, or before it; the first or last if there are not that many. Also works
    /// for a moment that is no longer kept.
    pub fn step(&self, id: MomentId, by: i64) -> Option<MomentId> {
        let (first, last) = (self.first()?.id, self.last()?.id);
        Some(MomentId(id.0.saturating_add_signed(by)).clamp(first, last))
    }

    /// The next moment after this one, or the last before it, at which class or cause changed.
    pub fn change(&self, id: MomentId, forward: bool) -> Option<MomentId> {
        let place = if forward {
            self.changes.partition_point(|c| *c <= id)
        } else {
            self.changes.partition_point(|c| *c < id).checked_sub(1)?
        };
        self.changes.get(place).copied()
    }

    /// The complete moment, while it is kept.
    pub fn load(&self, id: MomentId) -> Option<Moment> {
        if let Some(newest) = self.newest.as_ref().filter(|newest| newest.id == id) {
            return Some(newest.clone());
        }
        // Blocks differ in length: heavy moments are compressed early.
        let mut rest = self.place(id)?;
        for block in &self.blocks {
            match rest.checked_sub(block.ends.len()) {
                Some(after) => rest = after,
                None => return Some(self.with_account(block.load(rest, id)?)),
            }
        }
        Some(self.with_account(self.open.unpack(&self.open.packed, rest, id)?))
    }

    fn keep_account(&mut self, id: MomentId, account: &Arc<ProfileAccount>) {
        if self.accounts.back().is_none_or(|(_, last)| !Arc::ptr_eq(last, account) && last != account) {
            self.accounts.push_back((id, Arc::clone(account)));
        }
        if self.accounts.len() > ACCOUNTS {
            self.accounts.pop_front();
        }
    }

    /// The moment with the account that its verdict had, while that is kept.
    fn with_account(&self, (mut moment, has_account): (Moment, bool)) -> Moment {
        let before = self.accounts.partition_point(|(from, _)| *from <= moment.id);
        let account =
            if has_account { before.checked_sub(1).and_then(|place| self.accounts.get(place)) } else { None };
        if let Some((_, account)) = account {
            Arc::make_mut(&mut moment.verdict).profile = Some(Arc::clone(account));
        }
        moment
    }

    fn place(&self, id: MomentId) -> Option<usize> {
        let first = self.stamps.front()?.id;
        usize::try_from(id.0.checked_sub(first.0)?).ok().filter(|place| *place < self.stamps.len())
    }

    /// Drops what exceeds the limits, oldest first, but never the newest moment.
    fn shrink(&mut self) {
        while self.stamps.len() > 1 {
            let oldest = self.blocks.front().map_or(self.open.ends.len(), |block| block.ends.len());
            if self.bytes() <= self.limits.bytes && !self.is_too_old(oldest.saturating_sub(1)) {
                break;
            }
            if self.blocks.pop_front().is_none() {
                self.open = Block::default();
            }
            self.stamps.drain(..oldest.min(self.stamps.len()));
            let first = self.stamps.front().map_or(self.next, |s| s.id);
            let gone = self.changes.partition_point(|c| *c < first);
            self.changes.drain(..gone);
            let gone = self.series.partition_point(|s| *s <= first);
            self.series.drain(..gone);
        }
    }

    /// Whether the moment at this place is older than what is kept. Moments of an older series, whose times cannot be
    /// compared with today's, are as old as the start of this one.
    fn is_too_old(&self, place: usize) -> bool {
        let (Some(last), Some(stamp)) = (self.stamps.back(), self.stamps.get(place)) else { return false };
        let series = self.series.back().filter(|series| stamp.id < **series);
        let stamp = series.map_or(stamp, |series| self.stamp(*series).unwrap_or(last));
        u128::from(last.monotonic_ns.saturating_sub(stamp.monotonic_ns)) > self.limits.span.as_nanos()
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
