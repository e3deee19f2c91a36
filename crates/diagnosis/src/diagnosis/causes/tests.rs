//! The causes are complete, and contradict no other place.

use std::collections::BTreeSet;

use super::*;
use crate::diagnosis::features::places;
use crate::diagnosis::{advice, calibration, ceiling, compose, decision, phases, ranks, stability, what_if};

fn everything() -> Vec<&'static CauseSpec> {
    all().chain(states()).collect()
}

fn texts(cause: &'static CauseSpec) -> Vec<&'static str> {
    let mut texts = vec![cause.headline, cause.brief, cause.meaning, cause.source, cause.limits];
    texts.extend(cause.rule);
    texts.extend(cause.signals);
    texts.extend(cause.advice.iter().flat_map(|row| [row.title, row.why]));
    texts
}

#[test]
fn every_pair_of_class_and_name_is_there_once() {
    let pairs: BTreeSet<_> = everything().iter().map(|cause| (cause.class, cause.name)).collect();
    assert_eq!(pairs.len(), everything().len());
    for class in Class::ALL {
        assert!(pairs.iter().any(|(of, _)| *of == class), "{class:?}");
    }
}

#[test]
fn every_phase_without_training_is_explained() {
    for phase in [Phase::Init, Phase::Idle, Phase::Stopped, Phase::Finished] {
        assert_eq!(named(&format!("idle/{}", phase.word())).len(), 1, "{phase:?}");
    }
}

#[test]
fn every_wait_elsewhere_is_a_cause_of_its_own() {
    let of_causes: BTreeSet<Purpose> =
        Cause::ALL.iter().filter_map(|cause| cause.spec().followed).map(|wait| wait.part).collect();
    // A thread of the process counts only if stacks show that it makes no batches.
    let mut waits: BTreeSet<Purpose> = Features::default().waits_elsewhere().collect();
    assert!(waits.insert(Purpose::Thread));
    assert_eq!(waits, of_causes);
}

#[test]
fn every_cause_is_complete() {
    for cause in everything() {
        let whence = format!("{}/{}", cause.class.word(), cause.name);
        assert!(!cause.rule.is_empty() && !cause.signals.is_empty(), "{whence}");
        for text in texts(cause) {
            assert!(text.len() > 5 && text.trim() == text && !text.contains("  "), "{whence}: {text:?}");
            assert!(!text.ends_with('.') && !text.contains('\n'), "{whence}: {text:?}");
            assert_eq!(text.matches('`').count() % 2, 0, "{whence}: {text:?}");
        }
    }
    for cause in all() {
        assert!(cause.advice.len() >= 2, "{}: one thing to do is too few", cause.name);
        let titles: BTreeSet<_> = cause.advice.iter().map(|row| row.title).collect();
        assert_eq!(titles.len(), cause.advice.len(), "{}", cause.name);
    }
}

#[test]
fn a_cause_has_its_variants_name_in_json_and_is_found_by_it() {
    for cause in Cause::ALL {
        let kebab: String = format!("{cause:?}")
            .chars()
            .flat_map(|c| c.is_uppercase().then_some('-').into_iter().chain([c.to_ascii_lowercase()]))
            .collect();
        assert_eq!(cause.name(), kebab.trim_start_matches('-'));
        assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        assert_eq!(Cause::named(cause.name()), Some(cause));
    }
    assert_eq!(Cause::named("Too-Few-Workers"), None);
}

/// A percentage in a rule could drift from the threshold; the value of a threshold that it names is printed in its place.
#[test]
fn rules_name_their_thresholds() {
    let rules = || everything().into_iter().flat_map(|cause| cause.rule.iter().map(move |rule| (cause.name, rule)));
    assert!(rules().all(|(_, rule)| !rule.contains('%')));
    let numbers = || ALL_NUMBERS.iter().copied().flatten();
    for (cause, rule) in rules() {
        for word in rule.split('`').skip(1).step_by(2) {
            assert!(numbers().any(|threshold| threshold.name() == word), "{cause}: {word}");
        }
    }
    // A shared threshold is explained by at least one cause, except for those that only concern certainty.
    let named: BTreeSet<String> =
        everything().iter().flat_map(|cause| cause.thresholds()).map(Threshold::name).collect();
    let general = ["device_idle", "clearly_lost", "clearly_dry", "always_busy", "hardly", "larger_half"];
    for threshold in thresholds::NUMBERS.iter().filter(|threshold| !threshold.unit.contains("confidence")) {
        let name = threshold.name();
        assert!(named.contains(&name) || general.contains(&&*name), "{name}");
    }
}

#[test]
fn every_number_has_a_unit_and_a_source() {
    let others = [
        decision::NUMBERS,
        phases::NUMBERS,
        ranks::NUMBERS,
        places::NUMBERS,
        advice::NUMBERS,
        compose::NUMBERS,
        ceiling::NUMBERS,
        what_if::NUMBERS,
        calibration::NUMBERS,
        stability::NUMBERS,
    ];
    let mut names = BTreeSet::new();
    for threshold in ALL_NUMBERS.iter().chain(&others).copied().flatten() {
        assert!(threshold.source.len() > 8 && !threshold.unit.is_empty(), "{threshold:?}");
        assert!(threshold.value.is_finite() && !threshold.words().is_empty(), "{threshold:?}");
        assert!(names.insert(threshold.name()), "two numbers are called {}", threshold.name());
    }
}

#[test]
fn asked_for_by_name_by_class_or_by_both() {
    let pairs = |text: &str| -> Vec<_> { named(text).iter().map(|cause| (cause.class, cause.name)).collect() };
    assert_eq!(pairs("too-few-workers"), [(Class::DataLoader, "too-few-workers")]);
    assert_eq!(pairs(" Too_Few Workers "), pairs("too-few-workers"));
    assert_eq!(pairs("gpu/throttled"), pairs("throttled"));
    assert_eq!(pairs("host-device-sync"), [(Class::Cpu, "host-device-sync"), (Class::Gpu, "host-device-sync")]);
    assert_eq!(pairs("gpu/host-device-sync"), [(Class::Gpu, "host-device-sync")]);
    assert_eq!(pairs("idle/idle"), [(Class::Idle, "idle")]);
    assert!(pairs("idle").len() > 4 && pairs("data-loader").len() > 8);
    assert_eq!(pairs("unknown"), [(Class::Unknown, "unknown")]);
    for nothing in ["", "/", "gpu/", "cpu/decode", "io/throttled", "work"] {
        assert!(named(nothing).is_empty(), "{nothing}");
    }
}

#[test]
fn a_misspelled_name_has_suggestions() {
    assert_eq!(near("too-few-worker").first(), Some(&"too-few-workers"));
    assert_eq!(near("decod").first(), Some(&"decode"));
    assert_eq!(near("gpu/trottled").first(), Some(&"throttled"));
    assert!(near("worker").contains(&"worker-restart"));
    assert!(near("throttle").contains(&"throttled") && near("coffee-machine").is_empty() && near("").is_empty());
    assert!(near(&"x".repeat(100_000)).is_empty());
}
