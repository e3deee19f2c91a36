//! The `[keys]` of the configuration: `quit = ["q", "F10"]`, by the words of the table of keys.

use std::collections::BTreeMap;

use toml::Spanned;

use crate::tui::keys::{Chord, Keymap};

/// The table as it is written, with the places of everything in it.
pub(super) type Keys = BTreeMap<Spanned<String>, Vec<Spanned<String>>>;

/// The keys after the configuration.
///
/// # Errors
/// The byte offset of what is to blame, and what is wrong with it.
pub(super) fn keymap(keys: &Keys) -> Result<Keymap, (usize, String)> {
    let mut entries = Vec::with_capacity(keys.len());
    for (id, written) in keys {
        let chords = written
            .iter()
            .map(|text| text.get_ref().parse::<Chord>().map_err(|why| (text.span().start, why.to_string())))
            .collect::<Result<Vec<_>, _>>()?;
        entries.push((id.get_ref().as_str(), chords));
    }
    Keymap::default().rebind(&entries).map_err(|error| {
        let entry = keys.iter().nth(error.entry);
        let key = entry.and_then(|(_, written)| written.get(error.key?)).map(|key| key.span().start);
        let at = key.or(entry.map(|(id, _)| id.span().start));
        (at.unwrap_or(0), error.to_string())
    })
}
