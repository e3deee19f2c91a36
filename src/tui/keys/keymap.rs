//! Key bindings: those of the table, or those of the configuration.

use crossterm::event::KeyEvent;

use super::chord::{Chord, ctrl};
use super::{Action, Binding, TABLE};

/// Always quits, even if the configuration binds other keys: there must be a way to leave the screen.
const ALWAYS_QUITS: Chord = ctrl('c');

/// The key bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keymap {
    /// The keys of each line of [`TABLE`], in its order.
    keys: Vec<Vec<Chord>>,
}

/// Why keys were refused: the entry at fault, and which of its keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct KeyError {
    /// Index of the entry among those given.
    pub entry: usize,
    /// Index of the key in the entry, if one key is at fault.
    pub key: Option<usize>,
    /// One sentence.
    what: String,
}

impl Default for Keymap {
    fn default() -> Self {
        Self { keys: TABLE.iter().map(|binding| binding.chords().collect()).collect() }
    }
}

impl Keymap {
    /// What a key press does, if anything.
    pub fn action(&self, event: KeyEvent) -> Option<Action> {
        if ALWAYS_QUITS.is(event) {
            return Some(Action::Quit);
        }
        self.lines().find(|(_, keys)| keys.iter().any(|key| key.is(event))).map(|(binding, _)| binding.action)
    }

    /// The lines of the table with their keys.
    pub fn lines(&self) -> impl Iterator<Item = (&'static Binding, &[Chord])> {
        TABLE.iter().zip(self.keys.iter().map(Vec::as_slice))
    }

    /// The first key of an action, as people write it.
    pub fn key_of(&self, action: Action) -> Option<String> {
        let (_, keys) = self.lines().find(|(binding, _)| binding.action == action)?;
        keys.first().map(ToString::to_string)
    }

    /// The same keys, except that the actions named by their IDs get these instead; an empty list unbinds.
    ///
    /// # Errors
    /// An unknown ID, a key that would do two things, or no key left to quit with.
    pub fn rebind(&self, entries: &[(&str, Vec<Chord>)]) -> Result<Self, KeyError> {
        let mut keys = self.keys.clone();
        // The entry that a line got its keys from.
        let mut from = vec![None; TABLE.len()];
        for (entry, (id, chords)) in entries.iter().enumerate() {
            let refuse = |what| Err(KeyError { entry, key: None, what });
            let line = TABLE.iter().zip(&mut keys).zip(&mut from).find(|((binding, _), _)| binding.id == *id);
            let Some(((binding, keys), from)) = line else { return refuse(unknown(id)) };
            if chords.is_empty() && binding.action == Action::Quit {
                return refuse("`quit` needs at least one key".to_owned());
            }
            keys.clone_from(chords);
            *from = Some(entry);
        }
        // Only an entry can be at fault: the table has no duplicate keys.
        for ((binding, chords), entry) in TABLE.iter().zip(&keys).zip(&from) {
            let Some(entry) = *entry else { continue };
            for (place, chord) in chords.iter().enumerate() {
                let other = TABLE.iter().zip(&keys).find(|(b, keys)| b.id != binding.id && keys.contains(chord));
                let what = if *chord == ALWAYS_QUITS && binding.action != Action::Quit {
                    format!("{chord} always quits: choose another key for `{}`", binding.id)
                } else if chords.iter().take(place).any(|earlier| earlier == chord) {
                    format!("{chord} is listed twice")
                } else if let Some((other, _)) = other {
                    format!(
                        "{chord} is bound to both `{}` and `{}`: choose other keys for `{}`",
                        binding.id, other.id, other.id
                    )
                } else {
                    continue;
                };
                return Err(KeyError { entry, key: Some(place), what });
            }
        }
        Ok(Self { keys })
    }
}

/// The error for an unknown ID.
fn unknown(id: &str) -> String {
    let id = crate::text::fit(id, 40);
    match crate::text::nearest(&id, TABLE.iter().map(|binding| binding.id)) {
        Some(meant) => format!("unknown action `{id}`: did you mean {meant}?"),
        None => format!("unknown action `{id}`: trainmon --print-config lists them all"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::chord::{ch, key};
    use super::*;
    use crossterm::event::KeyCode;

    #[test]
    fn keys_are_moved_and_taken_away() {
        let map =
            Keymap::default().rebind(&[("quit", vec![ch('Q')]), ("copy", vec![ch('q')]), ("tree", vec![])]).unwrap();
        assert_eq!(map.action(ch('q').event()), Some(Action::Copy));
        assert_eq!(map.action(ch('Q').event()), Some(Action::Quit));
        assert_eq!(map.action(ctrl('c').event()), Some(Action::Quit));
        assert_eq!(map.action(ch('c').event()), None);
        assert_eq!(map.action(ch('t').event()), None);
        assert_eq!(map.key_of(Action::Tree), None);
    }

    #[test]
    fn conflicts_and_unknown_ids_are_refused() {
        let refused = |entries: &[(&str, Vec<Chord>)]| Keymap::default().rebind(entries).unwrap_err();
        let why = refused(&[("copy", vec![ch('c')]), ("setup", vec![ch('x'), key(KeyCode::F(5))])]);
        assert_eq!((why.entry, why.key), (1, Some(1)));
        assert_eq!(why.to_string(), "F5 is bound to both `setup` and `tree`: choose other keys for `tree`");
        assert!(refused(&[("tree", vec![ch('x')]), ("setup", vec![ch('x')])]).to_string().contains("`tree`"));
        assert!(refused(&[("quit", vec![])]).to_string().contains("at least one key"));
        assert!(refused(&[("copy", vec![ctrl('c')])]).to_string().contains("always quits"));
        assert!(refused(&[("copy", vec![ch('x'), ch('x')])]).to_string().contains("twice"));
        assert!(refused(&[("thread", vec![])]).to_string().contains("did you mean threads?"));
        assert!(refused(&[("\u{1b}[2J", vec![])]).to_string().starts_with("unknown action"));
    }

    proptest! {
        #[test]
        fn no_key_ever_does_two_things(
            picks in prop::collection::vec((0..TABLE.len(), prop::collection::vec(0..200usize, 0..4)), 0..5),
        ) {
            let all: Vec<Chord> = TABLE.iter().flat_map(|b| b.chords()).chain(('α'..='ω').map(ch)).collect();
            let entries: Vec<_> = picks
                .iter()
                .map(|(line, keys)| {
                    let keys = keys.iter().map(|i| *all.get(i % all.len()).unwrap()).collect();
                    (TABLE.get(*line).unwrap().id, keys)
                })
                .collect();
            if let Ok(map) = Keymap::default().rebind(&entries) {
                let bound: Vec<Chord> = map.lines().flat_map(|(_, keys)| keys.to_vec()).collect();
                for (i, chord) in bound.iter().enumerate() {
                    prop_assert!(!bound.iter().skip(i + 1).any(|other| other == chord), "{} twice", chord);
                }
                prop_assert!(map.key_of(Action::Quit).is_some());
            }
        }
    }
}
