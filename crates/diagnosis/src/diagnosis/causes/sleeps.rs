//! The loop sleeps, or polls by sleeping, while nothing else of its job works.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "sleeping or polling",
    brief: "the loop sleeps while nothing else works",
    meaning: "the loop sleeps or polls while nothing else in its job works",
    rule: &[
        WAIT_IS_FOLLOWED,
        "it ends at a timer: the loop's thread sleeps, and meanwhile no other thread or process of the job \
         works, nor does the GPU",
        "with stacks: no library polls for tasks in processes outside the job for `larger_half` of the time",
    ],
    judge: |case| {
        let polls = case.main.stacks.as_ref().is_some_and(|stacks| stacks.for_tasks() >= LARGER_HALF);
        if !case.waits_for(Purpose::Sleep) || polls {
            return None;
        }
        let untold = case.window.gpu.as_ref().is_some_and(|gpu| gpu.pcie.is_none());
        let words = "the GPU's driver does not tell what goes over PCIe: waiting for a copy may look the same";
        Some(case.found(Cause::Sleeps, 1.0).less_sure_if(untold, INFERRED, words))
    },
    signals: &[CHAIN, MAIN_WAIT, MAIN_STACKS, DEVICE],
    source: "a thread in nanosleep(2) continues when its timer ends, whatever happens before. Libraries poll this \
        way while a child process, a thread or the GPU works (joblib every 10 ms): such a sleep counts as a wait \
        for what works",
    limits: "the loop may poll for something outside the job, such as a file that another job writes or a reply in \
        a database; the line of code shows it. What works during part of the sleep is taken for the reason of that \
        part",
    advice: advice![
        "Remove the sleep from the step, or shorten it"
            => "nothing that it could be waiting for works meanwhile";
        "Wait for the event instead of polling for it"
            => "a condition, a queue, inotify or select wakes the loop at once, a sleep only when it ends";
        "Do the next step's work while waiting"
            => "a limit on the rate of steps or requests need not stop the whole loop";
    ],
    followed: Some(FollowedWait { part: Purpose::Sleep, signal: Signal::Sleeps, words: str::to_owned }),
    bound: |_, window| Some(window.without_own(window.chain.as_ref()?.lost(Purpose::Sleep))),
    place: CulpritPlace::Sleep,
    sharpen,
    ..CauseSpec::in_class(Class::Cpu)
};

/// How long it sleeps and, where stacks show it, at which line.
pub(super) fn in_words(window: &Features, share: f64) -> String {
    let at = line(window).map_or_else(String::new, |line| format!(" at {line}"));
    format!("sleeps {} of the time{at} while nothing else in the job works", percent(share))
}

fn line(window: &Features) -> Option<&Hottest> {
    window.loop_stacks()?.sleep_line.as_ref()
}

/// Names the line that sleeps.
fn sharpen(first: &mut Advice, window: &Features) {
    if let Some(line) = line(window) {
        first.title = format!("Remove the sleep from the step, or shorten it: {line}");
    }
}
