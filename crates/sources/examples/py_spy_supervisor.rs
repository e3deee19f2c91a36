//! The supervisor of py-spy, which in the program is a part of trainmon itself. The tests of this crate start it.

use trainmon_base::errors::ExitCode;

fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    trainmon_base::leave::now(trainmon_sources::py_spy::run_part(&arguments).unwrap_or(ExitCode::FAILED))
}
