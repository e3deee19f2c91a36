//! One file for each command: they wire sources, diagnosis and outputs together.

pub mod candidates;
pub mod deeds;
pub mod demo;
pub mod diagnose;
pub mod doctor;
pub mod explain;
pub mod fold;
pub mod headless;
pub mod live;
pub mod pick;
pub mod pick_screen;
pub mod playing;
pub mod record;
pub mod run;
pub mod screen;
pub mod session;
pub mod shell;
pub mod watching;

/// The answer of a call that may hang (a driver, a file system), or none when it takes longer than `time_out`. The
/// thread of a call that hangs is left to itself.
pub(crate) fn within<T: Send + 'static>(
    time_out: std::time::Duration,
    name: &str,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // The receiver may have stopped waiting.
        let _ = send.send(call());
    });
    spawned.ok().and_then(|_| receive.recv_timeout(time_out).ok())
}
