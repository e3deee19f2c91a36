//! The table is complete, and says nothing that another table says differently.

use std::collections::BTreeSet;

use super::*;
use crate::diagnosis::thresholds;
use crate::diagnosis::verdict::Phase;

fn everything() -> Vec<&'static Cause> {
    all().chain(states()).collect()
}

fn texts(cause: &'static Cause) -> Vec<&'static str> {
    let mut texts = vec![cause.headline, cause.meaning, cause.source, cause.limits];
    texts.extend(cause.rule);
    texts.extend(cause.signals);
    texts.extend(cause.advice.iter().flat_map(|(title, why)| [*title, *why]));
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
        let titles: BTreeSet<_> = cause.advice.iter().map(|(title, _)| title).collect();
        assert_eq!(titles.len(), cause.advice.len(), "{}", cause.name);
    }
}

/// What stands in backticks and is a threshold's name is listed, in that order, and nothing else is: so the values that
/// are printed beside a rule are those that it speaks of. A percentage in a rule could drift from the table.
#[test]
fn rules_and_their_thresholds_name_each_other() {
    for cause in everything() {
        let mut named: Vec<&str> = Vec::new();
        for condition in cause.rule {
            assert!(!condition.contains('%'), "{}: {condition}", cause.name);
            for word in condition.split('`').skip(1).step_by(2) {
                if !named.contains(&word) && thresholds::ALL.iter().any(|threshold| threshold.name == word) {
                    named.push(word);
                }
            }
        }
        let listed: Vec<&str> = cause.thresholds.iter().map(|threshold| threshold.name).collect();
        assert_eq!(named, listed, "{}/{}", cause.class.word(), cause.name);
    }
}

#[test]
fn every_threshold_of_a_rule_is_explained_somewhere() {
    // What is only about how long to look, not about what is seen.
    let general = ["first_seconds", "device_idle"];
    let used: BTreeSet<&str> =
        everything().iter().flat_map(|cause| cause.thresholds).map(|known| known.name).collect();
    for threshold in thresholds::ALL {
        assert!(used.contains(threshold.name) != general.contains(&threshold.name), "{}", threshold.name);
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
    for nothing in ["", "/", "gpu/", "cpu/decode", "io/throttled", "worker"] {
        assert!(named(nothing).is_empty(), "{nothing}");
    }
}

#[test]
fn what_is_misspelled_has_neighbours() {
    assert_eq!(near("too-few-worker").first(), Some(&"too-few-workers"));
    assert_eq!(near("decod").first(), Some(&"decode"));
    assert_eq!(near("gpu/trottled").first(), Some(&"throttled"));
    assert!(near("worker").contains(&"worker-restart"));
    assert!(near("throttle").contains(&"throttled") && near("coffee-machine").is_empty() && near("").is_empty());
    assert!(near(&"x".repeat(100_000)).is_empty());
    assert_eq!(distance("kitten", "sitting"), 3);
    assert_eq!((distance("", "abc"), distance("abc", "")), (3, 3));
}
