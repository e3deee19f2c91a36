//! What a cause means, how it is recognised and what to do, and how to read what a verdict shows: for a person within 80
//! columns, and as JSON.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::text::WIDTH;
use crate::diagnosis::causes::CauseSpec;
use crate::diagnosis::verdict::Class;
use crate::text::wrap_hanging;

/// How to read a part of the verdict.
#[derive(Debug)]
pub struct Topic {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it is, in a few words.
    headline: &'static str,
    /// Titles, each with its lines. A long line goes on below its text, which begins behind a bullet or a wide gap.
    sections: &'static [(&'static str, &'static [&'static str])],
}

/// All of them.
pub const TOPICS: [Topic; 1] = [Topic {
    name: "chain",
    headline: "whom the loop waits for, and whom that one waits for in turn",
    sections: &[
        (
            "How to read it",
            &[
                "  loop waits 87% ← data worker 1301 (1 of 1) ← CPU: decode_image work.py:22",
                "",
                "  - read it from the left, the arrow means `because of`: for 87% of its time the loop does not go on, \
                 because it wants a batch of worker 1301, which computes meanwhile, mostly in decode_image",
                "  - what stands last is what has to become faster; everything between only passes the wait on",
                "  - a percentage in brackets is the part of the wait that ends there, where it is not nearly all of it; \
                 the tree (diagnose, and the screen's page Chain) has the other parts",
                "  - `loop works itself 93%` waits for nobody: the code that is named is what takes the time",
                "  - `loop (thread 1240)`: the loop does not run on the main thread of its process",
            ],
        ),
        (
            "What it ends at",
            &[
                "  CPU                   it computes, or queues for a CPU; the line of code, where py-spy tells it",
                "  disk                  it reads data, or waits until what it wrote lies on the disk",
                "  (network)             an answer from this address; a server on this machine that computes is followed",
                "  GPU                   the device works, or is asked for results so often that the loop waits for each",
                "  lock                  a lock on a file; its holder follows, where the kernel tells it",
                "  interpreter lock      another Python thread of the process holds the lock (GIL) that the loop needs",
                "  reader of its output  the loop writes into a full pipe: `tee`, a pager, a log collector",
                "  sleeps, a timer       somebody sleeps, or asks again and again whether there is something to do",
                "  idle                  it waits for the one that waits for it: nothing moves",
            ],
        ),
        (
            "How the shares are made",
            &[
                "  - shares are of the loop's time. Time is passed on and never counted twice: what a node is waited for \
                 is the sum of what lies behind it",
                "  - where several may end a wait, each gets an equal part of it",
                "  - it is seen from outside, some 10 to 40 times a second, over the last seconds",
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
            "What it can be mistaken in",
            &[
                "  - without the right to read /proc/PID/syscall it is inferred from open descriptors and from who works \
                 meanwhile: most ends are the same, which of several servers it is may not be",
                "  - processes of another user or PID namespace are not seen: then the address, or nothing, is the end",
                "  - recordings of earlier versions hold no chain",
            ],
        ),
    ],
}];

/// The topic of this name.
pub fn topic(name: &str) -> Option<&'static Topic> {
    let name = name.trim().to_lowercase();
    TOPICS.iter().find(|topic| topic.name == name)
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

/// One line for each of the causes, below their classes.
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
            // A class without causes says all there is.
            if cause.name != class.word() || class == Class::Idle {
                lines.extend(wrap_hanging(&format!("  {:names$}  ", cause.name), cause.headline, WIDTH));
            }
        }
    }
    lines.push(String::new());
    lines.extend(wrap_hanging(
        "",
        "trainmon explain NAME says how each is recognised and what to do about it",
        WIDTH,
    ));
    for topic in &TOPICS {
        let text = format!("trainmon explain {} says how to read {}", topic.name, topic.headline);
        lines.extend(wrap_hanging("", &text, WIDTH));
    }
    joined(&lines)
}

/// Everything about one cause.
pub fn page(cause: &CauseSpec) -> String {
    let mut lines = wrap_hanging("", &format!("{}: {}", title(cause), cause.headline), WIDTH);
    lines.extend(wrap_hanging("  ", &sentence(cause.meaning), WIDTH));
    let thresholds = cause.thresholds();
    let width = thresholds.iter().map(|threshold| threshold.name().width()).max().unwrap_or_default();
    let thresholds = thresholds.iter().map(|threshold| {
        let first = format!("  {:width$}  ", threshold.name());
        (first, format!("{} ({})", threshold.words(), threshold.source))
    });
    let advice = cause.advice.iter().zip(1..).flat_map(|(row, number)| {
        [(format!("  {number}. "), row.title.to_owned()), ("     ".to_owned(), row.why.to_owned())]
    });
    let sections: [(&str, Vec<(String, String)>); 7] = [
        ("How it is recognised", bullets(cause.rule)),
        ("Thresholds", thresholds.collect()),
        ("Where the numbers come from", bullets(cause.signals)),
        ("Why this rule", bullets(&[cause.source])),
        ("How sure that is", bullets(&[cause.confirmed.words()])),
        ("What it can be mistaken for", bullets(&[cause.limits])),
        ("What to do", advice.collect()),
    ];
    laid_out(lines, sections)
}

/// A page: what it begins with, and sections of texts with what stands before each; those without any are left out.
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

/// A list's beginnings of lines, with its texts.
fn bullets(texts: &[&str]) -> Vec<(String, String)> {
    texts.iter().map(|text| ("  - ".to_owned(), (*text).to_owned())).collect()
}

/// The same as JSON: one object with a list, whatever was asked for.
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

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

fn joined(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::causes::{self, Cause};

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
            let texts = cause.rule.iter().chain(cause.signals).chain([&cause.source, &cause.limits]);
            for text in texts.chain(cause.advice.iter().flat_map(|row| [&row.title, &row.why])) {
                assert!(flat.contains(*text), "{}: {text}", cause.name);
            }
            for threshold in cause.thresholds() {
                assert!(flat.contains(&format!("{} {} (", threshold.name(), threshold.words())), "{flat}");
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
