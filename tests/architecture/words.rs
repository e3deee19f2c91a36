//! How trainmon speaks: one word for one thing, plain American English, `73%` without a space. Checks every string literal
//! and comment in `src` outside tests, and the prose of README and docs. Code spans, identifiers and paths are names and are
//! not checked.

use std::path::{Path, PathBuf};

use crate::FILES;
use crate::tokens::{Comment, Kind, Token, comments, tokens};

/// Forbidden words and phrases, separated by `|`, and what to write instead. `x*` is any word that starts with x, `…` is one
/// to four words of the same sentence, and `$` is the end of a phrase.
const FORBIDDEN: &[(&str, &str)] = &[
    // One word for one thing.
    ("device|devices", "GPU, or say which device: block device, simulated GPU"),
    ("main thread|main threads|main-thread|trainer|trainers", "the training loop, the loop, or rank"),
    ("data worker|data workers|data-worker|data-workers|feeder|feeders", "worker, or data-loader worker"),
    ("cores", "CPUs, or physical cores"),
    ("stranger|strangers|neighbour*|neighbor|neighbors|companion*", "other processes"),
    ("mend|mends|mended|mending|cure|cures|cured|curing", "fix"),
    ("not seen|not be seen|untold", "cannot read X: reason, or not measured"),
    // Plain sentences.
    ("whom|somebody|nobody", "name the process, or turn the sentence around"),
    ("who", "that, for a process"),
    ("is none|are none|was none|were none", "no X, or not an X"),
    ("stands|stood", "is, lies, reads"),
    ("but for", "except"),
    ("that one $", "name the thing again"),
    ("as … does|as … do|as … did", "like X"),
    ("by itself|by themselves", "alone, or on its own"),
    ("at hand", "available"),
    ("amid", "among, during"),
    ("how sure|unsure", "confidence: 94% sure, probably"),
    ("shall", "should, must, will"),
    ("os error", "the reason alone"),
    // American spelling.
    ("colour*|behaviour*|favour*|honour*|neighbour*", "-or"),
    (
        "recognis*|anonymis*|utilis*|summaris*|normalis*|optimis*|organis*|serialis*|initialis*|synchronis*|minimis*|maximis*",
        "-ize",
    ),
    ("labelled|labelling|modelled|travelled|signalled|cancelled|cancelling|totalled", "one l"),
    ("grey|centre|centred|analyse|analysed|analyses|catalogue|licence|whilst", "the American spelling"),
];

/// The same for what users read: texts of the program and pages. Comments may use these words.
const FORBIDDEN_TO_READERS: &[(&str, &str)] = &[
    ("told|asked", "reported, shown, read; or turn the sentence around"),
    ("own thread", "the loop's thread, thread 1240"),
    ("occupied", "active"),
    (
        "hand-over|hand over|hands over|handing over|handing batches over|taking batches over",
        "moving batches to the loop; the stage is `send`",
    ),
    ("held-out|held out", "unseen"),
    ("busy computing", "kept busy by the job"),
    ("requests for batches", "one for each batch"),
    ("larger half", "more than half"),
    ("workloads separate", "test programs lose less than 2% or more than 30%"),
];

/// Phrases in which a forbidden word is right, separated by `|`, and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "block device|block devices|character device|device number|device numbers|device node|device nodes",
        "not a GPU",
    ),
    ("network device|network devices|device and mount|device file|device files|not a device", "not a GPU"),
    ("stands for|stand for", "what an abbreviation or a placeholder means"),
    ("stands still|stood still", "what a counter or a job does"),
    ("physical cores|tensor cores", "they are no CPUs"),
    (
        "user who|users who|person who|people who|anyone who|everyone who|those who|engineer who|reader who|who can have put",
        "people",
    ),
    ("--anonymise|anonymise", "an option and a key of the JSON"),
    ("--no-colour", "the option's other spelling"),
];

/// Files in which a forbidden word is right: the start of their paths, the phrases, and why.
const PLACES: &[(&str, &str, &str)] = &[
    ("crates/sources/src/block", "device|devices", "block devices and the names of sysfs"),
    ("crates/sources/src/storage", "device|devices", "block devices and the names of sysfs"),
    ("crates/sources/src/mount", "device|devices", "what a mount is of"),
    ("crates/sources/src/host.rs", "device", "a name of sysfs"),
    ("src/commands/probed.rs", "devices", "a key of the JSON"),
    ("crates/sources/src/gpu/nvidia.rs", "devices", "a folder of sysfs"),
    ("crates/sources/src/gpu/amd", "device", "a folder of sysfs, and a PCI device"),
    ("crates/sources/src/gpu/drm", "device", "a folder of sysfs"),
    ("crates/rates/src/storage", "device|devices", "block devices"),
    ("crates/sample/src/storage", "device|devices", "block devices"),
    ("crates/waits/src/taxonomy.rs", "device|asked", "words of the JSON"),
    ("crates/sources/src/recording/schema_1.rs", "device|trainer|trainers|feeders", "words of recordings"),
    ("crates/sample/src", "mend", "the key in older recordings"),
    ("crates/sample/src/process.rs", "trainer|feeder", "the names of roles"),
    ("crates/sample/src/lib.rs", "neighbours", "the key in recordings"),
    ("crates/sample/src/sampler.rs", "trainer|feeders", "the keys in recordings"),
    ("crates/base/src/text/format.rs", "cores", "a unit in the JSON"),
    ("crates/base/src/errors.rs", "os error", "what is cut from an error's text"),
    ("crates/waits/src/stacks/reading.rs", "feeder", "names that people give to functions"),
    ("crates/libraries/src/table.rs", "trainer", "names of classes"),
    ("crates/waits/src/stacks/patterns.rs", "trainer", "file names of frameworks"),
    ("crates/diagnosis/src/diagnosis/causes/states.rs", "trainer", "a class of Hugging Face"),
    ("docs/how-it-knows.md", "trainer", "a class of Hugging Face"),
    ("docs/verdicts.md", "trainer", "names of libraries"),
    ("crates/diagnosis/src/diagnosis/causes/mod.rs", "main-thread|hand-over", "names of causes"),
    (
        "crates/diagnosis/src/diagnosis/causes/names.rs",
        "cores|neighbour|neighbor|hand-over|main-thread",
        "what people call things",
    ),
    ("src/cli/guesses.rs", "device|devices|colour|analyse", "options and words of other programs"),
    ("crates/diagnosis/src/diagnosis/causes/cpu_training.rs", "cores", "a unit of thresholds"),
    ("crates/diagnosis/src/diagnosis/thresholds.rs", "cores", "a unit of thresholds"),
    ("crates/diagnosis/src/diagnosis/what_if.rs", "cores", "physical cores"),
    ("crates/attach/src/doctor/host.rs", "cores", "physical cores"),
    ("crates/profiles/src/event.rs", "device", "a key of traces"),
    ("crates/diagnosis/src/diagnosis/ceiling.rs", "device", "a word of the JSON"),
    ("crates/diagnosis/src/diagnosis/chain/node.rs", "device|data worker|asked", "words of the JSON"),
    ("crates/serve/src/mcp/untrusted.rs", "data worker", "a word of the JSON"),
    ("docs/measured.md", "main-thread", "the name of a program"),
    ("docs/threat-model.md", "as logrotate does", "the name of a test"),
];

/// A stretch of prose: from a literal, a block of comments, or a paragraph of Markdown.
#[derive(Debug)]
struct Prose {
    /// Relative to the repository.
    path: PathBuf,
    /// The line on which the text starts.
    line: usize,
    text: String,
    /// Whether users read it, not only who reads the source.
    for_users: bool,
}

/// A word of a text, lower case.
#[derive(Debug)]
struct Word {
    text: String,
    at: usize,
    /// Whether only blanks separate it from the previous word.
    follows: bool,
}

impl Prose {
    /// What is wrong with it, one line each.
    fn wrong(&self) -> Vec<String> {
        let words = words(&self.text);
        let mut allowed = vec![false; words.len()];
        for phrase in ALLOWED.iter().flat_map(|(phrases, _)| phrases.split('|')) {
            for (first, length) in matches(phrase, &words) {
                allowed[first..first + length].fill(true);
            }
        }
        let excused: Vec<&str> = PLACES
            .iter()
            .filter(|(place, ..)| self.path.starts_with_text(place))
            .flat_map(|(_, phrases, _)| phrases.split('|'))
            .collect();
        let mut wrong = Vec::new();
        let for_users = FORBIDDEN_TO_READERS.iter().filter(|_| self.for_users);
        for (phrases, instead) in FORBIDDEN.iter().chain(for_users) {
            for phrase in phrases.split('|') {
                for (first, length) in matches(phrase, &words) {
                    let said: Vec<_> = words[first..first + length].iter().map(|word| word.text.as_str()).collect();
                    let said = said.join(" ");
                    if !allowed[first] && !excused.contains(&said.as_str()) {
                        wrong.push(self.report(words[first].at, &said, instead));
                    }
                }
            }
        }
        wrong.extend(spaced_percent(&self.text).map(|at| self.report(at, "%", "73%, without a space")));
        wrong
    }

    fn report(&self, at: usize, said: &str, instead: &str) -> String {
        let line = self.line + self.text[..at].matches('\n').count();
        format!("{}:{line}: {said:?}: write {instead}", self.path.display())
    }
}

/// Whether a path starts with a text, which may end inside a part of the path.
trait StartsWithText {
    fn starts_with_text(&self, text: &str) -> bool;
}

impl StartsWithText for Path {
    fn starts_with_text(&self, text: &str) -> bool {
        self.to_str().is_some_and(|path| path.starts_with(text))
    }
}

/// The words of a text. A code span, an identifier, a path and a placeholder are one word each, which no phrase matches.
fn words(text: &str) -> Vec<Word> {
    let is_part = |c: char| c.is_alphanumeric() || "_-'’/.:{}$<>=@#".contains(c);
    let mut found: Vec<Word> = Vec::new();
    let (mut at, mut follows) = (0, false);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let span = first == '`' && rest[1..].contains('`');
        let length = if span {
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            rest[ticks..].find(&"`".repeat(ticks)).map_or(ticks, |end| ticks + end + ticks)
        } else {
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        };
        if length == 0 {
            follows &= first.is_whitespace();
            at += first.len_utf8();
            continue;
        }
        let written = &rest[..length];
        let word = written.trim_matches(['.', ':', '\'', '’', '-']).to_lowercase().replace('’', "'");
        let word = word.strip_suffix("'s").unwrap_or(&word).to_owned();
        if !word.is_empty() {
            found.push(Word { text: word, at, follows });
        }
        follows = !written.ends_with(['.', ':']);
        at += length;
    }
    found
}

/// Every match of a phrase: the index of its first word, and its number of words.
fn matches(phrase: &str, words: &[Word]) -> Vec<(usize, usize)> {
    const LONGEST_GAP: usize = 4;
    let parts: Vec<_> = phrase.split(' ').collect();
    let length_from = |first: usize| {
        let mut at = first;
        for (part, before) in parts.iter().zip([None].into_iter().chain(parts.iter().copied().map(Some))) {
            let is_here = |at: usize| {
                let word = words.get(at)?;
                let matched = part.strip_suffix('*').map_or(word.text == *part, |start| word.text.starts_with(start));
                matched.then_some(at)
            };
            if *part == "…" || (*part == "$" && words.get(at).is_none_or(|next| !next.follows)) {
                continue;
            }
            let choices = if before == Some("…") { at + 1..=at + LONGEST_GAP } else { at..=at };
            let found = choices.into_iter().find_map(is_here)?;
            if words[first + 1..=found.max(first)].iter().any(|word| !word.follows) {
                return None;
            }
            at = found + 1;
        }
        Some(at - first)
    };
    (0..words.len()).filter_map(|first| Some((first, length_from(first)?))).collect()
}

/// Where a blank separates a percent sign from its number or placeholder.
fn spaced_percent(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('%').map(|(at, _)| at).filter(|at| {
        let before = &text[..*at];
        let number = before.trim_end_matches([' ', '\u{a0}', '\u{202f}']);
        number.len() < before.len()
            && (number.is_empty() || number.ends_with(|c: char| c.is_ascii_digit() || c == '}'))
    })
}

/// The string literals in a file outside its tests, with their lines; escapes become blanks.
fn literals(tokens: &[Token], is_of_tests: &impl Fn(usize) -> bool, found: &mut Vec<(usize, String)>) {
    for token in tokens.iter().filter(|token| !is_of_tests(token.line)) {
        match &token.kind {
            Kind::Group(_, inside) => literals(inside, is_of_tests, found),
            Kind::Literal(written) if written.starts_with('"') => {
                let mut text = String::new();
                let mut rest = written[1..].strip_suffix('"').unwrap_or(written).chars();
                while let Some(c) = rest.next() {
                    if c != '\\' {
                        text.push(c);
                        continue;
                    }
                    text.push(' ');
                    // A continued line, or the rest of an escape.
                    text.extend(rest.next().map(|escaped| if escaped == '\n' { '\n' } else { ' ' }));
                }
                found.push((token.line, text));
            }
            Kind::Literal(written) if written.starts_with("r\"") || written.starts_with("r#") => {
                found.push((token.line, written.clone()));
            }
            _ => {}
        }
    }
}

/// Comments as blocks: those on consecutive lines become one text. Code in them is dropped.
fn blocks(comments: &[Comment<'_>]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_code = false;
    for comment in comments {
        let words = comment.text.trim_start_matches(['/', '!', '*']).trim_end_matches(['*', '/']);
        is_code ^= words.trim_start().starts_with("```");
        let words = if is_code || words.trim_start().starts_with("```") { "" } else { words };
        match found.last_mut() {
            Some((line, text)) if *line + text.matches('\n').count() + 1 == comment.line => {
                text.push('\n');
                text.push_str(words);
            }
            _ => found.push((comment.line, words.to_owned())),
        }
    }
    found
}

/// Markdown without its code, as one text.
fn prose_of_markdown(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// All prose to check.
fn prose() -> Vec<Prose> {
    let mut found = Vec::new();
    let mut add = |path: &Path, texts: Vec<(usize, String)>, for_users: bool| {
        found.extend(texts.into_iter().map(|(line, text)| Prose { path: path.to_owned(), line, text, for_users }));
    };
    for file in FILES.iter() {
        let path = file.whole_path();
        let is_of_tests = |line| file.code.is_of_tests(line);
        let mut texts = Vec::new();
        literals(&tokens(&file.text), &is_of_tests, &mut texts);
        add(&path, texts, true);
        let comments: Vec<_> =
            comments(&file.text).into_iter().filter(|comment| !is_of_tests(comment.line)).collect();
        add(&path, blocks(&comments), false);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs =
        std::fs::read_dir(root.join("docs")).unwrap().map(|entry| Path::new("docs").join(entry.unwrap().file_name()));
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    let crates = crates.map(|entry| Path::new("crates").join(entry.unwrap().file_name()).join("README.md"));
    for path in docs
        .chain(crates)
        .chain(["README.md".into()])
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
    {
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        add(&path, vec![(1, prose_of_markdown(&text))], true);
    }
    found
}

#[test]
fn trainmon_speaks_plainly() {
    let mut wrong: Vec<_> = prose().iter().flat_map(Prose::wrong).collect();
    wrong.sort();
    assert!(wrong.is_empty(), "\n{}\n{} in all", wrong.join("\n"), wrong.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(path: &str, text: &str) -> Vec<String> {
        Prose { path: path.into(), line: 7, text: text.into(), for_users: true }.wrong()
    }

    fn said(text: &str) -> Vec<String> {
        let reports = wrong("a.rs", text).into_iter();
        reports.map(|report| report.split('"').nth(1).unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn forbidden_words_are_found() {
        for (text, expected) in [
            ("It waits for whom?", &["whom"][..]),
            ("The device's memory", &["device"]),
            ("the main\nthread waits", &["main thread"]),
            ("there is none.", &["is none"]),
            ("it runs on as the other job does", &["as the other job does"]),
            ("Colours and BEHAVIOUR", &["colours", "behaviour"]),
            ("{who} waits 74 % of it, {share:.0} % there", &["%", "%"]),
            ("mend it", &["mend"]),
            ("This or that one, so that one thing is left", &["that one"]),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
    }

    #[test]
    fn names_and_ends_of_sentences_are_left_alone() {
        for text in [
            "`whom` and ``the `device` ``, device_sync, noisy-neighbour, /sys/block/sda/device, {device}, --no-colour",
            "All is. None of it is read.",
            "a block device, a user who may read it, 73%",
            "as it was. So does it",
            "The main, thread",
        ] {
            assert_eq!(said(text), [] as [&str; 0], "{text}");
        }
        assert_eq!(wrong("crates/sources/src/block.rs", "a device"), [] as [&str; 0]);
    }

    #[test]
    fn comments_may_say_what_users_do_not_read() {
        let text = "What it was told: the loop's own thread is occupied by the hand-over.";
        assert_eq!(said(text), ["told", "own thread", "occupied", "hand-over"]);
        let comment = Prose { path: "a.rs".into(), line: 7, text: text.into(), for_users: false };
        assert_eq!(comment.wrong(), [] as [&str; 0]);
    }

    #[test]
    fn a_report_names_the_line() {
        assert_eq!(wrong("a.rs", "one\ntwo amid\n"), ["a.rs:8: \"amid\": write among, during"]);
    }

    #[test]
    fn texts_and_comments_are_read_and_those_of_tests_are_not() {
        let text = "/// A\n/// whom.\n\n// B\nfn f() { g(\"h\\nwhom\\\n  i\"); } #[cfg(test)] fn t() { g(\"whom\") }";
        let mut texts = Vec::new();
        let code = crate::source::Code::read(text);
        literals(&tokens(text), &|line| line > 5 && code.is_of_tests(line), &mut texts);
        assert_eq!(texts, [(5, "h  whom \n  i".to_owned())]);
        assert_eq!(blocks(&comments(text)), [(1, " A\n whom.".to_owned()), (4, " B".to_owned())]);
        assert_eq!(prose_of_markdown("a\n```sh\nwhom\n```\nb"), "a\n\n\n\nb");
    }
}
