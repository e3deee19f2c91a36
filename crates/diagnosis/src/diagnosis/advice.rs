//! What to do: the advice of a cause that fits the window, with what each can gain at most, in the order to try it.
//!
//! The first one must be worth it. If the CPUs are full, the first says so, or names the processes that fill them.

use trainmon_base::text::sanitize;
use trainmon_libraries::JobSetting;

use super::causes::cpu_training::A_COMPILED_STEP;
use super::causes::starvation::others_hold;
use super::causes::{AdviceRow, CauseSpec, Judgment, Promise, spec_of};
use super::ceiling::{Ceiling, Limit};
use super::class::{Class, Phase};
use super::culprits::{cpu_users_in_words, processes};
use super::features::{Features, LoopStacks};
use super::job::JobDoes;
use super::parts::Advice;
use super::thresholds::*;
use super::what_if::Capacity;
use trainmon_base::stats::round;

thresholds! {
    WORTH_LEADING = 1.15, "times", "a smaller gain is within what two runs of the same program differ by, and is shown as 1.1×";
}

/// The advice of a verdict on the job with this PID, the first one first. `ceiling` is the most that tuning can gain.
pub(super) fn advice(
    (judgment, pid): (&Judgment, u32),
    spec: Option<&CauseSpec>,
    window: &Features,
    ceiling: Option<Ceiling>,
) -> Vec<Advice> {
    // While the job trains, the advice of its cause; otherwise only what lets it continue.
    let known = match (spec, judgment.phase) {
        (None, Phase::Stopped | Phase::Hung) => spec_of(judgment.class, None, judgment.phase),
        (None, Phase::Training) if is_compiled(judgment, window) => Some(&A_COMPILED_STEP),
        _ => spec,
    };
    if let (Phase::Stopped, Some(thaw)) = (judgment.phase, &window.frozen) {
        return thaw.iter().map(|thaw| resume(thaw)).collect();
    }
    let Some(known) = known else { return Vec::new() };
    let (rows, titles): (Vec<&AdviceRow>, Vec<String>) = fitting(known, window).unzip();
    let bound = window.main.as_ref().and_then(|_| (known.bound)(known, window)).filter(|bound| *bound > 1.0);
    let of_row = |(row, title): (&&AdviceRow, &String)| Advice {
        title: with_pid(title, pid, window),
        why: row.why.into(),
        speedup_at_most: row.gain(window, bound),
        predicted_step_ms: None,
    };
    let mut advice: Vec<Advice> = rows.iter().zip(&titles).map(of_row).collect();
    // What a library says of its setting is as exact as it gets.
    let is_of_cause = rows.first().is_some_and(|row| row.setting.is_none());
    if let Some(first) = advice.first_mut().filter(|_| is_of_cause) {
        (known.sharpen)(first, window);
    }
    // A cause gives the first one the numbers of this run, by torch's names.
    advice.iter_mut().for_each(|one| one.title = with_names_of(&window.does, std::mem::take(&mut one.title)));
    let on_free_cpus = advice.first().and_then(|first| first.speedup_at_most);
    for (one, row) in advice.iter_mut().zip(&rows) {
        let tunes = row.promise == Promise::Ceiling || row.is_tuning() && one.speedup_at_most.is_some();
        if tunes && let Some(ceiling) = ceiling {
            one.limit(ceiling.speedup_at_most);
        }
    }
    let tunes = rows.first().is_some_and(|row| row.is_tuning());
    order(&mut advice, tunes, (known, window), on_free_cpus, ceiling);
    if let Some(rate) = window.steps.rate().filter(|rate| *rate > 0.0) {
        advice.iter_mut().for_each(|one| one.agree_with(1.0 / rate, window.steps.quantile_ms(0.5)));
    }
    advice
}

/// Whether a verdict is missing because only a compiled step is seen.
fn is_compiled(judgment: &Judgment, window: &Features) -> bool {
    judgment.class == Class::Unknown && window.loop_stacks().is_some_and(LoopStacks::is_compiled)
}

/// Puts the first one to do first: one that tunes (`tunes`) and is worth it, else the one with the largest gain. `on_free_cpus` is what
/// the first one would gain if no other process used the CPUs.
fn order(
    advice: &mut [Advice],
    tunes: bool,
    (known, window): (&CauseSpec, &Features),
    on_free_cpus: Option<f64>,
    ceiling: Option<Ceiling>,
) {
    match advice.first_mut() {
        Some(first) if tunes && !is_worth_leading(first) => {
            if let Some(freed) = with_free_cpus(known, window, first, on_free_cpus) {
                *first = freed;
                say_why_first(advice);
            } else {
                gain_first(advice);
                let is_full = ceiling.is_some_and(|ceiling| ceiling.limit == Limit::Cpus);
                if is_full && let Some(first) = advice.first_mut() {
                    first.why += "; the CPUs are full, so only less work helps";
                }
            }
        }
        Some(first) if tunes && first.speedup_at_most.is_some() => say_why_first(advice),
        _ => gain_first(advice),
    }
}

/// The first advice of a cause that fits the window, without the numbers of this run.
pub(super) fn first_title(known: &CauseSpec, window: &Features) -> Option<String> {
    let (_, title) = fitting(known, window).next()?;
    Some(with_names_of(&window.does, title))
}

/// The rows that fit the window, with their titles.
fn fitting<'a>(known: &'a CauseSpec, window: &'a Features) -> impl Iterator<Item = (&'a AdviceRow, String)> {
    let rows = known.advice.iter().filter(|row| (row.fits)(window));
    rows.filter_map(|row| Some((row, title(row, &window.does)?)))
}

/// The title of a row for this job; `None` if it does not fit its libraries.
fn title(row: &AdviceRow, does: &JobDoes) -> Option<String> {
    let own = |setting| does.setting(setting);
    if let Some(setting) = row.setting {
        return own(setting).filter(|words| !words.is_empty()).map(str::to_owned);
    }
    // A setting that the library lacks is no advice, unless the row names another one beside it.
    let mut named = JobSetting::NAMES.into_iter().filter(|(_, name)| row.title.contains(name)).peekable();
    let lacks = named.peek().is_some() && named.all(|(setting, _)| own(setting) == Some(""));
    (!lacks).then(|| row.title.to_owned())
}

/// A title with the libraries' own names of settings. Clauses on settings that they lack are left out.
fn with_names_of(does: &JobDoes, title: String) -> String {
    JobSetting::NAMES.into_iter().fold(title, |title, (setting, name)| {
        let Some(own) = does.setting(setting) else { return title };
        // A setting with its value says all of it.
        if own.contains('=') && title.contains(name) {
            return format!("Set {own}");
        }
        if !own.is_empty() {
            return title.replace(name, own);
        }
        let clauses = [format!(" and {name}=True"), format!(" or {name}"), format!(" ({name})")];
        clauses.iter().fold(title, |title, clause| title.replace(clause, ""))
    })
}

/// The commands of an advice with a PID in its place: that of the job, or of the process that the loop waits for.
fn with_pid(title: &str, job: u32, window: &Features) -> String {
    let pid =
        if title.contains("that process") { processes(window).first().and_then(|one| one.pid) } else { Some(job) };
    pid.map_or_else(|| title.to_owned(), |pid| title.replace("PID", &pid.to_string()))
}

/// Resumes a frozen job.
fn resume(thaw: &str) -> Advice {
    let why = "its control group is frozen, so none of its processes run";
    Advice { title: format!("Resume it: {}", sanitize(thaw)), why: why.into(), ..Advice::default() }
}

/// One that promises no number is worth a try.
fn is_worth_leading(first: &Advice) -> bool {
    first.speedup_at_most.is_none_or(|times| times > WORTH_LEADING)
}

/// The first advice once other processes leave the CPUs, which it names: then it gains `bound` at most. `None` if they take few
/// of the CPUs, or if that would not be worth it either.
fn with_free_cpus(known: &CauseSpec, window: &Features, first: &Advice, bound: Option<f64>) -> Option<Advice> {
    let others = if others_hold(&window.cpu) { window.cpu.others? } else { return None };
    let most = Ceiling::from_window(window, Some(known), &Capacity::undisturbed(&window.cpu))?.speedup_at_most;
    let gain = round(most.min(bound.unwrap_or(f64::INFINITY)), 2);
    let (cpus, all) = (format!("{others:.1}"), window.cpu.usable());
    let who = match cpu_users_in_words(window) {
        Some((who, _)) => format!("Free the CPUs of {who}"),
        None => format!("Free {cpus} CPUs"),
    };
    let mut then = first.title.chars();
    let then = then.next().map(|initial| initial.to_lowercase().chain(then).collect::<String>())?;
    (gain > WORTH_LEADING.value).then(|| Advice {
        title: format!("{who}, then {then}"),
        why: format!("other processes use {cpus} of the {all:.0} CPUs, so none is free for this job to use"),
        speedup_at_most: Some(gain),
        predicted_step_ms: None,
    })
}

fn bound(advice: &Advice) -> f64 {
    advice.speedup_at_most.unwrap_or(1.0)
}

/// The advice with the largest gain first.
fn gain_first(advice: &mut [Advice]) {
    advice.sort_by(|a, b| bound(b).total_cmp(&bound(a)));
}

/// The first one changes a number or what runs beside the job: says so if another one could gain more.
fn say_why_first(advice: &mut [Advice]) {
    let Some((first, rest)) = advice.split_first_mut() else { return };
    if rest.iter().any(|other| bound(other) > bound(first)) {
        first.why += "; it comes first because no code has to change";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_names_of_the_library() {
        let does = |library: &str, loader: Option<&str>| JobDoes {
            library: Some(library.to_owned()),
            loader: loader.map(str::to_owned),
            ..JobDoes::default()
        };
        let said = |library: &str, title: &str| with_names_of(&does(library, None), title.to_owned());
        let title = "Set num_workers=2 and persistent_workers=True";
        let hugging_face = "Set dataloader_num_workers=2 and dataloader_persistent_workers=True";
        assert_eq!(said("Hugging Face Trainer", title), hugging_face);
        assert_eq!(said("Ultralytics", title), "Set workers=2");
        assert_eq!(said("Keras", title), "Set num_parallel_calls=tf.data.AUTOTUNE in map()");
        assert_eq!(said("a library that is not in the table", title), title);
        let by_grain = does("a library that is not in the table", Some("Grain DataLoader"));
        assert_eq!(with_names_of(&by_grain, title.to_owned()), "Set worker_count=2");
    }
}
