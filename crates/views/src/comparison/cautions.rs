//! What else differs between two runs than the program: other work on the machine, clocks, the machine itself.

use super::{ComparedRun, FACTS, WORTH_SAYING};
use trainmon_base::text::format::precise;
use trainmon_diagnosis::history::surroundings::Surroundings;
use trainmon_diagnosis::history::timeline::Compact;

/// Other processes that use so much in both runs make step times vary, percent of the CPUs.
const MUCH: f64 = 25.0;
/// Clocks that differ by less are the same.
const SAME_CLOCK: f64 = 0.03;

/// What the surroundings of a run are called in a sentence, before the number and behind it, and where the number is.
type Surrounding = (&'static str, &'static str, fn(Surroundings) -> Compact);

const SHARES: [Surrounding; 5] = [
    ("Other processes used", "% of the CPUs", |run| run.others_cpu_pct),
    ("The CPU quota throttled the job in", "% of its periods", |run| run.cpu_throttled_pct),
    ("The hypervisor took", "% of the CPUs' time", |run| run.stolen_cpu_pct),
    ("Other processes used", "% of the GPUs", |run| run.gpu_others_pct),
    ("Heat or power held the GPU clocks down for", "% of the time", |run| run.gpu_held_down_pct),
];

/// What to bear in mind of two runs.
pub(super) fn listed(sides: [&ComparedRun<'_>; 2]) -> Vec<String> {
    let facts = FACTS.map(|(_, what, show)| (what, sides.map(|side| show(&side.run.environment))));
    let versions = ("The versions of trainmon", sides.map(|side| side.header.trainmon.clone()));
    let mut all = other_surroundings(sides.map(|side| side.run.surroundings.mean()));
    all.extend(differing(facts.into_iter().chain([versions])));
    all.extend(sides.iter().filter_map(|side| Some(format!("{}: {}.", side.name, side.note.as_ref()?))));
    all
}

/// What is known of both and not the same.
pub(super) fn differing<'f>(facts: impl IntoIterator<Item = (&'f str, [String; 2])>) -> impl Iterator<Item = String> {
    let differing =
        facts.into_iter().filter(|(_, [before, after])| before != after && !before.is_empty() && !after.is_empty());
    differing.map(|(what, [before, after])| format!("{what} differ: {before} before, {after} after."))
}

/// What differs around the two runs.
fn other_surroundings(runs: [Surroundings; 2]) -> Vec<String> {
    let both = |of: fn(Surroundings) -> Compact| {
        let [before, after] = runs.map(|run| of(run).get().map(f64::from));
        before.zip(after)
    };
    let shares = SHARES.into_iter().filter_map(|(begin, end, of)| {
        let (before, after) = both(of)?;
        let differs = (after - before).abs() >= WORTH_SAYING * 100.0;
        differs.then(|| format!("{begin} {before:.0}{end} before, {after:.0}% after."))
    });
    let clocks = both(|run| run.gpu_clock_mhz).and_then(|(before, after)| {
        let differs = (after - before).abs() > SAME_CLOCK * before.max(after);
        differs.then(|| format!("The GPUs ran at {} MHz before, {} MHz after.", precise(before), precise(after)))
    });
    let busy = both(|run| run.others_cpu_pct).and_then(|(before, after)| {
        let is_alike = (after - before).abs() < WORTH_SAYING * 100.0;
        let much = before.min(after) >= MUCH && is_alike;
        much.then(|| format!("Other processes used {after:.0}% of the CPUs in both runs, so step times vary."))
    });
    shares.chain(clocks).chain(busy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings(others_cpu: f64, clock_mhz: f64) -> Surroundings {
        let zero = Compact::new(Some(0.0));
        Surroundings {
            others_cpu_pct: Compact::new(Some(others_cpu)),
            gpu_clock_mhz: Compact::new(Some(clock_mhz)),
            cpu_throttled_pct: zero,
            gpu_held_down_pct: zero,
            ..Surroundings::default()
        }
    }

    #[test]
    fn what_differs_around_the_runs_is_said() {
        let said = |before, after| other_surroundings([before, after]);
        assert_eq!(
            said(surroundings(15.2, 1400.0), surroundings(32.4, 1200.0)),
            [
                "Other processes used 15% of the CPUs before, 32% after.",
                "The GPUs ran at 1400 MHz before, 1200 MHz after."
            ]
        );
        assert!(said(surroundings(15.0, 1400.0), surroundings(19.0, 1380.0)).is_empty());
        assert!(said(surroundings(15.0, 1400.0), Surroundings::default()).is_empty());
        assert_eq!(
            said(surroundings(81.0, 1400.0), surroundings(80.0, 1400.0)),
            ["Other processes used 80% of the CPUs in both runs, so step times vary."]
        );
        let hot = Surroundings {
            gpu_held_down_pct: Compact::new(Some(60.0)),
            cpu_throttled_pct: Compact::new(Some(25.0)),
            ..surroundings(0.0, 1400.0)
        };
        assert_eq!(
            said(surroundings(0.0, 1400.0), hot),
            [
                "The CPU quota throttled the job in 0% of its periods before, 25% after.",
                "Heat or power held the GPU clocks down for 0% of the time before, 60% after."
            ]
        );
    }
}
