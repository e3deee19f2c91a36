//! The arrows between the folders of `src`: data flows one way, and only the named files touch the outside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// Which modules the code of a module may use. `text` and `errors` are for everyone; `commands`, `cli` and the crate's
/// root wire things together and are not limited.
const ARROWS: &[(&str, &[&str])] = &[
    ("sample", &[]),
    ("sources", &["sample"]),
    ("collector", &["sample", "sources"]),
    ("rates", &["sample"]),
    ("diagnosis", &["sample", "rates"]),
    ("pipeline", &["sample", "rates", "diagnosis"]),
    ("history", &["sample", "rates", "diagnosis", "pipeline"]),
    ("jobs", &["sample", "sources", "collector", "rates", "diagnosis", "pipeline"]),
    ("outputs", &["sample", "rates", "diagnosis"]),
    ("tui", &["sample", "rates", "diagnosis", "pipeline", "history", "outputs", "jobs"]),
    ("demo", &["sources", "cli"]),
    ("config", &["rates", "outputs", "tui"]),
    ("cli", &["config", "diagnosis"]),
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn files() -> Vec<(PathBuf, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    rust_files(&root, &mut found);
    found
        .into_iter()
        .map(|path| {
            let inside = path.strip_prefix(&root).unwrap().to_path_buf();
            let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
            let module = first.trim_end_matches(".rs").to_owned();
            let text = fs::read_to_string(&path).unwrap();
            (inside, module, text)
        })
        .collect()
}

/// The code of a file without its comments and without what follows the first test module.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..end].lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn data_flows_one_way() {
    let mut wrong = Vec::new();
    for (path, module, text) in files() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else { continue };
        for (line, content) in code(&text) {
            for used in content.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let known =
                    used == module || allowed.contains(&used.as_str()) || ["text", "errors"].contains(&used.as_str());
                if !used.is_empty() && !known {
                    wrong.push(format!("{}:{}: {module} uses {used}", path.display(), line + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_folder_has_its_arrows() {
    let free = ["main", "lib", "commands", "errors", "logging", "text"];
    for (path, module, _) in files() {
        let listed = ARROWS.iter().any(|(name, _)| *name == module) || free.contains(&module.as_str());
        assert!(listed, "{}: say in ARROWS what it may use", path.display());
    }
}

#[test]
fn the_diagnosis_knows_no_clock_and_no_runtime() {
    for (path, module, text) in files() {
        if !["diagnosis", "rates", "pipeline", "history", "sample"].contains(&module.as_str()) {
            continue;
        }
        for (line, content) in code(&text) {
            for word in ["tokio", "Instant", "SystemTime", "std::fs", "std::thread", "clock_gettime"] {
                assert!(!content.contains(word), "{}:{}: {word}", path.display(), line + 1);
            }
        }
    }
}

#[test]
fn only_the_nvml_source_names_the_nvml_crates() {
    for (path, _, text) in files() {
        let own = path.starts_with("sources/nvml")
            || path == Path::new("sources/nvml.rs")
            || path == Path::new("sources/nvml_raw.rs");
        for (line, content) in code(&text) {
            assert!(own || !content.contains("nvml_wrapper"), "{}:{}", path.display(), line + 1);
        }
    }
}

#[test]
fn unsafe_code_stands_in_one_file() {
    for (path, _, text) in files() {
        for (line, content) in code(&text) {
            let found = content.contains("unsafe ") && !content.contains("deny");
            assert!(!found || path == Path::new("sources/nvml_raw.rs"), "{}:{}", path.display(), line + 1);
        }
    }
}

#[test]
fn only_the_terminal_file_writes_to_standard_output_from_the_screen() {
    for (path, module, text) in files() {
        if module != "tui" || path == Path::new("tui/terminal.rs") {
            continue;
        }
        for (line, content) in code(&text) {
            for word in ["println!", "print!", "stdout"] {
                assert!(!content.contains(word), "{}:{}: {word}", path.display(), line + 1);
            }
        }
    }
}
