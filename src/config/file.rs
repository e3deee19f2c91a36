//! The configuration file: its keys and how it is read. What is refused is refused with line and column, in one line.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::keys::{self, Keys};
use crate::cli::{self, GpuSelector};
use crate::errors::Failure;
use crate::tui::kept::{self, Layout, Scale, ThemeName, Word as _};
use crate::tui::keys::Keymap;
use crate::tui::page::Page;
use crate::tui::processes::{Column, Sort};

/// A configuration file longer than this is not one.
const FILE_MAX: u64 = 1 << 20;
/// Shortest and longest time that moments can be kept for.
const HISTORY_MIN: Duration = Duration::from_secs(60);
const HISTORY_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a configuration file says. Every key may be left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct File {
    pub interval: Option<Interval>,
    pub gpu: Option<Vec<Gpu>>,
    pub log_file: Option<PathBuf>,
    pub stacks: Option<bool>,
    pub py_spy: Option<PathBuf>,
    pub ptrace: Option<bool>,
    pub nvml_lib: Option<PathBuf>,
    pub proc_root: Option<PathBuf>,
    pub sys_root: Option<PathBuf>,
    pub ascii: Option<bool>,
    pub color: Option<bool>,
    pub readonly: Option<bool>,
    pub signals: Option<bool>,
    pub history: Option<History>,
    pub keep_layout: Option<bool>,
    pub layout: Layout,
    pub keymap: Keymap,
}

/// The keys as they are written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Written {
    interval: Option<Interval>,
    gpu: Option<Vec<Gpu>>,
    log_file: Option<PathBuf>,
    stacks: Option<bool>,
    py_spy: Option<PathBuf>,
    ptrace: Option<bool>,
    nvml_lib: Option<PathBuf>,
    proc_root: Option<PathBuf>,
    sys_root: Option<PathBuf>,
    ascii: Option<bool>,
    color: Option<bool>,
    readonly: Option<bool>,
    signals: Option<bool>,
    history: Option<History>,
    keep_layout: Option<bool>,
    #[serde(with = "kept::word")]
    theme: Option<ThemeName>,
    low_bandwidth: Option<bool>,
    mouse: Option<bool>,
    #[serde(with = "kept::word")]
    page: Option<Page>,
    #[serde(with = "kept::word")]
    time_scale: Option<Scale>,
    #[serde(with = "kept::word")]
    sort: Option<Sort>,
    #[serde(with = "kept::words")]
    columns: Option<Vec<Column>>,
    tree: Option<bool>,
    threads: Option<bool>,
    keys: Keys,
}

/// `"500ms"` or a number of seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Interval(pub Duration);

impl TryFrom<Value> for Interval {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        cli::parse_interval(&value.text()).map(Self)
    }
}

/// `"1h"` or a number of seconds, 1m to 24h.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct History(pub Duration);

impl TryFrom<Value> for History {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let history = cli::parse_duration(&value.text())?;
        if (HISTORY_MIN..=HISTORY_MAX).contains(&history) {
            Ok(Self(history))
        } else {
            Err("a history is 1m to 24h".to_owned())
        }
    }
}

/// `0` or `"GPU-…"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Gpu(pub GpuSelector);

impl TryFrom<Value> for Gpu {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        cli::parse_gpu(&value.text()).map(Self)
    }
}

/// A value that may be written with or without quotes.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a number is expected")]
enum Value {
    Text(String),
    Whole(i64),
    Number(f64),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Reads a configuration file; one that is not `wanted` may be missing. A theme's file is looked for beside it.
///
/// # Errors
/// Why it was refused, in one line.
pub(super) fn read(path: &Path, wanted: bool) -> Result<File, Failure> {
    let fail = |why: String| Failure::usage(format!("configuration {}: {why}", path.display()));
    let mut text = String::new();
    match std::fs::File::open(path) {
        Ok(file) => {
            file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !wanted => return Ok(File::default()),
        Err(error) => return Err(fail(error.to_string())),
    }
    if text.len() as u64 > FILE_MAX {
        return Err(fail("longer than 1 MiB: not a configuration".to_owned()));
    }
    let mut file = parse(&text).map_err(fail)?;
    if let (Some(theme), Some(folder)) = (file.layout.theme.take(), path.parent()) {
        file.layout.theme = Some(beside(theme, folder));
    }
    Ok(file)
}

/// A theme whose file is named by a relative path: taken from this folder. `~/` stays.
pub(super) fn beside(theme: ThemeName, folder: &Path) -> ThemeName {
    if !theme.is_path() || theme.as_str().starts_with("~/") {
        return theme;
    }
    let path = std::path::absolute(folder.join(theme.as_str())).ok();
    path.and_then(|path| ThemeName::of_word(path.to_str()?).ok()).unwrap_or(theme)
}

/// Parses the text of a configuration file.
pub(super) fn parse(text: &str) -> Result<File, String> {
    let written: Written = toml::from_str(text).map_err(|error| {
        let message = error.message().replace("unknown field", "unknown key");
        refused(text, error.span().map_or(0, |span| span.start), &message)
    })?;
    Ok(File {
        interval: written.interval,
        gpu: written.gpu,
        log_file: written.log_file,
        stacks: written.stacks,
        py_spy: written.py_spy,
        ptrace: written.ptrace,
        nvml_lib: written.nvml_lib,
        proc_root: written.proc_root,
        sys_root: written.sys_root,
        ascii: written.ascii,
        color: written.color,
        readonly: written.readonly,
        signals: written.signals,
        history: written.history,
        keep_layout: written.keep_layout,
        layout: Layout {
            page: written.page,
            time_scale: written.time_scale,
            sort: written.sort,
            columns: written.columns,
            tree: written.tree,
            threads: written.threads,
            theme: written.theme,
            low_bandwidth: written.low_bandwidth,
            mouse: written.mouse,
        },
        keymap: keys::keymap(&written.keys).map_err(|(at, what)| refused(text, at, &what))?,
    })
}

/// What is wrong with a text at a byte offset, in one line: line and column from 1, columns in characters.
fn refused(text: &str, offset: usize, what: &str) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}: {}", what.replace('\n', " "))
}
