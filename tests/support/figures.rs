//! The figures on a screen: each number with what it is of, whose it is and over which time, read from the drawn text. Two figures
//! of the same thing must be the same number.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// What a number is of, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    pub name: String,
    pub owner: String,
    /// Over which time: of the verdict's window, of this second, or of the run.
    pub window: &'static str,
}

/// How a figure is written: what it is of, and a pattern with the number as `n`, and where it has them, the name as `name` and the
/// owner as `owner`.
struct Form {
    name: &'static str,
    owner: &'static str,
    pattern: Regex,
    /// The number is what is missing to 100.
    inverse: bool,
}

fn form(name: &'static str, owner: &'static str, pattern: &str, inverse: bool) -> Form {
    Form { name, owner, pattern: Regex::new(pattern).unwrap(), inverse }
}

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let waits =
        "data|the GPU|a lock|the GIL|a server|another process|process \\d+|another thread|other ranks|requests";
    let legend =
        "data|GPU wait|lock|GIL|server|process|process \\d+|thread|other ranks|sleep|requests|work|saving|other";
    vec![
        form(
            "",
            "loop",
            &format!("(?:waiting for|waits for|loop waits for) (?P<name>{waits}):? +(?P<n>\\d+)%"),
            false,
        ),
        form("", "loop", &format!("waits (?P<n>\\d+)% of the time for (?P<name>{waits})"), false),
        form("", "loop", &format!("[■█▒░╳╱▓] (?P<name>{legend}) +(?P<n>\\d+)%"), false),
        form("work", "loop", "(?:The loop|training loop|loop) works (?P<n>\\d+)%", false),
        form("work", "loop", "own work:? +(?P<n>\\d+)%", false),
        form("work", "loop", "loop doing its own work:? +(?P<n>\\d+)%", false),
        form("data", "loop", "loop waiting for data:? +(?P<n>\\d+)%", false),
        form("", "rank ", "rank +(?P<owner>\\d+)!? .* (?P<name>data|GPU wait|other ranks|work) +(?P<n>\\d+)%", false),
        form("busy", "GPU ", "GPU (?P<owner>\\d+)[ ─◀LIMIT]+ (?P<n>\\d+)%", false),
        form("busy", "GPU", "GPU (?:is busy|computes) (?P<n>\\d+)% of the time", false),
        form("busy", "GPU", "GPU sits idle (?P<n>\\d+)% of the time", true),
        form("busy", "worker", "(?:The|only) worker is (?P<n>\\d+)% busy", false),
        form("busy", "workers", "\\d+ workers? [─ ]*(?P<n>\\d+)%(?: busy|[ ─◀]|$)", false),
        form("busy", "worker ", " (?P<owner>\\d{3,}) .* busy +(?P<n>\\d+)%", false),
        form(
            "rate",
            "job",
            "(?P<n>[\\d.]+) (?P<name>steps|batches|tokens|trees|rows|samples|iterations)/s · [\\d.]+ m?s",
            false,
        ),
        form("CPUs", "machine", "CPU [─ ]*(?P<n>\\d+)% of \\d+", false),
    ]
});

/// Names that say the same.
fn one_name(name: &str) -> &str {
    match name {
        "the GPU" | "GPU wait" => "waiting for the GPU",
        "data" => "waiting for data",
        "a lock" | "lock" => "waiting for a lock",
        "the GIL" | "GIL" => "waiting for the GIL",
        "a server" | "server" => "waiting for a server",
        "another thread" | "thread" => "waiting for another thread",
        "another process" => "process",
        "other ranks" => "waiting for other ranks",
        other => other,
    }
}

/// The figures of a page, from its rows of text, with the numbers as they stand. Below the answer, a page about the run has numbers
/// of the run.
pub fn figures(rows: &[String], is_of_run: bool) -> BTreeMap<Quantity, Vec<f64>> {
    let mut found: BTreeMap<Quantity, Vec<f64>> = BTreeMap::new();
    // A sentence goes on in the next row: words are joined across rows as well as read row by row.
    let plain: Vec<String> = rows.iter().map(|row| row.replace(['│', '╮', '╭'], " ")).collect();
    let text = plain.iter().take(SENTENCES).map(|row| row.trim()).collect::<Vec<_>>().join(" ");
    let of_ranks = plain.iter().any(|row| row.contains("mean of") && row.contains("ranks"));
    for (row, (line, is_sentence)) in plain.iter().map(|row| (row, false)).chain([(&text, true)]).enumerate() {
        for form in FORMS.iter() {
            for captures in form.pattern.captures_iter(line) {
                let group = |name| captures.name(name).map_or("", |found| found.as_str());
                let Ok(number) = group("n").parse::<f64>() else { continue };
                let whole = captures.get(0).unwrap();
                let (before, after) =
                    (line.get(..whole.start()).unwrap_or_default(), line.get(whole.end()..).unwrap_or_default());
                // How sure a verdict is, next to its heading; and what the workers wait for.
                let is_other = ["orker", "orkers", "while", "while it", "GPU idle while the"]
                    .iter()
                    .any(|words| before.trim_end().ends_with(words));
                if after.trim_start().starts_with("sure") || is_other {
                    continue;
                }
                let window = match is_of_run && !is_sentence && row >= SENTENCES {
                    true => "run",
                    false if after.trim_start().starts_with("this second") => "second",
                    false => "window",
                };
                let is_mean = of_ranks && !is_sentence && line.contains("mean of");
                let owner = if is_mean { "mean of ranks".to_owned() } else { form.owner.to_owned() + group("owner") };
                let name = if group("name").is_empty() { form.name } else { one_name(group("name")) };
                let number = if form.inverse { 100.0 - number } else { number };
                found.entry(Quantity { name: name.to_owned(), owner, window }).or_default().push(number);
            }
        }
    }
    found
}

/// Rows of the card, whose sentences may be broken between rows.
const SENTENCES: usize = 5;

/// Figures of the same thing that differ: more than rounding in opposite directions.
pub fn differing(figures: &BTreeMap<Quantity, Vec<f64>>) -> Vec<String> {
    let mut of_gpu: Vec<f64> = Vec::new();
    let mut found = Vec::new();
    for (quantity, numbers) in figures {
        let (low, high) = numbers.iter().fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(*n), high.max(*n)));
        if high - low > 1.0 {
            found.push(format!("{} of {}, {}: {numbers:?}", quantity.name, quantity.owner, quantity.window));
        }
        if quantity.name == "busy" && quantity.owner.starts_with("GPU") && quantity.window == "window" {
            of_gpu.extend(numbers);
        }
    }
    // A job with one GPU: its number and the sentence's.
    let gpus = figures.keys().filter(|of| of.owner.starts_with("GPU ")).count();
    let (low, high) = of_gpu.iter().fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(*n), high.max(*n)));
    if gpus == 1 && high - low > 1.0 {
        found.push(format!("busy of the GPU: {of_gpu:?}"));
    }
    found
}
