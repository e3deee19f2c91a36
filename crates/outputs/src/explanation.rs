//! What a cause means, how it is recognized and what to do, and how to read what a verdict shows: for a person within 80
//! columns, and as JSON.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::text::WIDTH;
use trainmon_base::text::{fit, wrap_hanging};
use trainmon_diagnosis::diagnosis::causes::{self, CauseSpec};
use trainmon_diagnosis::diagnosis::verdict::Class;

/// A page on how to read a part of the verdict.
#[derive(Debug)]
pub struct Topic {
    /// The name to ask for.
    pub name: &'static str,
    /// What it is, in a few words.
    headline: &'static str,
    /// Titles with their lines. A long line continues below its text, which begins behind a bullet or a wide gap.
    sections: &'static [(&'static str, &'static [&'static str])],
}

/// All of them.
pub const TOPICS: [Topic; 1] = [Topic {
    name: "chain",
    headline: "what the loop waits for, and what that waits for",
    sections: &[
        (
            "How to read it",
            &[
                "  loop waits 87% ← worker 1301 (1 of 1) ← CPU: decode_image work.py:22",
                "",
                "  - Read it from the left; the arrow means `because of`. For 87% of its time the loop waits for a batch \
                 from worker 1301. That worker computes meanwhile, mostly in decode_image.",
                "  - The end of the chain is what has to become faster. Everything between only passes the wait on.",
                "  - A percentage in parentheses is the part of the wait that ends there, if it is not nearly all of it. \
                 The tree has the other parts (diagnose, and the page Chain of the screen).",
                "  - `loop works itself 93%` means that the loop waits for nothing: the named code takes the time.",
                "  - `loop (thread 1240)` means that the loop does not run on the first thread of its process.",
            ],
        ),
        (
            "Where a chain can end",
            &[
                "  CPU                   it computes, or queues for a CPU; with py-spy, at this line of code",
                "  disk                  it reads data, or waits until its writes are on the disk",
                "  (network)             a server at this address has to answer; a local server that computes is followed",
                "  GPU                   the GPU works, or the loop asks for results so often that it waits for each",
                "  lock                  a lock on a file; its holder follows, if the kernel names it",
                "  interpreter lock      another Python thread of the process holds the lock (GIL) that the loop needs",
                "  reader of its output  the loop writes into a full pipe: `tee`, a pager, a log collector",
                "  sleeps, a timer       it sleeps, or polls for something to do",
                "  idle                  it waits for the very process that waits for it: nothing moves",
            ],
        ),
        (
            "How the shares are computed",
            &[
                "  - Shares are of the loop's time. Time is passed on and never counted twice: the share of a node is the \
                 sum of the shares behind it.",
                "  - If several nodes may end a wait, each gets an equal part of it.",
                "  - trainmon samples the loop 50 times a second and what it waits for 17 times, less often once the verdict \
                 is stable. The shares are of the last seconds.",
            ],
        ),
        (
            "Where the numbers come from",
            &[
                "  - /proc/PID/task/TID/syscall and wchan: what each thread is blocked in",
                "  - /proc/PID/fd and fdinfo: the other end of a pipe or a socket; /proc/locks; /proc/PID/net/tcp",
            ],
        ),
        (
            "Limits",
            &[
                "  - If /proc/PID/syscall cannot be read, the chain is inferred from open descriptors and from what works \
                 meanwhile. Most ends stay the same, but with several servers it may name the wrong one.",
                "  - Processes of another user or PID namespace cannot be seen. The chain then ends at the address, or \
                 at nothing.",
                "  - Recordings of earlier versions hold no chain.",
            ],
        ),
    ],
}];

/// The topic of this name.
pub fn topic(name: &str) -> Option<&'static Topic> {
    let name = name.trim().to_lowercase();
    TOPICS.iter().find(|topic| topic.name == name)
}

/// What to say of a name that is neither a cause, a class nor a topic.
pub fn unknown(name: &str) -> Option<String> {
    if !causes::named(name).is_empty() || topic(name).is_some() {
        return None;
    }
    let near = causes::near(name);
    let hint = if near.is_empty() {
        "trainmon explain lists all causes".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    Some(format!("no cause is called `{}`: {hint}", fit(name, 40)))
}

/// Where the text of a topic's line begins.
fn text_start(line: &str) -> usize {
    let gap = line.rfind("  ").map_or(0, |at| at + 2);
    line.rfind("  - ").map_or(gap, |at| at + 4)
}

/// Everything about a topic.
pub fn topic_page(topic: &Topic) -> String {
    let sections = topic.sections.iter().map(|(title, lines)| {
        let parted = lines.iter().map(|line| line.split_at(text_start(line)));
        (*title, parted.map(|(first, text)| (first.to_owned(), text.to_owned())).collect())
    });
    laid_out(wrap_hanging("", &format!("{}: {}", topic.name, topic.headline), WIDTH), sections)
}

/// The same as JSON, in an object like that of causes.
pub fn topic_json(topic: &Topic) -> Value {
    let sections = topic.sections.iter().map(|(title, lines)| {
        let texts = lines.iter().filter(|line| !line.is_empty()).map(|line| {
            let (first, text) = line.split_at(text_start(line));
            format!("{} {text}", first.trim_start_matches([' ', '-'])).trim().to_owned()
        });
        json!({ "title": title, "texts": texts.collect::<Vec<_>>() })
    });
    let topics =
        json!([{ "name": topic.name, "headline": topic.headline, "sections": sections.collect::<Vec<_>>() }]);
    json!({ "schema": 1, "trainmon": env!("CARGO_PKG_VERSION"), "causes": [], "topics": topics })
}

/// One line per cause, below the line of its class.
pub fn list<'a>(causes: impl IntoIterator<Item = &'a CauseSpec>) -> String {
    let causes: Vec<&CauseSpec> = causes.into_iter().collect();
    let names = causes.iter().map(|cause| cause.name.width()).max().unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for class in Class::ALL {
        let of_class: Vec<_> = causes.iter().filter(|cause| cause.class == class).collect();
        if of_class.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(wrap_hanging("", &format!("{}: {}", class.word(), class.meaning()), WIDTH));
        for cause in of_class {
            // The line of a class without causes says it all.
            if cause.name != class.word() || class == Class::Idle {
                lines.extend(wrap_hanging(&format!("  {:names$}  ", cause.name), cause.brief, WIDTH));
            }
        }
    }
    lines.push(String::new());
    lines.extend(wrap_hanging(
        "",
        "trainmon explain NAME: what it means, what to do, and how it is recognized",
        WIDTH,
    ));
    for topic in &TOPICS {
        let text = format!("trainmon explain {}: {}", topic.name, topic.headline);
        lines.extend(wrap_hanging("", &text, WIDTH));
    }
    joined(&lines)
}

/// Everything about one cause: first what helps, then how trainmon knows.
pub fn page(cause: &CauseSpec) -> String {
    let lines = wrap_hanging("", &format!("{}: {}", title(cause), cause.headline), WIDTH);
    let thresholds = cause.thresholds();
    let width = thresholds.iter().map(|threshold| threshold.words().width()).max().unwrap_or_default();
    let thresholds =
        thresholds.iter().map(|threshold| (format!("  {:width$}  ", threshold.words()), threshold.source.to_owned()));
    let advice = cause.advice.iter().zip(1..).flat_map(|(row, number)| {
        [(format!("  {number}. "), row.title.to_owned()), ("     ".to_owned(), sentence(row.why))]
    });
    let confirmed = [sentence(cause.confirmed.words())];
    let sections: [(&str, Vec<(String, String)>); 8] = [
        ("What it means", vec![("  ".to_owned(), sentence(cause.meaning))]),
        ("What to do", advice.collect()),
        ("How it is recognized", bullets(cause.rule_in_words().map(|condition| sentence(&condition)))),
        ("Limits", bullets([sentence(cause.limits)])),
        ("Why these limits", thresholds.collect()),
        ("Where the numbers come from", bullets(cause.signals)),
        ("Background", bullets([cause.source])),
        ("How far it is confirmed", bullets(confirmed)),
    ];
    laid_out(lines, sections)
}

/// A page: its first lines, and sections of texts with what precedes each. Empty sections are left out.
fn laid_out<'t>(
    mut lines: Vec<String>,
    sections: impl IntoIterator<Item = (&'t str, Vec<(String, String)>)>,
) -> String {
    for (title, entries) in sections.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        lines.extend([String::new(), title.to_owned()]);
        lines.extend(entries.iter().flat_map(|(first, text)| wrap_hanging(first, text, WIDTH)));
    }
    joined(&lines)
}

/// A list, as beginnings of lines with their texts.
fn bullets<T: ToString>(texts: impl IntoIterator<Item = T>) -> Vec<(String, String)> {
    texts.into_iter().map(|text| ("  - ".to_owned(), text.to_string())).collect()
}

/// The same as JSON: always one object with a list.
pub fn json<'a>(causes: impl IntoIterator<Item = &'a CauseSpec>) -> Value {
    let causes: Vec<Value> = causes.into_iter().map(one).collect();
    json!({ "schema": 1, "trainmon": env!("CARGO_PKG_VERSION"), "causes": causes })
}

fn one(cause: &CauseSpec) -> Value {
    let named = !matches!(cause.class, Class::Balanced | Class::Idle | Class::Unknown);
    let advice: Vec<Value> = cause.advice.iter().map(|row| json!({ "title": row.title, "why": row.why })).collect();
    let thresholds = cause.thresholds().into_iter().map(
        |known| json!({ "name": known.name(), "value": known.value, "unit": known.unit, "source": known.source }),
    );
    json!({
        "class": cause.class.word(),
        "cause": named.then_some(cause.name),
        "phase": (cause.class == Class::Idle).then_some(cause.name),
        "headline": cause.headline,
        "meaning": cause.meaning,
        "rule": cause.rule,
        "thresholds": thresholds.collect::<Vec<_>>(),
        "signals": cause.signals,
        "source": cause.source,
        "confirmed": cause.confirmed,
        "limits": cause.limits,
        "advice": advice,
    })
}

/// `data-loader / decode`, and the class alone where it has no causes.
fn title(cause: &CauseSpec) -> String {
    let class = cause.class.word();
    if class == cause.name && cause.class != Class::Idle {
        class.to_owned()
    } else {
        format!("{class}/{}", cause.name)
    }
}

/// With a capital and a full stop. What is no plain word, such as the name of a function or a path, keeps its first letter.
fn sentence(text: &str) -> String {
    let first = text.split([' ', ',', ':']).next().unwrap_or_default();
    let is_name = first == "torch" || first.contains(|c: char| !c.is_ascii_lowercase() && !"-'".contains(c));
    let mut letters = text.chars();
    let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    if is_name { format!("{text}.") } else { format!("{capital}{}.", letters.as_str()) }
}

fn joined(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::causes::Cause;

    #[test]
    fn one_page_as_it_is_printed() {
        let cause = Cause::WorkerImbalance.spec();
        insta::assert_snapshot!(page(cause));
    }

    #[test]
    fn every_page_fits_and_says_everything() {
        for cause in causes::all().chain(causes::states()) {
            let page = page(cause);
            assert!(page.lines().all(|line| line.width() <= WIDTH), "{page}");
            let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
            let texts = cause.signals.iter().chain([&cause.source]).copied().map(str::to_owned);
            let sentences = cause.rule_in_words().chain([cause.meaning.into(), cause.limits.into()]);
            let sentences = sentences.chain(cause.advice.iter().map(|row| row.why.to_owned()));
            let titles = cause.advice.iter().map(|row| row.title.to_owned());
            for text in texts.chain(titles).chain(sentences.map(|text| sentence(&text))) {
                assert!(flat.contains(&text), "{}: {text}", cause.name);
            }
            for threshold in cause.thresholds() {
                assert!(flat.contains(&format!("{} {}", threshold.words(), threshold.source)), "{flat}");
                let name = threshold.name();
                assert!(
                    !flat.split([' ', '`', '(', ')', ',']).any(|word| name.contains('_') && word == name),
                    "{name}: {flat}"
                );
            }
        }
        assert!(list(causes::all()).lines().all(|line| line.width() <= WIDTH));
    }

    #[test]
    fn every_topic_fits_and_is_found() {
        for known in &TOPICS {
            let page = topic_page(topic(&known.name.to_uppercase()).unwrap());
            assert!(page.lines().all(|line| line.width() <= WIDTH), "{page}");
            insta::assert_snapshot!(format!("topic_{}", known.name), page);
            assert!(causes::named(known.name).is_empty(), "{} is a cause too", known.name);
            let json = topic_json(known);
            assert_eq!((&json["topics"][0]["name"], &json["causes"]), (&json!(known.name), &json!([])));
        }
        assert!(list(causes::all()).contains("trainmon explain chain"));
    }

    #[test]
    fn json_has_the_values_of_the_one_table() {
        let value = json(causes::named("too-few-workers"));
        let cause = &value["causes"][0];
        assert_eq!((&cause["class"], &cause["cause"]), (&json!("data-loader"), &json!("too-few-workers")));
        assert_eq!(cause["thresholds"][0]["value"], json!(0.1));
        assert_eq!(cause["confirmed"], json!("labelled-workloads"));
        assert!(cause["phase"].is_null() && cause["advice"][0]["why"].is_string());
        let phase = &json(causes::named("idle/init"))["causes"][0];
        assert_eq!((&phase["cause"], &phase["phase"]), (&Value::Null, &json!("init")));
    }
}
