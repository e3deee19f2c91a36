//! The structure of the crates: data flows one way between their folders, nothing imports in a circle, only the named files touch
//! the outside, one name stands for one thing, and no file or function grows long without a reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod graph;
mod items;
mod size;
mod source;
mod tokens;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use graph::{File, Graph, Place, Use, any_circle, circle_of, files, uses};
use items::Item;

/// Which folders and files right below the `src` of a crate the code of another of that crate may use: the compiler knows about the
/// crates. [`EVERYONE`] may be used by all of them.
const ARROWS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("errors", &[]),
    ("trust", &[]),
    ("heap", &[]),
    ("leave", &[]),
    ("signals", &[]),
    ("stats", &[]),
    ("foreground", &[]),
    ("streams", &["foreground"]),
    ("zone", &[]),
    ("profiles", &[]),
    ("libraries", &[]),
    ("sample", &[]),
    ("sources", &[]),
    ("profiling", &[]),
    ("imports", &["sources"]),
    ("collector", &["sources"]),
    ("rates", &[]),
    ("waits", &[]),
    ("diagnosis", &[]),
    ("pipeline", &["diagnosis"]),
    ("history", &["diagnosis", "pipeline", "watch"]),
    ("watch", &["diagnosis", "pipeline"]),
    ("fleet", &["diagnosis"]),
    ("views", &[]),
    ("outputs", &[]),
    ("runs", &[]),
    ("jobs", &["collector", "runs"]),
    ("started", &[]),
    ("doctor", &[]),
    ("tui", &[]),
    ("http", &[]),
    ("mcp", &[]),
    ("exporter", &["http"]),
    ("prometheus", &["http"]),
    ("logging", &["config"]),
    ("config", &[]),
    ("cli", &["config"]),
    ("demo", &["cli"]),
];
const EVERYONE: [&str; 7] = ["text", "errors", "signals", "stats", "streams", "trust", "zone"];
/// What wires the others together, and is not limited.
const WIRING: [&str; 3] = ["lib", "main", "commands"];

/// Uses against the arrows that are still there: each is to go, and then leaves this list.
const KNOWN_AGAINST_ARROWS: &[(&str, &str)] = &[];

/// Arrows that close circles and are still there: each is to go, and then leaves this list.
const KNOWN_CIRCLES: &[(&str, &str)] = &[];

/// Files above [`MOST_LINES`] that do not say why, and are still there: each is to go, and then leaves this list.
const KNOWN_LONG: &[&str] = &[];

/// Names that stand for several things, with blanks between them, and why they do.
type Excused = (&'static str, &'static str);

/// Type names that several folders declare: each is to go, and then leaves this list.
const KNOWN_TYPES: &[Excused] = &[
    ("Chain", "the features' wait chain, and the page that shows it"),
    ("Recorder", "a writer of recordings, and the command's alias of it"),
    ("Column", "aliases and helpers of single files"),
];

/// Constants that several files have for themselves, as each file's name says.
const PLAIN_CONSTANTS: &[Excused] = &[
    ("CAUSE", "every cause is one"),
    ("DOCUMENT", "every format of documents is one; py-spy writes into another"),
    ("BY_THREADS", "how sure a cause is of itself"),
    ("NUMBERS", "every table of thresholds has its own"),
    ("COLUMNS TIMELINES CHART_MAX BAR NARROW WIDE WIDTH", "the layout of a page or a file"),
];

/// Constants of one name with several values: each is to go, and then leaves this list.
const KNOWN_CONSTANTS: &[Excused] = &[(
    "AGAIN COMMAND DISKS LEVEL LIBRARIES MEMORY MOUNTS NAME OPENED OWN PARTS REQUEST \
         SIGNALS STATES STEP TEXT THREADS VALUE",
    "things with nothing in common but the name",
)];

/// Functions above [`MOST_FUNCTION_LINES`] that do not say why: each is to go, and then leaves this list.
const KNOWN_LONG_FUNCTIONS: &[(&str, &str)] = &[];

/// Folders in which functions are still called `of`: each is to go, and then leaves this list.
const KNOWN_OF: &[&str] = &[];

/// Fields ending in `_s` that are rates: each is to go, and then leaves this list.
const KNOWN_RATES: &[(&str, &str)] = &[];

const MOST_LINES: usize = 400;
const MOST_FUNCTION_LINES: usize = 60;
/// Stands in the first [`HEAD`] lines of a longer file and in the comment of a longer function, with the reason.
const REASON: &str = "Long because";
const HEAD: usize = 10;

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| files(Path::new(env!("CARGO_MANIFEST_DIR"))));

static USES: LazyLock<Vec<Use<'_>>> = LazyLock::new(|| uses(&FILES));

/// Fails with what is wrong, and with what is listed as known and is not there any more.
fn assert_only_known<K: Ord + std::fmt::Debug>(known: &[K], found: &BTreeMap<K, Vec<String>>) {
    known.iter().filter(|key| found.contains_key(key)).for_each(|key| println!("known: {key:?}"));
    let new = found.iter().filter(|(key, _)| !known.contains(key)).flat_map(|(_, lines)| lines.clone());
    let gone = known.iter().filter(|key| !found.contains_key(key));
    let gone = gone.map(|key| format!("{key:?} is not there any more: take it from the list"));
    let wrong: Vec<_> = new.chain(gone).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_folder_has_its_arrows() {
    for file in FILES.iter() {
        let listed = ARROWS.iter().any(|(name, _)| *name == file.unit()) || WIRING.contains(&file.unit());
        assert!(listed, "{file:?}: say in ARROWS what it may use");
    }
    // What is allowed has to be there, or to come.
    let names: Vec<_> = ARROWS.iter().map(|(name, _)| *name).chain(WIRING).collect();
    assert!(ARROWS.iter().flat_map(|(_, allowed)| *allowed).all(|name| names.contains(name)));
}

#[test]
fn data_flows_one_way() {
    let mut wrong: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for used in USES.iter() {
        let (from, to) = (used.from.unit(), used.to.unit());
        let allowed = ARROWS.iter().find(|(name, _)| *name == from).map(|(_, allowed)| *allowed);
        let is_within = used.from.source == used.to.source;
        if is_within && from != to && !EVERYONE.contains(&to) && allowed.is_some_and(|allowed| !allowed.contains(&to))
        {
            wrong.entry((from, to)).or_default().push(format!("{from} may not use {to}: {used}"));
        }
    }
    assert_only_known(KNOWN_AGAINST_ARROWS, &wrong);
}

/// An arrow between two modules: what is below them counts for them, unless one of the two is itself below the other.
struct Arrow<'a> {
    from: Vec<&'a str>,
    to: Vec<&'a str>,
}

impl<'a> Arrow<'a> {
    fn new(from: &'a str, to: &'a str) -> Self {
        Self { from: from.split("::").collect(), to: to.split("::").collect() }
    }

    fn stands_for(&self, from: &[String], to: &[String]) -> bool {
        let within = self.from.starts_with(&self.to) || self.to.starts_with(&self.from);
        let is_it = |place: &[String], name: &[&str]| {
            place.iter().zip(name).all(|(a, b)| a == b)
                && if within { place.len() == name.len() } else { place.len() >= name.len() }
        };
        is_it(from, &self.from) && is_it(to, &self.to)
    }
}

/// The uses for which none of these arrows stands, twice: between neighbours in a folder, each with all that is below it,
/// and between files. A parent and its child may use each other.
fn graphs_without<'a>(arrows: impl IntoIterator<Item = (&'a str, &'a str)>) -> [Graph; 2] {
    static PAIRS: LazyLock<BTreeSet<(&Place, &Place)>> =
        LazyLock::new(|| USES.iter().map(|used| (&used.from.place, &used.to.place)).collect());
    let arrows: Vec<_> = arrows.into_iter().map(|(from, to)| Arrow::new(from, to)).collect();
    let (mut neighbours, mut in_files) = (Graph::new(), Graph::new());
    for (from, to) in PAIRS.iter().filter(|(from, to)| !arrows.iter().any(|arrow| arrow.stands_for(from, to))) {
        let common = from.iter().zip(*to).take_while(|(a, b)| a == b).count();
        let (from_below, to_below) = (from.len() - common, to.len() - common);
        if from_below > 0 && to_below > 0 {
            let neighbour = |place: &[String]| place[..=common].join("::");
            neighbours.entry(neighbour(from)).or_default().insert(neighbour(to));
        }
        if from_below + to_below > 1 {
            in_files.entry(from.join("::")).or_default().insert(to.join("::"));
        }
    }
    [neighbours, in_files]
}

/// A circle, with one import for each of its arrows.
fn told(circle: &[String]) -> String {
    let arrows = circle.windows(2).map(|pair| {
        let arrow = Arrow::new(&pair[0], &pair[1]);
        let example = USES.iter().find(|used| arrow.stands_for(&used.from.place, &used.to.place)).expect("a use");
        format!("\n    {} -> {}: {example}", pair[0], pair[1])
    });
    format!("{}{}", circle.join(" -> "), arrows.collect::<String>())
}

#[test]
fn nothing_imports_in_a_circle() {
    let known = || KNOWN_CIRCLES.iter().copied();
    let mut gone = Vec::new();
    for (from, to) in known() {
        let graphs = graphs_without(known().filter(|other| *other != (from, to)));
        match graphs.iter().find_map(|graph| circle_of(graph, from, to)) {
            Some(circle) => println!("known: {}", told(&circle)),
            None => gone.push((from, to)),
        }
    }
    // The last arrow of each circle that is told is left out, for the next one to show.
    let mut cut: Vec<(String, String)> = Vec::new();
    let mut circles = String::new();
    while let Some(circle) = {
        let cut = cut.iter().map(|(from, to)| (&**from, &**to));
        graphs_without(known().chain(cut)).iter().find_map(any_circle)
    } {
        circles += &format!("\na circle: {}", told(&circle));
        cut.push((circle[circle.len() - 2].clone(), circle[circle.len() - 1].clone()));
    }
    assert!(circles.is_empty(), "{circles}");
    assert!(gone.is_empty(), "not there any more, take it from the list: {gone:?}");
}

/// The words of all files but some, with what is wrong about them.
fn assert_no_word(is_meant: impl Fn(&File) -> bool, is_wrong: impl Fn(&str) -> bool) {
    for file in FILES.iter().filter(|file| is_meant(file)) {
        let found = file.code.words.iter().find(|(word, _)| is_wrong(word));
        assert!(found.is_none(), "{file:?}: {found:?}");
    }
}

#[test]
fn the_diagnosis_knows_no_clock_and_no_runtime() {
    let is_pure = |file: &File| {
        ["sample", "rates", "waits", "diagnosis", "pipeline", "history", "watch"].contains(&file.unit())
    };
    let words = ["tokio", "Instant", "SystemTime", "clock_gettime"];
    assert_no_word(is_pure, |word| words.contains(&word));
    for file in FILES.iter().filter(|file| is_pure(file)) {
        for path in &file.code.paths {
            let outside = matches!(&path.parts[..], [first, second, ..] if first == "std" && ["fs", "thread"].contains(&second.as_str()));
            assert!(!outside && path.parts.last().unwrap() != "now", "{file:?}:{}: {path:?}", path.line);
        }
    }
}

#[test]
fn only_the_nvml_source_names_the_nvml_crates() {
    let own = ["gpu/nvidia", "gpu/nvidia.rs"];
    let is_meant = |file: &File| file.unit() != "sources" || !own.iter().any(|own| file.path.starts_with(own));
    assert_no_word(is_meant, |word| word.starts_with("nvml_wrapper"));
}

#[test]
fn unsafe_code_stands_in_files_of_its_own() {
    let own = [
        "base/src/heap.rs",
        "base/src/leave.rs",
        "sources/src/gpu/nvidia/raw.rs",
        "profiling/src/probes/bpf.rs",
        "tui/src/rescue.rs",
    ];
    let own = own.map(|path| Path::new("crates").join(path));
    assert_no_word(|file| !own.contains(&file.whole_path()), |word| word == "unsafe");
}

/// These panic where the stream is full or closed, and wait for ever where its reader stalls: see `crates/base/src/streams.rs`.
#[test]
fn nothing_prints_by_macros_that_panic() {
    assert_no_word(|_| true, |word| ["println!", "print!", "eprintln!", "eprint!", "dbg!"].contains(&word));
}

#[test]
fn only_the_terminal_file_writes_to_standard_output_from_the_screen() {
    let is_meant = |file: &File| file.unit() == "tui" && file.path != Path::new("terminal.rs");
    assert_no_word(is_meant, |word| ["println!", "print!", "stdout"].contains(&word));
}

#[test]
fn a_long_file_says_why_it_is_long() {
    let mut long: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for file in FILES.iter() {
        let lines = file.code.lines_without_tests(file.text.lines().count());
        if lines > MOST_LINES && !file.text.lines().take(HEAD).any(|line| line.contains(REASON)) {
            let line = format!("{file:?}: {lines} lines; split it, or say in its first lines: {REASON} …");
            long.entry(file.path.to_str().unwrap()).or_default().push(line);
        }
    }
    assert_only_known(KNOWN_LONG, &long);
}

/// Fails where a name is declared with several things: `declared` gives the items of a file, each with what it stands for.
fn assert_one_thing<T: Ord>(excused: &[&[Excused]], declared: impl Fn(&'static File) -> Vec<(&'static Item, T)>) {
    let mut things: BTreeMap<&str, BTreeMap<T, String>> = BTreeMap::new();
    for file in FILES.iter() {
        for (item, thing) in declared(file) {
            things.entry(&item.name).or_default().entry(thing).or_insert(format!("{file:?}:{}", item.line));
        }
    }
    things.retain(|_, things| things.len() > 1);
    let found = things.into_iter().map(|(name, things)| {
        let places: Vec<_> = things.into_values().collect();
        (name, vec![format!("{name} stands for {} things: {}", places.len(), places.join(", "))])
    });
    let excused: Vec<_> = excused.iter().copied().flatten().flat_map(|(names, _)| names.split_whitespace()).collect();
    assert_only_known(&excused, &found.collect());
}

#[test]
fn a_type_name_stands_for_one_thing() {
    assert_one_thing(&[KNOWN_TYPES], |file| file.code.items.types.iter().map(|item| (item, file.folder())).collect());
}

#[test]
fn a_constant_name_has_one_value() {
    let meant = ["rates", "waits", "diagnosis", "sources", "profiling", "views", "outputs", "tui"];
    assert_one_thing(&[PLAIN_CONSTANTS, KNOWN_CONSTANTS], |file| {
        let constants = file.code.items.constants.iter().filter(|_| meant.contains(&file.unit()));
        constants.map(|one| (&one.item, &one.value)).collect()
    });
}

#[test]
fn a_long_function_says_why_it_is_long() {
    let mut long: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for file in FILES.iter() {
        let functions = file.code.items.functions.iter().filter(|function| function.lines() > MOST_FUNCTION_LINES);
        for function in functions.filter(|function| !function.comment(&file.text).any(|line| line.contains(REASON))) {
            let (name, line, lines) = (&*function.name, function.line, function.lines());
            let told = format!("{file:?}:{line}: {name}: {lines} lines; split it, or say in its comment: {REASON} …");
            long.entry((file.path.to_str().unwrap(), name)).or_default().push(told);
        }
    }
    assert_only_known(KNOWN_LONG_FUNCTIONS, &long);
}

/// A name says what a function does: `new`, `between`, `from_frames`.
#[test]
fn no_function_is_called_of() {
    let mut vague: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in FILES.iter() {
        for function in file.code.items.functions.iter().filter(|function| function.name == "of") {
            vague.entry(file.unit()).or_default().push(format!("{file:?}:{}: say what it does", function.line));
        }
    }
    assert_only_known(KNOWN_OF, &vague);
}

/// `_s` is seconds; a rate ends in `_per_s`.
#[test]
fn a_field_named_in_seconds_is_no_rate() {
    let mut rates: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for file in FILES.iter() {
        let in_seconds = |field: &&Item| field.name.ends_with("_s") && !field.name.ends_with("_per_s");
        for field in file.code.items.fields.iter().filter(in_seconds) {
            if field
                .comment(&file.text)
                .any(|line| [" a second", " per second"].iter().any(|rate| line.contains(rate)))
            {
                let told = format!("{file:?}:{}: {} is a rate: end its name in _per_s", field.line, field.name);
                rates.entry((file.path.to_str().unwrap(), &*field.name)).or_default().push(told);
            }
        }
    }
    assert_only_known(KNOWN_RATES, &rates);
}

/// The program is large enough for the rules to have something to hold of.
#[test]
fn the_program_was_read() {
    assert!(FILES.len() > 100 && USES.len() > 1000, "{} files, {} uses", FILES.len(), USES.len());
    let of_tests = FILES.iter().filter(|file| file.path.ends_with("tests.rs") || file.path.ends_with("testing.rs"));
    assert_eq!(of_tests.count(), 0);
}
