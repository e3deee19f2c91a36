//! Every output that a page shows is printed by the command above it: `$ command`, continued by lines that begin with `> `, and
//! below it what it prints, in a block of the language `console`. The commands run in a folder with the repository's `tests`, a
//! recording `run.tmz`, and `before.tmz` and `after.tmz`: the recordings behind the pictures, two minutes long.

use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use trainmon::outputs::recording::Recorder;

use crate::looped::Looped;
use crate::prometheus::{Reply, answered, fake, run_of};
use crate::{assert_page, pages, root};

/// Languages of blocks that are neither commands nor what a command prints.
const LANGUAGES: [&str; 6] = ["json", "yaml", "ini", "dockerfile", "python", "sql"];

/// What the lines of a block of commands begin with.
const COMMANDS: [&str; 24] = [
    "cargo",
    "cd",
    "curl",
    "docker",
    "export",
    "jq",
    "kubectl",
    "man",
    "nohup",
    "openssl",
    "pgrep",
    "pip",
    "pipx",
    "printf",
    "python",
    "rustup",
    "srun",
    "ssh",
    "sudo",
    "tar",
    "tests/run.sh",
    "trainmon",
    "trainmon-*-x86_64-linux-musl/trainmon",
    "uvx",
];

/// Seconds of `before.tmz` and `after.tmz`.
const LONG_S: usize = 130;

/// A block of code of a page: its language and its lines.
struct Block<'a> {
    language: &'a str,
    lines: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut found, mut open) = (Vec::new(), None::<Block<'_>>);
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), block @ Some(_)) => found.extend(block.take()),
            (Some(language), None) => open = Some(Block { language, lines: Vec::new() }),
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
    }
    found
}

/// The folder in which commands run.
struct Place {
    folder: tempfile::TempDir,
    prometheus: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink(root().join("tests"), at("tests")).unwrap();
        fs::create_dir(at("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_trainmon"), at("bin/trainmon")).unwrap();
        fs::copy(root().join("tests/recordings/segmentation.tmz"), at("run.tmz")).unwrap();
        for (name, from) in [("before", "segmentation"), ("after", "segmentation-fixed")] {
            let looped = Looped::read(root().join(format!("tests/recordings/{from}.tmz")).to_str().unwrap(), |_| {});
            let file = BufWriter::new(fs::File::create(at(&format!("{name}.tmz"))).unwrap());
            let mut recorder = Recorder::new(file, &looped.header).unwrap();
            (0..LONG_S).for_each(|second| recorder.write(&Arc::new(looped.sample(second))).unwrap());
            recorder.flush().unwrap();
        }
        Self { folder, prometheus: fake(eight_ranks()) }
    }

    /// What a command prints, on standard output and standard error.
    fn printed(&self, command: &str) -> Vec<String> {
        let run = command.replace("http://prom:9090", &self.prometheus);
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        let output = Command::new("bash")
            .args(["-c", &format!("exec 2>&1; {run}")])
            .current_dir(self.folder.path())
            .env_clear()
            .envs([("PATH", path.as_str()), ("HOME", "/nonexistent"), ("TZ", "UTC"), ("LC_ALL", "C.UTF-8")])
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && !printed.trim().is_empty(), "{command}: {printed}");
        printed.trim_end().lines().map(str::to_owned).collect()
    }

    /// The lines of a block of the language `console`, made anew.
    fn made(&self, block: &Block<'_>) -> Vec<String> {
        let (mut made, mut command) = (Vec::new(), String::new());
        let finish = |command: &mut String, made: &mut Vec<String>| {
            if !command.is_empty() {
                made.extend(self.printed(command));
                command.clear();
            }
        };
        for line in &block.lines {
            if let Some(first) = line.strip_prefix("$ ") {
                finish(&mut command, &mut made);
                command.push_str(first);
            } else if let (Some(more), false) = (line.strip_prefix("> "), command.is_empty()) {
                command = command + "\n" + more;
            } else {
                continue;
            }
            made.push((*line).to_owned());
        }
        finish(&mut command, &mut made);
        made
    }
}

/// The answers of a run of eight ranks that takes 72 ms a step.
fn eight_ranks() -> impl Fn(&str) -> Reply {
    let known = run_of(8);
    move |query| {
        if !query.contains("step_duration") {
            return known(query);
        }
        let of_rank = |at: usize| -> Value {
            json!({ "metric": { "job": "t", "instance": format!("node-{at}:9845"), "pid": "7", "training_job": "llama" },
                    "value": [1_700_000_000.5, "0.072"] })
        };
        let all: Vec<Value> = (0..8).map(of_rank).collect();
        answered(&json!({ "status": "success", "data": { "resultType": "vector", "result": all } }))
    }
}

#[test]
fn every_output_shown_is_printed_by_the_command_above_it() {
    let place = Place::new();
    let mut shown = 0;
    for (page, text) in pages() {
        let consoles: Vec<_> = blocks(&text).into_iter().filter(|block| block.language == "console").collect();
        let made: Vec<(String, String)> =
            consoles.iter().map(|block| (block.lines.join("\n"), place.made(block).join("\n"))).collect();
        shown += made.len();
        assert_page(page.to_str().unwrap(), |text| {
            made.iter().fold(text.to_owned(), |text, (old, new)| {
                text.replacen(&format!("```console\n{old}\n```"), &format!("```console\n{new}\n```"), 1)
            })
        });
    }
    assert!(shown >= 8, "{shown} outputs");
}

/// An output without its command could not be made anew.
#[test]
fn other_blocks_show_commands_alone() {
    for (page, text) in pages().into_iter().filter(|(page, _)| page != Path::new("docs/architecture.md")) {
        for block in blocks(&text) {
            let is_command = |line: &&str| {
                let first = line.split_whitespace().next().unwrap_or_default();
                line.starts_with(' ') || first.starts_with('#') || COMMANDS.contains(&first)
            };
            let wrong = match block.language {
                "console" => block.lines.first().filter(|line| !line.starts_with("$ ")),
                "" => block.lines.iter().find(|line| !is_command(line)),
                language => block.lines.first().filter(|_| !LANGUAGES.contains(&language)),
            };
            assert!(
                wrong.is_none(),
                "{}: {wrong:?}: say `$ command` above it, in a block of `console`",
                page.display()
            );
        }
    }
}
