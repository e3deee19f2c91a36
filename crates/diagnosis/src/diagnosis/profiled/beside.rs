//! A profile beside what was seen from outside: one verdict of both.
//!
//! The profile counts exactly, for a second. From outside, the workers, the disks and the other processes are seen as well, and for
//! longer. So whichever explains more leads, and where they disagree, both are told.

use super::super::causes::Finding;
use super::super::class::Class;
use super::super::signals::{Evidence, EvidenceFrom};
use super::super::verdict::Verdict;
use trainmon_base::text::format::{SURE, sureness};

/// The verdict on a profile, taken while `live` was the verdict of the run.
pub fn beside(profiled: Verdict, live: &Verdict) -> Verdict {
    let same_class = profiled.class == live.class;
    let same = same_class && profiled.cause == live.cause;
    let confidence = profiled.confidence.max(live.confidence);
    // A profile shows that workers are late, and not why.
    let explains = same_class && profiled.cause.is_none() && live.cause.is_some();
    let surer = profiled.confidence < SURE && live.confidence >= SURE && live.class != Class::Unknown;
    if same {
        return Verdict { confidence, ..with_both(profiled, live) };
    }
    if explains || surer {
        let (told, of_profile) = (finding("The profile", &profiled), profiled.evidence.len());
        let confidence = if explains { confidence } else { live.confidence };
        let mut verdict = Verdict {
            class: live.class,
            cause: live.cause,
            phase: live.phase,
            confidence,
            summary: live.summary.clone(),
            advice: live.advice.clone(),
            culprits: live.culprits.clone(),
            ..with_both(profiled, live)
        };
        // What leads comes first.
        verdict.evidence.rotate_left(of_profile);
        verdict.other_findings.insert(0, told);
        return verdict;
    }
    let mut verdict = with_both(profiled, live);
    if live.confidence > 0.0 && live.class != Class::Unknown {
        verdict.other_findings.insert(0, finding("From outside", live));
    }
    verdict
}

/// What one of the two says, as a finding of the other.
fn finding(who: &str, verdict: &Verdict) -> Finding {
    let sure = sureness(verdict.confidence).map(|sure| format!(", {sure}")).unwrap_or_default();
    let text = format!("{who}: {}{sure}. {}", verdict.heading(), verdict.summary);
    Finding { class: verdict.class, cause: verdict.cause, confidence: verdict.confidence, text, share: None }
}

/// The numbers with where they come from.
fn evidence(verdict: &Verdict, from: EvidenceFrom) -> impl Iterator<Item = Evidence> {
    verdict.evidence.iter().map(move |evidence| Evidence { from: Some(from), ..evidence.clone() })
}

/// What either could read, and the numbers of both.
fn with_both(profiled: Verdict, live: &Verdict) -> Verdict {
    let mut seen = live.seen.clone();
    seen.extend(profiled.seen.clone());
    let (counted, measured) = (evidence(&profiled, EvidenceFrom::Profile), evidence(live, EvidenceFrom::Outside));
    let evidence = counted.chain(measured).collect();
    let not_seen = if profiled.not_seen.is_empty() { Vec::new() } else { live.not_seen.clone() };
    Verdict { seen, not_seen, evidence, observed_s: live.observed_s.max(profiled.observed_s), ..profiled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::causes::Cause;
    use crate::diagnosis::signals::Signal;

    fn verdict(class: Class, cause: Option<Cause>, confidence: f64, summary: &str) -> Verdict {
        Verdict { class, cause, confidence, summary: summary.into(), ..Verdict::default() }
    }

    #[test]
    fn two_that_agree_are_as_sure_as_the_surer_one_and_the_exact_one_speaks() {
        let live = verdict(Class::Cpu, Some(Cause::LaunchBound), 0.6, "Launches, perhaps.");
        let exact = verdict(Class::Cpu, Some(Cause::LaunchBound), 0.95, "5,400 launches a step.");
        let both = beside(exact, &live);
        assert_eq!(
            (both.confidence, both.summary.as_str(), both.other_findings.len()),
            (0.95, "5,400 launches a step.", 0)
        );
    }

    #[test]
    fn from_outside_it_is_known_why_workers_are_late() {
        let live = verdict(Class::DataLoader, Some(Cause::TooFewWorkers), 0.7, "Both workers are busy.");
        let both = beside(verdict(Class::DataLoader, None, 0.95, "The workers are late."), &live);
        assert_eq!((both.cause, both.confidence), (Some(Cause::TooFewWorkers), 0.95));
        assert_eq!(both.summary, "Both workers are busy.");
        assert!(both.other_findings[0].text.starts_with("The profile: DATA LOADER"), "{:?}", both.other_findings);
    }

    #[test]
    fn each_number_says_which_of_the_two_it_comes_from_and_what_leads_comes_first() {
        let number = |value| Evidence {
            signal: Signal::GpuBusy,
            value: Some(value),
            unit: Signal::GpuBusy.unit(),
            threshold: None,
            text: "GPU busy".into(),
            from: None,
        };
        let with = |verdict: Verdict, value| Verdict { evidence: vec![number(value)], ..verdict };
        let words = |verdict: &Verdict| -> Vec<String> {
            verdict.evidence.iter().map(|one| format!("{} {}", one.value.unwrap(), one.words())).collect()
        };
        let live = with(verdict(Class::Io, Some(Cause::NetworkStorage), 0.9, "Reads wait for NFS."), 0.5);
        let exact = with(verdict(Class::Cpu, Some(Cause::HostDeviceSync), 0.95, "item waits."), 0.4);
        assert_eq!(words(&beside(exact, &live)), ["0.4 GPU busy, in the profile", "0.5 GPU busy, from outside"]);
        let guess = with(verdict(Class::Cpu, Some(Cause::MainThread), 0.6, "Gaps."), 0.4);
        assert_eq!(words(&beside(guess, &live)), ["0.5 GPU busy, from outside", "0.4 GPU busy, in the profile"]);
    }

    #[test]
    fn where_they_disagree_both_are_told_and_the_surer_one_leads() {
        let live = verdict(Class::Io, Some(Cause::NetworkStorage), 0.9, "Reads wait for NFS.");
        let guess = verdict(Class::Cpu, Some(Cause::MainThread), 0.6, "Gaps.");
        let both = beside(guess, &live);
        assert_eq!((both.class, both.confidence, both.other_findings.len()), (Class::Io, 0.9, 1));
        let exact = verdict(Class::Cpu, Some(Cause::HostDeviceSync), 0.95, "item waits.");
        let both = beside(exact.clone(), &live);
        assert_eq!((both.class, both.other_findings.len()), (Class::Cpu, 1));
        assert!(both.other_findings[0].text.contains("Reads wait for NFS."), "{:?}", both.other_findings);
        let unknown = verdict(Class::Unknown, None, 0.0, "Too little.");
        assert!(beside(exact, &unknown).other_findings.is_empty());
    }
}
