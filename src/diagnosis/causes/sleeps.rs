//! The loop sleeps, or polls by sleeping, while nothing else of its job works.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the loop sleeps or polls",
    brief: "the loop sleeps, and nobody works",
    meaning: "the loop sleeps, or sleeps and looks again, while nothing else of its job works",
    rule: &[
        WAIT_IS_FOLLOWED,
        "there is a timer: the loop's own thread sleeps, and neither another thread or process of the job nor the device works \
         meanwhile",
    ],
    judge: |case| case.waits_for(PathPart::Sleep).then(|| case.found(Cause::Sleeps, 1.0)),
    signals: &[CHAIN, MAIN_WAIT, MAIN_STACKS, DEVICE],
    source: "a thread in nanosleep(2) goes on when its timer ends, whatever happens meanwhile. Libraries poll that way while a child, \
             a thread or the device works (joblib every 10 ms): such a sleep is a wait for whoever works",
    limits: "what is polled for may come from outside of the job: a file that another job writes, a reply in a database; the line \
             shows it. Who works for a part of the sleep is taken for what that part is for",
    advice: advice![
        "Take the sleep out of the step, or make it shorter" => "nothing that it could be for is seen to work meanwhile";
        "Wait for what is polled for instead of sleeping (a condition, a queue, inotify, select)"
            => "the loop then goes on as soon as it is there, not at the end of the sleep";
        "Do the next step's work while waiting" => "a limit on the rate of steps or requests need not stop all of the loop";
    ],
    followed: Some(FollowedWait { part: PathPart::Sleep, signal: Signal::Sleeps, words: str::to_owned }),
    bound: |_, window| Some(window.without(window.chain.as_ref()?.lost(PathPart::Sleep))),
    place: CulpritPlace::Sleep,
    sharpen,
    ..CauseSpec::in_class(Class::Cpu)
};

/// How long it sleeps, and where, if the stacks tell.
pub(super) fn in_words(window: &Features, share: f64) -> String {
    let at = line(window).map_or_else(String::new, |line| format!(" at {line}"));
    format!("sleeps {} of the time{at}: nothing else of the job works meanwhile", percent(share))
}

fn line(window: &Features) -> Option<&Hottest> {
    window.loop_stacks()?.sleep_line.as_ref()
}

/// Names the line that sleeps.
fn sharpen(first: &mut Advice, window: &Features) {
    if let Some(line) = line(window) {
        first.title = format!("Take the sleep out of the step, or make it shorter: {line}");
    }
}
