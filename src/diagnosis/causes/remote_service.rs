//! The loop itself waits for an answer from elsewhere: metrics, a feature store, a reward server.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the loop waits for an answer over the network",
    brief: "a round trip in the loop itself",
    meaning: "the loop itself waits for an answer over a connection",
    rule: &[
        WAIT_IS_FOLLOWED,
        "there is a connection to another machine, or to a server here that rests meanwhile; it is the loop's own thread \
         that waits for it, or one of its process that the loop waits for",
    ],
    judge: |case| case.waits_for(PathPart::Remote).then(|| case.found(Cause::RemoteService, 1.0)),
    signals: &[CHAIN, "/proc/PID/net/tcp: remote addresses", MAIN_WAIT, DEVICE],
    source: "a call that is answered after a round trip holds the step up for all of it; what is sent in the background \
             holds up nothing",
    limits: "names are not looked up, the address is what the kernel shows; behind a proxy it is the proxy's",
    advice: advice![
        "Send metrics and logs from a background thread or process, many at a time"
            => "the loop need not wait for the answer";
        "Ask for what the next step needs while this one runs" => "the round trip then costs nothing";
        "Move the service nearer, or keep its answers" => "each step pays for one round trip";
    ],
    followed: Some(FollowedWait {
        part: PathPart::Remote,
        signal: Signal::WaitsForRemote,
        words: |who| format!("for an answer from {who}"),
    }),
    culprits: &[culprits::addresses],
    ..CauseSpec::in_class(Class::Io)
};
