//! A job that ends and is started again after a change: the screen goes on with its next run.

use std::path::Path;

use crate::process::Target;
use crate::pty::{Conditions, Screen};

/// A program with a data-loader worker, as the list of candidates sees it.
const PROGRAM: &str = "import os, time
if os.fork() == 0:
    open('/proc/self/comm', 'w').write('pt_data_worker')
time.sleep(600)
";

fn run(script: &Path, arguments: &[&str]) -> Target {
    let words: Vec<&str> = std::iter::once(script.to_str().unwrap()).chain(arguments.iter().copied()).collect();
    Target::start("python3", &words)
}

#[test]
fn the_next_run_of_a_program_is_attached_to() {
    let folder = tempfile::tempdir().unwrap();
    let [script, other] = ["train.py", "other.py"].map(|name| folder.path().join(name));
    for path in [&script, &other] {
        std::fs::write(path, PROGRAM).unwrap();
    }
    let first = run(&script, &["--workers", "1"]);
    let pid = first.0.id();
    let mut screen = Screen::trainmon(&["--pid", &pid.to_string(), "--no-stacks"], &Conditions::default());
    // The owner of the process is known with its workers.
    screen.wait_text("1 worker");
    drop(first);
    screen.wait_text(&format!("process {pid} ended"));
    let other = run(&other, &[]);
    let next = run(&script, &["--workers", "2"]);
    screen.wait_text(&format!("started again as PID {}", next.0.id()));
    screen.wait_text("train.py --workers 2");
    screen.send("o");
    screen.wait_text("2 attached");
    screen.send("\x1b");
    drop(other);
    screen.quit().assert_clean();
}
