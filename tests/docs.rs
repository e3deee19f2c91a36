//! README.md and docs/ say what the program says: keys, causes, commands, columns and the keys of the JSON come from the
//! same tables. Links and names of files lead somewhere.
//!
//! `UPDATE_DOCS=1 cargo test --test docs` rewrites the tables and the shown outputs that differ.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

#[path = "support/looped.rs"]
mod looped;
#[path = "docs/outputs.rs"]
mod outputs;
#[path = "support/prometheus.rs"]
mod prometheus;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::CommandFactory;
use trainmon::cli::Cli;
use trainmon::diagnosis::Verdict;
use trainmon::diagnosis::causes::{self, Confirmed};
use trainmon::diagnosis::verdict::Class;
use trainmon::mcp::tools::{Argument, TOOLS};
use trainmon::outputs::{csv, events, metrics};
use trainmon::tui::keys::{TABLE, by_task};
use trainmon::tui::pages::{Page, PageSpec};
use trainmon::watch::EventKind;
use trainmon_libraries::Library;

/// The README stays short: more than this belongs on a page of its own.
const README_LINES: usize = 150;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The pages at the top of the repository and every page of docs/: path below the root, text.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = names("docs").into_iter().map(|name| format!("docs/{name}"));
    let pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).into_iter().chain(docs);
    pages.map(|name| (PathBuf::from(&name), read(&name))).collect()
}

/// The lines of a page that are not within a block of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// What links and pictures of a page point to.
fn targets(text: &str) -> Vec<&str> {
    let after = prose(text).flat_map(|line| line.split("](").skip(1));
    after.map(|rest| rest.split(')').next().unwrap_or_default()).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// Held while a page is read, changed and written: several tests change the same page.
static WRITING: Mutex<()> = Mutex::new(());

/// Fails where a page differs from what is made for it. With `UPDATE_DOCS=1` in the environment it is written instead.
fn assert_page(page: &str, made: impl Fn(&str) -> String) {
    let _held = WRITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let text = read(page);
    let wanted = made(&text);
    if text == wanted {
        return;
    }
    let differs = wanted.lines().find(|line| !text.lines().any(|there| there == *line)).unwrap_or_default();
    assert!(
        std::env::var_os("UPDATE_DOCS").is_some(),
        "UPDATE_DOCS=1 cargo test --test docs writes this into {page}:\n{differs}"
    );
    // At once: other tests read it.
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(page.replace('/', "-"));
    fs::write(&new, wanted).unwrap();
    fs::rename(new, root().join(page)).unwrap();
}

/// Holds the text of a page between two others to this.
fn assert_made(page: &str, before: &str, made: &str, after: &str) {
    assert_page(page, |text| {
        let (head, rest) = text.split_once(before).expect(before);
        let (_, tail) = rest.split_once(after).expect(after);
        [head, before, made, after, tail].concat()
    });
}

#[test]
fn every_key_is_listed_below_its_task() {
    let (mut made, mut lines) = (String::new(), 0);
    for (task, bindings) in by_task() {
        made += &format!("\n## {task}\n\n| key | what it does |\n|---|---|\n");
        lines += bindings.len();
        for binding in bindings {
            made += &format!("| `{}` | {} |\n", binding.keys.replace(' ', "` `"), binding.help);
        }
    }
    assert_eq!(lines, TABLE.len(), "a key of the table is below no task");
    assert_made("docs/keys.md", "htop and nvtop have them.\n", &made, "\n## The mouse\n");
}

#[test]
fn every_page_of_the_screen_is_listed() {
    // keys.md describes the help.
    let pages = Page::ALL.into_iter().filter(|page| *page != Page::Help).map(Page::spec);
    let row = |page: &PageSpec| {
        let key = page.keys.split(' ').next().unwrap();
        format!("| {key} {} | {} |\n", page.name, page.about.trim())
    };
    let rows: String = pages.map(row).collect();
    assert_made("docs/screen.md", "| page | what it shows |\n|---|---|\n", &rows, "\n## Charts\n");
}

/// Holds the first table below a heading of a page to these rows.
fn check_table(page: &str, heading: &str, rows: &[String]) {
    assert_page(page, |text| {
        let (before, below) = text.split_once(&format!("\n{heading}\n")).expect(heading);
        let (prose, table) = below.split_at(below.find("\n|").expect("a table") + 1);
        let end = table.find("\n\n").map_or(table.len(), |end| end + 1);
        let after = table.get(end..).unwrap_or_default();
        format!("{before}\n{heading}\n{prose}{}\n{after}", rows.join("\n"))
    });
}

#[test]
fn the_causes_are_listed_as_in_their_table() {
    let mut rows = vec!["| class | cause | confirmed | what it means |".to_owned()];
    rows.push("|---|---|:---:|---|".to_owned());
    for cause in causes::all() {
        let mark = match cause.confirmed {
            Confirmed::LabeledWorkloads => "●",
            Confirmed::FakeDeviceOnly => "◐",
            Confirmed::DataFilesOnly => "○",
            Confirmed::Unconfirmed => "–",
        };
        rows.push(format!("| `{}` | `{}` | {mark} | {} |", cause.class.word(), cause.name, cause.meaning));
    }
    check_table("docs/verdicts.md", "## Classes and causes", &rows);
    let page = read("docs/verdicts.md");
    let (_, section) = page.split_once("## Classes and causes\n").expect("the section");
    for class in Class::ALL {
        assert!(section.contains(&format!("`{}`", class.word())), "{class:?}");
    }
    for state in causes::states().filter(|state| state.class == Class::Idle) {
        assert!(section.contains(state.name), "{}", state.name);
    }
}

#[test]
fn the_libraries_are_listed_as_in_their_table() {
    let mut rows =
        vec!["| library | kind of job | what is counted | its page |".to_owned(), "|---|---|---|---|".to_owned()];
    for library in Library::ALL {
        let mut units: Vec<&str> = library.counters.iter().map(|counter| counter.unit.word()).collect();
        units.sort_unstable();
        units.dedup();
        let counted = if units.is_empty() { "–".to_owned() } else { units.join(", ") };
        let (name, kind, page) = (library.name, library.kind.word().replace('-', " "), library.page);
        let (_, address) = page.split_once("://").unwrap();
        let host = address.split('/').next().unwrap();
        rows.push(format!("| {name} | {kind} | {counted} | [{host}]({page}) |"));
    }
    check_table("docs/verdicts.md", "## Libraries", &rows);
}

/// The fields of a struct that is written as JSON, with their doc comments, as they stand in its source.
fn fields_of(file: &str, name: &str) -> Vec<(String, String)> {
    let source = read(file);
    let (_, body) = source.split_once(&format!("\npub struct {name} {{\n")).expect(name);
    let (mut found, mut meaning, mut renamed) = (Vec::new(), Vec::new(), None);
    for line in body.lines().map(str::trim).take_while(|line| *line != "}") {
        if let Some(doc) = line.strip_prefix("///") {
            meaning.push(doc.trim().replace("[`", "`").replace("`]", "`").replace('|', "\\|"));
        } else if let Some((_, name)) = line.split_once("rename = \"") {
            renamed = name.split('"').next().map(str::to_owned);
        } else if let Some((field, _)) = line.strip_prefix("pub ").and_then(|line| line.split_once(':')) {
            found.push((renamed.take().unwrap_or_else(|| field.to_owned()), meaning.join(" ")));
            meaning.clear();
        }
    }
    found
}

#[test]
fn every_key_of_the_json_is_described_by_the_comment_of_its_field() {
    let (verdict, parts) = ("crates/diagnosis/src/diagnosis/verdict.rs", "crates/diagnosis/src/diagnosis/parts.rs");
    let mut rows = vec!["| key | what it is |".to_owned(), "|---|---|".to_owned()];
    for (above, file, name) in [
        ("", verdict, "Verdict"),
        ("gpu_idle.", parts, "GpuIdle"),
        ("steps.", verdict, "Steps"),
        ("main_thread.", verdict, "MainThread"),
        ("ranks[].", verdict, "Rank"),
        ("workers[].", parts, "WorkerVerdict"),
        ("workers[].stages.", parts, "Stages"),
        ("workers[].hottest.", parts, "Hottest"),
        ("evidence[].", "crates/diagnosis/src/diagnosis/signals.rs", "Evidence"),
        ("advice[].", parts, "Advice"),
        ("ceiling.", "crates/diagnosis/src/diagnosis/ceiling.rs", "Ceiling"),
        ("other_findings[].", "crates/diagnosis/src/diagnosis/causes/judgment.rs", "Finding"),
        ("culprits[].", "crates/diagnosis/src/diagnosis/culprits.rs", "Culprit"),
        ("chain[].", "crates/diagnosis/src/diagnosis/chain/node.rs", "NodeWords"),
        ("not_seen[].", verdict, "Unavailable"),
        ("self.", verdict, "OwnCost"),
    ] {
        let fields = fields_of(file, name);
        rows.extend(fields.iter().map(|(key, meaning)| format!("| `{above}{key}` | {meaning} |")));
    }
    check_table("docs/verdicts.md", "## The JSON", &rows);
    let all = serde_json::to_value(Verdict::default()).unwrap();
    for key in all.as_object().unwrap().keys() {
        assert!(rows.iter().any(|row| row.starts_with(&format!("| `{key}` |"))), "{key}");
    }
}

#[test]
fn every_command_is_mentioned() {
    let page = read("docs/commands.md");
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let call = format!("trainmon {}", command.get_name());
        assert!(page.contains(&call), "{call}");
    }
}

#[test]
fn every_column_of_the_log_is_described() {
    for (heading, before, columns) in [
        ("## Columns", "", csv::COLUMNS),
        ("## Columns of each GPU", "gpuN_", csv::GPU_COLUMNS),
        ("## The last column", "", csv::LAST_COLUMNS),
    ] {
        let mut rows = vec!["| column | type | unit | what it is |".to_owned(), "|---|---|---|---|".to_owned()];
        for column in columns {
            let (kind, unit) = match (column.name, column.unit) {
                ("timestamp", _) => ("time", "–"),
                (_, "text") => ("text", "–"),
                (_, "number") => ("number", "–"),
                (_, unit) => ("number", unit),
            };
            rows.push(format!("| `{before}{}` | {kind} | {unit} | {} |", column.name, column.meaning));
        }
        check_table("docs/log.md", heading, &rows);
    }
}

#[test]
fn every_metric_is_described() {
    for (of, metrics) in metrics::tables() {
        let mut rows = vec!["| metric | its labels | what it is |".to_owned(), "|---|---|---|".to_owned()];
        for metric in metrics {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            rows.push(format!("| `{}` | {} | {} |", metric.name, labels.join(", "), metric.help));
        }
        check_table("docs/export.md", &format!("### {of}"), &rows);
    }
}

#[test]
fn every_tool_for_agents_is_listed() {
    let mut rows = vec!["| tool | arguments | what it gives |".to_owned(), "|---|---|---|".to_owned()];
    for tool in TOOLS {
        let argument = |argument: &Argument| {
            let optional = if argument.required { "" } else { "?" };
            format!("`{}{optional}`: {}", argument.name, argument.description)
        };
        let arguments: Vec<String> = tool.arguments.iter().map(argument).collect();
        rows.push(format!("| `{}` | {} | {} |", tool.name, arguments.join("<br>"), tool.description));
    }
    check_table("docs/mcp.md", "## Tools", &rows);
}

#[test]
fn every_event_and_every_variable_of_a_command_is_listed() {
    let mut rows = vec!["| event | what it means | reported after |".to_owned(), "|---|---|---|".to_owned()];
    rows.extend(EventKind::ALL.map(|kind| {
        let (what, soon) = kind.meaning();
        format!("| `{}` | {what} | {soon} |", kind.word())
    }));
    check_table("docs/watch.md", "## Events", &rows);
    let mut rows = vec!["| variable | what is in it |".to_owned(), "|---|---|".to_owned()];
    rows.extend(events::VARIABLES.map(|(name, what)| format!("| `{name}` | {what} |")));
    check_table("docs/watch.md", "## A command at each event", &rows);
}

#[test]
fn every_key_of_the_fleet_is_described() {
    let mut rows = vec!["| key | what it is |".to_owned(), "|---|---|".to_owned()];
    for (above, name) in [
        ("", "Fleet"),
        ("totals.", "FleetTotals"),
        ("….gpus.", "GpuCount"),
        ("runs[].", "FleetRun"),
        ("runs[].late.", "LateRanks"),
        ("runs[].ranks[].", "FleetRank"),
        ("runs[].ranks[].gpus[].", "FleetGpu"),
        ("unused[].", "UnusedGpus"),
        ("down[].", "DownExporter"),
    ] {
        let fields = fields_of("crates/diagnosis/src/fleet/mod.rs", name);
        rows.extend(fields.iter().map(|(key, meaning)| format!("| `{above}{key}` | {meaning} |")));
    }
    check_table("docs/fleet.md", "### Keys", &rows);
}

#[test]
fn every_link_leads_somewhere() {
    for (page, text) in pages() {
        for target in targets(&text).into_iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(root().join(&path).exists(), "{}: {target}", page.display());
            if !anchor.is_empty() {
                let headings = anchors(&read(path.to_str().unwrap()));
                assert!(headings.iter().any(|heading| heading == anchor), "{}: {target}", page.display());
            }
        }
    }
}

#[test]
fn every_page_is_linked_from_the_readme() {
    let readme = read("README.md");
    for name in names("docs") {
        assert!(targets(&readme).contains(&format!("docs/{name}").as_str()), "docs/{name}");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= README_LINES, "{lines} lines; put the rest on a page of docs/");
}

#[test]
fn every_screen_is_shown_and_can_be_made_anew() {
    let script = read("measure/screens.py");
    let shown: Vec<String> = pages().iter().flat_map(|(_, text)| targets(text)).map(str::to_owned).collect();
    for name in names("assets/screens") {
        assert!(
            shown.iter().any(|target| target.ends_with(&format!("assets/screens/{name}"))),
            "{name} is not shown"
        );
        let stem = name.split('.').next().unwrap_or_default();
        let is_made =
            script.contains(&format!("\"{stem}\": (")) || script.contains(&format!("assets/screens/{stem}\""));
        assert!(is_made, "{name} is not made");
    }
}

/// Words that name a file of the repository; `NAME` stands for one that is still to be written.
fn files_named(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || "`()[]'\"".contains(c));
    let words = words.map(|word| word.trim_end_matches(['.', ',', ':', ';']));
    let tops = ["src/", "tests/", "measure/", "benches/", "assets/", "docs/"];
    words.filter(move |word| tops.iter().any(|top| word.starts_with(top))).filter(|word| !word.contains("NAME"))
}

#[test]
fn every_file_that_is_named_exists() {
    for (page, text) in pages() {
        for line in text.lines() {
            for file in files_named(line) {
                let file = file.split(['#', ':']).next().unwrap_or_default();
                assert!(root().join(file).exists(), "{}: {file}", page.display());
            }
        }
    }
}

#[test]
fn what_proves_a_promise_exists() {
    let page = read("docs/threat-model.md");
    let faults: String = names("measure/faults")
        .iter()
        .filter(|name| name.ends_with(".py"))
        .map(|name| read(&format!("measure/faults/{name}")))
        .collect();
    let (mut tests, mut made) = (0, 0);
    for quoted in page.split('`').skip(1).step_by(2).filter_map(|word| word.split_once("::")) {
        let (file, name) = quoted;
        assert!(read(file).contains(&format!("fn {name}(")), "{file} has no test {name}");
        tests += 1;
    }
    for fault in page.split("fault \"").skip(1) {
        let name = fault.split('"').next().unwrap();
        assert!(faults.contains(&format!("@fault(\"{name}\"")), "no fault is called {name}");
        made += 1;
    }
    assert!(tests > 20 && made > 15, "{tests} tests and {made} faults are named");
}

#[test]
fn every_crate_and_folder_of_src_is_on_the_map() {
    let map = read("docs/architecture.md");
    for name in names("crates") {
        assert!(
            map.contains(&format!("`crates/{name}`")),
            "crates/{name}: say in docs/architecture.md what it is for"
        );
        assert!(read(&format!("crates/{name}/README.md")).starts_with(&format!("# trainmon-{name}\n")), "{name}");
    }
    for name in names("src") {
        let name = name.trim_end_matches(".rs");
        let known = ["`", ".rs`"].iter().any(|end| map.contains(&format!("`src/{name}{end}")));
        assert!(known, "src/{name}: say in docs/architecture.md what it is for");
    }
}

/// What a newcomer comes for.
#[test]
fn the_architecture_page_says_how_to_add_things() {
    let headings = anchors(&read("docs/architecture.md"));
    for recipe in ["add-a-source", "add-a-cause", "add-a-page", "add-an-option"] {
        assert!(headings.iter().any(|heading| heading == recipe), "{recipe}: {headings:?}");
    }
}

#[test]
fn the_animation_shows_the_answer_where_it_stands_still_and_first() {
    let picture = read("assets/screens/story.svg");
    let scenes: Vec<&str> = picture.split("<g id=\"f").skip(1).collect();
    let shown: Vec<_> = scenes.iter().filter(|scene| scene.contains("visibility=\"visible\"")).collect();
    assert!(scenes.len() > 20 && shown.len() == 1, "{} of {} are shown without animation", shown.len(), scenes.len());
    assert!(["% sure", ">▶<", "faster"].iter().all(|part| shown[0].contains(part)), "{}", shown[0]);
    let number = shown[0].split('"').next().unwrap();
    let first =
        picture.find("{0%,0.00%{visibility:visible}").and_then(|at| picture[..at].rsplit_once("@keyframes k"));
    assert_eq!(first.map(|(_, name)| name), Some(number), "the animation begins with the same scene");
    assert!(picture.contains("@media(prefers-reduced-motion:reduce){g{animation:none!important}}"));
}
