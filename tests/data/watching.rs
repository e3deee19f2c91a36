//! A short version of `python measure watch`: what is told of jobs in which nothing changes, and how soon of others.

#[path = "../support/watch_days.rs"]
mod watch_days;

#[test]
fn steady_jobs_have_few_events() {
    let days = watch_days::days(0.06, false, 25, 7);
    assert!(days.recordings >= 5 && days.days > 0.06, "{} recordings", days.recordings);
    // A few of all recordings flip once in a long while.
    assert!(days.events.len() <= 2, "{:?}", days.events);
    let disturbed = watch_days::days(0.06, true, 25, 7);
    assert!(disturbed.events.len() <= 4, "{:?}", disturbed.events);
}

#[test]
fn planted_events_are_told_soon() {
    for row in watch_days::plant(2, 7) {
        assert!(row.soon() >= 1, "{}: {:?}", row.what, row.told_s);
        let told = row.told_s.iter().filter(|seconds| seconds.is_finite()).count();
        assert!(told == 2 && row.over_s.len() == 2, "{}: {:?}", row.what, row.told_s);
    }
}
