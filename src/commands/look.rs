//! The themes that the screen offers: what fits the terminal, the built-in ones, and the file that was asked for.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::errors::Failure;
use crate::tui::kept::ThemeName;
use crate::tui::theme::Palette;

/// A theme file longer than this is not one.
const FILE_MAX: u64 = 64 * 1024;

/// The themes to choose from with their names, `auto` first.
///
/// # Errors
/// One line when the theme asked for is a file that cannot be used: with line and column where it is read.
pub fn themes(auto: Palette, asked: Option<&ThemeName>) -> Result<Vec<(String, Palette)>, Failure> {
    let mut themes = Palette::choices(auto);
    if let Some(asked) = asked.filter(|asked| asked.is_path()) {
        themes.push((asked.as_str().to_owned(), read(&path(asked))?));
    }
    Ok(themes)
}

/// The path of a theme's file, `~/` being the home directory.
fn path(theme: &ThemeName) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let at_home = theme.as_str().strip_prefix("~/").and_then(|rest| Some(home()?.join(rest)));
    at_home.unwrap_or_else(|| PathBuf::from(theme.as_str()))
}

fn read(path: &Path) -> Result<Palette, Failure> {
    let fail = |why: String| Failure::usage(format!("theme {}: {why}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > FILE_MAX {
        return Err(fail("longer than 64 KiB: not a theme".to_owned()));
    }
    Palette::parse(&text).map_err(|error| fail(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::tui::kept::Word;

    #[test]
    fn a_theme_file_is_offered_or_refused_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.toml");
        std::fs::write(&file, "base = \"light\"\n").unwrap();
        let name = ThemeName::of_word(file.to_str().unwrap()).unwrap();
        let offered = themes(Palette::dark(), Some(&name)).unwrap();
        assert_eq!(offered.first().unwrap().0, "auto");
        assert_eq!(offered.last().unwrap(), &(name.as_str().to_owned(), Palette::light()));
        std::fs::write(&file, "\n pink = 1\n").unwrap();
        let why = themes(Palette::dark(), Some(&name)).unwrap_err().to_string();
        assert!(why.contains("mine.toml: line 2, column 2: unknown key `pink`") && why.lines().count() == 1, "{why}");
        let missing = ThemeName::of_word("/nonexistent/x.toml").unwrap();
        assert!(themes(Palette::dark(), Some(&missing)).unwrap_err().to_string().contains("No such file"));
        assert_eq!(themes(Palette::dark(), ThemeName::of_word("light").ok().as_ref()).unwrap().len(), 4);
    }
}
