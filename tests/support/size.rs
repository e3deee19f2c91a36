//! Prints the size of the program, counted as `tests/architecture/size.rs` says. `python measure size` runs it.

#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "for developers")]

#[path = "../architecture/graph.rs"]
mod graph;
#[path = "../architecture/items.rs"]
mod items;
#[path = "../architecture/size.rs"]
mod size;
#[path = "../architecture/source.rs"]
mod source;
#[path = "../architecture/tokens.rs"]
mod tokens;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use size::{Counted, Size};

/// Counts code lines and numeric constants.
#[derive(Parser)]
#[command(name = "measure size")]
struct Options {
    /// The tree to count
    #[arg(long, default_value = env!("CARGO_MANIFEST_DIR"), value_name = "DIR")]
    root: PathBuf,
    /// List each constant
    #[arg(long)]
    names: bool,
    /// Exit with 1 if there are more code lines
    #[arg(long, value_name = "N")]
    most_lines: Option<usize>,
    /// The same for numeric constants
    #[arg(long, value_name = "N")]
    most_constants: Option<usize>,
    /// The same for those in tables
    #[arg(long, value_name = "N")]
    most_tabled: Option<usize>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let files = graph::files(&options.root);
    let size = Size::of(&files);
    let lines: usize = size.parts.values().sum();
    let [tabled, other, integers] =
        [Counted::Tabled, Counted::Other, Counted::Integer].map(|kind| size.numbers(kind));
    println!("{:48}{lines:>7}   in {} files", "code lines", files.len());
    let mut parts: Vec<_> = size.parts.into_iter().collect();
    parts.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    for (part, lines) in parts {
        println!("  {part:46}{lines:>7}");
    }
    println!("{:48}{:>7}", "numeric constants in rates, waits and diagnosis", tabled + other);
    println!("{:48}{tabled:>7}", "  in `thresholds!` tables");
    println!("{:48}{other:>7}", "  others, floating point");
    println!("{:48}{integers:>7}", "integers beside them, not in the sum");
    if options.names {
        size.names.iter().for_each(|name| println!("{name}"));
    }
    let limits = [
        ("code lines", lines, options.most_lines),
        ("numeric constants", tabled + other, options.most_constants),
        ("numeric constants in tables", tabled, options.most_tabled),
    ];
    let over = limits.into_iter().filter(|(_, there, most)| most.is_some_and(|most| *there > most));
    let told = over.map(|(what, there, most)| println!("{there} {what} are more than {}", most.unwrap_or_default()));
    ExitCode::from(u8::from(told.count() > 0))
}
