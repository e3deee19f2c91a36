//! The loop itself waits for a server to answer: metrics, a feature store, a reward server.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "waiting for a server to answer",
    brief: "the loop waits for a server to answer",
    meaning: "the loop itself waits for a server to answer",
    rule: &[
        WAIT_IS_FOLLOWED,
        "it ends at a connection to another machine, or to a server on this machine that rests meanwhile; the \
         loop's thread waits for it, or a thread of its process that the loop waits for",
    ],
    judge: |case| case.waits_for(Purpose::Remote).then(|| case.found(Cause::RemoteService, 1.0)),
    signals: &[CHAIN, "/proc/PID/net/tcp: remote addresses", MAIN_WAIT, DEVICE],
    source: "a call that is answered after a round trip delays the step by all of it; what is sent in the \
        background delays nothing",
    limits: "names are not looked up: the address is what the kernel shows, and behind a proxy it is the proxy's",
    advice: advice![
        "Send these requests from a background thread, many at once"
            => "the loop then does not wait for the answers";
        "Request what the next step needs while this one runs"
            => "the round trip then costs no time";
        "Move the service closer, or cache its answers"
            => "each step pays for a round trip", if served_elsewhere;
        "Make the server answer faster, or cache its answers"
            => "it runs on this machine, so the time is its own", if served_here;
    ],
    followed: Some(FollowedWait {
        part: Purpose::Remote,
        signal: Signal::WaitsForRemote,
        words: |name| format!("for an answer from {name}"),
    }),
    culprits: &[culprits::addresses],
    ..CauseSpec::in_class(Class::Io)
};
