//! The text that the job runs.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::{InjectTarget, STEPS_WITHIN, STOPS_WITHIN};
use crate::kineto::ProfileWish;
use trainmon_profiles::asked::ProfileWindow;

/// All of it but the parameters.
const INJECTED: &str = include_str!("../../assets/inject/profile.py");
/// The line that the parameters replace.
const PLACE: &str = "PARAMETERS = {}  # trainmon writes them here\n";

/// What the script is told. A dictionary of text and numbers in JSON is one of Python as well.
#[derive(Debug, Serialize)]
struct ScriptParameters<'a> {
    folder: &'a str,
    pid: u32,
    seconds: f64,
    steps: u32,
    stacks: u8,
    late: f64,
}

/// The script with its parameters.
pub fn text(target: &InjectTarget, folder: &Path, wish: ProfileWish) -> String {
    let parameters = ScriptParameters {
        // Folders whose names are no text are not used.
        folder: &folder.to_string_lossy(),
        pid: target.own_pid,
        seconds: longest(wish).as_secs_f64(),
        steps: steps(wish).unwrap_or(0),
        stacks: wish.stacks.into(),
        late: STOPS_WITHIN.as_secs_f64(),
    };
    let parameters = serde_json::to_string(&parameters).unwrap_or_default();
    INJECTED.replacen(PLACE, &format!("PARAMETERS = {parameters}\n"), 1)
}

/// How many steps are recorded, if steps are counted.
pub fn steps(wish: ProfileWish) -> Option<u32> {
    match wish.window {
        ProfileWindow::Steps(steps) => Some(steps),
        ProfileWindow::For(_) => None,
    }
}

/// How long is recorded at most.
pub fn longest(wish: ProfileWish) -> Duration {
    match wish.window {
        ProfileWindow::For(length) => length,
        ProfileWindow::Steps(_) => STEPS_WITHIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_have_one_place() {
        assert_eq!(INJECTED.matches(PLACE).count(), 1);
        let wish = |window| ProfileWish { window, stacks: false };
        let half = wish(ProfileWindow::For(Duration::from_millis(500)));
        assert_eq!((steps(half), longest(half)), (None, Duration::from_millis(500)));
        assert_eq!(
            (steps(wish(ProfileWindow::Steps(3))), longest(wish(ProfileWindow::Steps(3)))),
            (Some(3), STEPS_WITHIN)
        );
    }
}
