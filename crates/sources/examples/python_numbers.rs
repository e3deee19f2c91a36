//! Prints as JSON what `trainmon_sources::python` reads of a process: `python_numbers PID`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use trainmon_sample::ProcessId;
use trainmon_sources::process::stat_of;
use trainmon_sources::python::PythonMemory;

fn main() -> ExitCode {
    let Some(pid) = std::env::args().nth(1).and_then(|pid| pid.parse().ok()) else {
        eprintln!("python_numbers: name a process: python_numbers PID");
        return ExitCode::FAILURE;
    };
    let proc_root = Path::new("/proc");
    let start_ticks = stat_of(proc_root, pid).map_or(0, |stat| stat.start_ticks);
    let Some(python) = PythonMemory::find(proc_root, ProcessId { pid, start_ticks }) else {
        eprintln!("python_numbers: no Python of a known layout in process {pid}");
        return ExitCode::FAILURE;
    };
    let began = Instant::now();
    let read = python.read(proc_root);
    eprintln!("read in {} µs", began.elapsed().as_micros());
    match serde_json::to_string_pretty(&read) {
        Ok(read) => {
            println!("{read}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("python_numbers: {error}");
            ExitCode::FAILURE
        }
    }
}
