//! A binary that becomes the stand-in for py-spy, `fake_py_spy.sh`, called from its own folder: root runs no scripts. In a
//! folder named `whoami` it tells with whose rights it runs, which a shell would lay down by itself.

#![allow(clippy::unwrap_used, reason = "for tests")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{geteuid, getuid};

fn main() -> ExitCode {
    let own = std::env::current_exe().unwrap();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if own.parent().unwrap().ends_with("whoami") && arguments.first().unwrap() != "--version" {
        let home = std::env::var("HOME").unwrap_or_else(|_| "unset".to_owned());
        eprintln!("Error: user {}, real user {}, HOME {home}", geteuid().as_raw(), getuid().as_raw());
        return ExitCode::FAILURE;
    }
    let script = include_str!("fake_py_spy.sh");
    let failed = Command::new("/bin/sh").arg("-c").arg(script).arg(own).args(arguments).exec();
    panic!("{failed}");
}
