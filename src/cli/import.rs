//! The options of `trainmon import`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use trainmon_imports::ImportFormat;

/// `import`.
#[derive(Debug, Clone, Default, Args)]
pub struct ImportArgs {
    /// Files of other tools. Several are put on one clock.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// File to write. An existing file is refused without --force.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: PathBuf,
    /// Format of the files, if their content does not show it.
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<String>,
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(ImportFormat::ALL.map(ImportFormat::word))
}
