//! The formats of a document: of a run, a profile or a comparison as a whole, for people to read. [`DOCUMENTS`](super::DOCUMENTS)
//! lists them.

use std::path::Path;

use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_views::comparison::ComparisonPage;
use trainmon_views::run_report::RunReport;

/// One format.
#[derive(Debug)]
pub struct Document {
    /// The endings of its files, the usual one first.
    pub endings: &'static [&'static str],
    /// Writes a whole run.
    pub run: fn(&RunReport<'_>) -> String,
    /// Writes the verdict on a profile, with this title.
    pub profile: fn(&Verdict, Option<&str>) -> String,
    /// Writes a comparison.
    pub comparison: fn(&ComparisonPage) -> String,
}

impl Document {
    /// The format that the ending of a file names.
    pub fn of_ending(path: &Path) -> Option<&'static Self> {
        super::DOCUMENTS.iter().copied().find(|document| has_ending(path, document.endings))
    }
}

/// Whether the file has one of these endings, in capitals or not.
pub fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    endings.iter().any(|known| known.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_names_one_format() {
        for document in super::super::DOCUMENTS {
            for ending in document.endings {
                let path = format!("a.b/run.{}", ending.to_uppercase());
                let found = Document::of_ending(Path::new(&path)).unwrap();
                assert_eq!(found.endings, document.endings);
            }
        }
        assert!(Document::of_ending(Path::new("html")).is_none());
        assert!(Document::of_ending(Path::new("run.")).is_none());
    }
}
