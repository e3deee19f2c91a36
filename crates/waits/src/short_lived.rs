//! Which waits may be for short-lived children and threads, and how much of them is.

use super::wait::Wait;

/// Waits that may be for a child: for its end, or for its output.
pub(super) const FOR_CHILDREN: [Wait; 3] = [Wait::Pipe, Wait::Child, Wait::Poll];
/// The wait that may be for a thread: for its end, or for what it puts into a queue.
pub(super) const FOR_THREADS: [Wait; 1] = [Wait::Futex];

/// If children or threads compute for at least this part of a wait, all of the wait is for them: the rest is their
/// startup, and their queueing for a CPU. Decoders started for each sample computed for 0.98 of their waits; the number
/// leaves room for a busy machine.
const EXPLAINS: f64 = 0.7;
/// The part of a thread's waits explained by short-lived children or threads, 0–1: their CPU use in CPUs over the share
/// of the time that the thread waits.
pub(super) fn explained(cores: f64, waits: f64) -> f64 {
    if waits <= 0.0 {
        return 0.0;
    }
    let part = cores / waits;
    if part >= EXPLAINS { 1.0 } else { part.max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn waits_are_explained_in_part_or_as_a_whole() {
        for (cores, waits, part) in [(0.5, 0.6, 1.0), (2.0, 1.0, 1.0), (0.3, 0.6, 0.5), (0.3, 0.0, 0.0)] {
            assert!(close(Some(explained(cores, waits)), part), "{cores} {waits}");
        }
    }
}
