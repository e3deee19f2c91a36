//! The themes that the screen offers: what fits the terminal, the built-in ones, and the file that was asked for.

use std::path::{Path, PathBuf};

use super::small_file;
use trainmon_base::errors::Failure;
use trainmon_tui::arrangement::ThemeName;
use trainmon_tui::theme::Palette;

/// The themes to choose from with their names, `auto` first.
///
/// # Errors
/// One line when the theme asked for is a file that cannot be used: with line and column where it is read.
pub fn choices(auto: Palette, asked: Option<&ThemeName>) -> Result<Vec<(String, Palette)>, Failure> {
    let mut themes = Palette::choices(auto);
    if let Some(asked) = asked.filter(|asked| asked.is_path()) {
        let path = path(asked);
        let text = small_file::read(&path).map_err(|error| small_file::cannot_read(&path, &error))?;
        let palette = Palette::parse(&text);
        let palette = palette.map_err(|error| Failure::usage(format!("theme {}: {error}", path.display())))?;
        themes.push((asked.to_string(), palette));
    }
    Ok(themes)
}

/// The path of a theme's file, `~/` being the home directory.
fn path(theme: &ThemeName) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let at_home = theme.as_str().strip_prefix("~/").and_then(|rest| Some(home()?.join(rest)));
    at_home.unwrap_or_else(|| PathBuf::from(theme.as_str()))
}

/// A theme whose file is named by a relative path: taken from this folder. `~/` stays.
pub(super) fn beside(theme: ThemeName, folder: &Path) -> ThemeName {
    if !theme.is_path() || theme.as_str().starts_with("~/") {
        return theme;
    }
    let path = std::path::absolute(folder.join(theme.as_str())).ok();
    path.and_then(|path| path.to_str()?.parse().ok()).unwrap_or(theme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_theme_file_is_offered_or_refused_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.toml");
        std::fs::write(&file, "base = \"light\"\n").unwrap();
        let name: ThemeName = file.to_str().unwrap().parse().unwrap();
        let offered = choices(Palette::dark(), Some(&name)).unwrap();
        assert_eq!(offered.first().unwrap().0, "auto");
        assert_eq!(offered.last().unwrap(), &(name.to_string(), Palette::light()));
        std::fs::write(&file, "\n pink = 1\n").unwrap();
        let why = choices(Palette::dark(), Some(&name)).unwrap_err().to_string();
        assert!(why.contains("mine.toml: line 2, column 2: unknown key `pink`") && why.lines().count() == 1, "{why}");
        let missing = "/nonexistent/x.toml".parse().ok();
        let why = choices(Palette::dark(), missing.as_ref()).unwrap_err().to_string();
        assert!(why.starts_with("cannot read /nonexistent/x.toml: No such file"), "{why}");
        assert_eq!(choices(Palette::dark(), "light".parse().ok().as_ref()).unwrap().len(), 4);
    }
}
