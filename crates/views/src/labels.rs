//! Plain words for names and numbers of the program: classes, causes, signals, advice, commands, times.

use trainmon_base::text::format::{self, UNMEASURED};
use trainmon_base::text::sanitize;
pub use trainmon_base::text::short_command;
use trainmon_diagnosis::diagnosis::loop_parts;
use trainmon_diagnosis::diagnosis::verdict::Advice;
use trainmon_sample::ProcessRole;
use trainmon_waits::time_split::TimeSplit;

/// A command line without the program's folder, which would hide its name.
pub fn program(command: &str) -> &str {
    let folder = command.split(' ').next().and_then(|path| path.rfind('/')).map_or(0, |slash| slash + 1);
    command.get(folder..).filter(|rest| !rest.is_empty()).unwrap_or(command)
}

/// An advice on one line with its gain: as much of the gain as fits into `width` cells after the title.
pub fn advice_line(lead: &str, advice: &Advice, width: usize) -> String {
    let title = format!("{lead}{}", sanitize(&advice.title));
    let worths = [advice.worth(), advice.gain()].into_iter().flatten().map(|worth| format!("{title}: {worth}"));
    let mut fitting = worths.filter(|line| unicode_width::UnicodeWidthStr::width(line.as_str()) <= width);
    fitting.next().unwrap_or_else(|| title.clone())
}

/// The split of the loop's time in words: `waits for a batch 68%, for the GPU 2%, …`.
pub fn split(shares: Option<&TimeSplit>) -> String {
    let Some(shares) = shares else { return UNMEASURED.to_owned() };
    let parts = loop_parts::parts(shares, &[]).into_iter();
    let parts: Vec<_> =
        parts.map(|(part, share)| format!("{} {}", part.verb(), format::share(Some(share)))).collect();
    parts.join(", ")
}

/// For how long there has been a profile: `taken 41 s ago`.
pub fn taken(age_s: f64) -> String {
    if age_s < 1.0 { "taken just now".to_owned() } else { format!("taken {} ago", format::duration(age_s)) }
}

/// A number that may be missing.
pub fn number(value: Option<impl ToString>) -> String {
    value.map_or_else(|| UNMEASURED.to_owned(), |value| value.to_string())
}

/// `6.1 GiB` of `22 GiB` as `6.1/22 GiB`.
pub fn used_of(used: Option<u64>, total: Option<u64>) -> String {
    let (Some(used), Some(total)) = (used, total) else { return format::bytes(used) };
    let (used, total) = (format::bytes(Some(used)), format::bytes(Some(total)));
    match (used.split_once(' '), total.split_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number}/{total}"),
        _ => format!("{used}/{total}"),
    }
}

/// Percent without a blank, for narrow columns.
pub fn whole_percent(value: Option<f64>) -> String {
    format::percent(value).replace(' ', "")
}

/// The role of a process in the job, as one word.
pub fn role(role: ProcessRole) -> &'static str {
    match role {
        ProcessRole::Rank => "training",
        other => other.word(),
    }
}

/// The state letter of `/proc/PID/stat` (proc(5)) as one word.
pub fn process_state(letter: char) -> String {
    let word = match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting for disk",
        'T' | 't' => "stopped",
        'Z' => "zombie",
        'X' => "dead",
        'I' => "idle",
        _ => return UNMEASURED.to_owned(),
    };
    format!("{letter} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::causes::Cause;

    #[test]
    fn commands_lose_their_directories_only() {
        let short = short_command;
        assert_eq!(
            short("/usr/bin/python3 -u /home/a/train.py --data /data/b.py"),
            "python3 -u train.py --data /data/b.py"
        );
        assert_eq!(short("python train.py --lr 0.1"), "python train.py --lr 0.1");
        assert_eq!(short("pt_data_worker"), "pt_data_worker");
        assert_eq!(short("/ /x/"), "/ /x/");
        assert_eq!(short(""), "");
    }

    #[test]
    fn causes_are_found_by_the_exact_string_only() {
        let brief = |name| Cause::named(name).map(|cause| cause.spec().brief);
        assert_eq!(brief("too-few-workers"), Some("all workers busy, CPUs left over"));
        assert_eq!(brief("Too-Few-Workers"), None);
    }
}
