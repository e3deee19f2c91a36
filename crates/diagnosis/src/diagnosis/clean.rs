//! Makes the texts of a verdict safe to show. Names of programs, files, addresses and functions, and the reasons of sources,
//! come from outside. All of them enter verdicts, and most of what trainmon prints is made of verdicts.

use std::borrow::Cow;

use super::chain::Who;
use super::verdict::{StepSource, Verdict};
use trainmon_base::text::{fit, sanitize};

/// Longest text, cells: a sentence with a path in it. A path has up to 4,096 bytes.
const LONGEST_TEXT: usize = 1024;

/// The verdict with every text on one line, of bounded length, and without anything that could control a terminal.
pub(super) fn cleaned(mut verdict: Verdict) -> Verdict {
    let each = |text: &mut String| clean(text);
    [&mut verdict.summary, &mut verdict.command, &mut verdict.started].into_iter().for_each(each);
    if let Some(StepSource::Variable(variable)) = &mut verdict.steps.source {
        clean(variable);
    }
    for advice in &mut verdict.advice {
        [&mut advice.title, &mut advice.why].into_iter().for_each(each);
    }
    for evidence in &mut verdict.evidence {
        clean(&mut evidence.text);
    }
    verdict.culprits.iter_mut().map(|culprit| &mut culprit.name).for_each(each);
    verdict.other_findings.iter_mut().map(|finding| &mut finding.text).for_each(each);
    for node in &mut verdict.chain {
        let name = match &mut node.who {
            Who::Thread(name) | Who::Process(name) | Who::Resource(name) => Some(name),
            Who::Loop(_) | Who::Worker | Who::Others => None,
        };
        name.into_iter().chain(&mut node.at).for_each(each);
    }
    for missing in &mut verdict.not_seen {
        [&mut missing.why].into_iter().chain(&mut missing.fix).for_each(each);
    }
    verdict.seen.values_mut().for_each(each);
    let main = verdict.main_thread.iter_mut().flat_map(|main| main.hottest.iter_mut().chain(&mut main.sync_lines));
    let workers = verdict.workers.iter_mut().filter_map(|worker| worker.hottest.as_mut());
    let ranks = verdict.ranks.iter_mut().filter_map(|rank| rank.at.as_mut());
    for place in main.chain(workers).chain(ranks) {
        [&mut place.function, &mut place.file].into_iter().for_each(each);
    }
    verdict
}

fn clean(text: &mut String) {
    if text.len() > LONGEST_TEXT {
        *text = fit(text, LONGEST_TEXT);
    } else if let Cow::Owned(safe) = sanitize(text) {
        *text = safe;
    }
}
