//! Who uses whom: the modules of the program with their files, imports followed to the file that has what they name, and
//! the circles among them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::source::Code;

/// A module's place: `["tui", "app"]`; the crate's root is empty.
pub type Place = Vec<String>;

/// A file of the program with its code.
pub struct File {
    /// The `src` of its crate, below the repository.
    pub source: PathBuf,
    /// Below that.
    pub path: PathBuf,
    /// Its module: `["tui", "pages"]` is `trainmon_tui::pages`, and `["watch"]` the room of that name in a crate of several.
    pub place: Place,
    /// The module at its crate's root: `["tui"]`; empty where the crate has several rooms.
    pub root: Place,
    pub text: String,
    pub code: Code,
}

impl File {
    fn new((source, path): (PathBuf, PathBuf), [root, place]: [Place; 2], text: String) -> Self {
        Self { code: Code::read(&text), source, path, place, root, text }
    }

    /// Below the repository.
    pub fn whole_path(&self) -> PathBuf {
        self.source.join(&self.path)
    }

    /// The folder or file right below its `src` that it belongs to.
    pub fn unit(&self) -> &str {
        self.place.first().map_or("lib", String::as_str)
    }

    /// The folder below its `src` that it lies in.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// The crates of several rooms.
const OF_ROOMS: [&str; 4] = ["base", "attach", "diagnosis", "serve"];

/// The module at a crate's root.
fn root_of(name: &str) -> Place {
    if OF_ROOMS.contains(&name) { Vec::new() } else { vec![name.to_owned()] }
}

/// All files that the program consists of: those that only tests are made of are not reached.
pub fn files(repository: &Path) -> Vec<File> {
    let read = |source: &Path, path: PathBuf, places| {
        let text = std::fs::read_to_string(repository.join(source).join(&path)).unwrap();
        File::new((source.to_owned(), path), places, text)
    };
    let of_program = Path::new("src");
    let mut found = vec![
        read(of_program, "lib.rs".into(), [Vec::new(), Vec::new()]),
        read(of_program, "main.rs".into(), [Vec::new(), vec!["main".into()]]),
    ];
    let crates = std::fs::read_dir(repository.join("crates")).into_iter().flatten();
    let mut crates: Vec<_> = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    crates.sort();
    found.extend(crates.iter().map(|name| {
        let source = Path::new("crates").join(name).join("src");
        read(&source, "lib.rs".into(), [root_of(name), root_of(name)])
    }));
    let mut next = 0;
    while let Some(File { source, path, place, root, code, .. }) = found.get(next) {
        let folder = match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => path.with_file_name(""),
            _ => path.with_extension(""),
        };
        let children = code.modules.iter().map(|inside| {
            let below = folder.join(inside.iter().collect::<PathBuf>());
            let path = [below.with_extension("rs"), below.join("mod.rs")]
                .into_iter()
                .find(|path| repository.join(source).join(path).is_file());
            let path = path.unwrap_or_else(|| panic!("{place:?}: where is module {inside:?}?"));
            read(source, path, [root.clone(), [&place[..], inside].concat()])
        });
        let children: Vec<_> = children.collect();
        found.extend(children);
        next += 1;
    }
    found
}

/// One file's use of another.
#[derive(Debug)]
pub struct Use<'a> {
    pub from: &'a File,
    pub to: &'a File,
    pub line: usize,
    /// The path as it stands there.
    pub path: String,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.whole_path().display())
    }
}

impl fmt::Display for Use<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.from.whole_path().display(), self.line, self.path)
    }
}

/// A module, which may lie within a file.
struct Module<'a> {
    file: &'a File,
    /// Names that it imports, with what they stand for.
    names: BTreeMap<&'a str, &'a [String]>,
}

/// How many imports of imports are followed.
const DEPTH: usize = 16;

/// Every use of one file by another.
pub fn uses(files: &[File]) -> Vec<Use<'_>> {
    let mut modules: BTreeMap<Place, Module<'_>> = BTreeMap::new();
    for file in files {
        let new = || Module { file, names: BTreeMap::new() };
        modules.entry(file.place.clone()).or_insert_with(new);
        for path in &file.code.paths {
            let module = modules.entry([&file.place[..], &path.inside].concat()).or_insert_with(new);
            if let Some(name) = &path.imported_as {
                module.names.insert(name, &path.parts);
            }
        }
    }
    let mut found = Vec::new();
    for from in files {
        for path in &from.code.paths {
            let here = [&from.place[..], &path.inside].concat();
            let to = resolve(&modules, (&from.root, &here), &path.parts, DEPTH).and_then(|place| modules.get(&place));
            if let Some(to) = to.map(|module| module.file).filter(|to| to.place != from.place) {
                found.push(Use { from, to, line: path.line, path: path.parts.join("::") });
            }
        }
    }
    found
}

/// The module that has what a path names; `None` where that lies outside of the crate.
fn resolve(
    modules: &BTreeMap<Place, Module<'_>>,
    (root, here): (&[String], &[String]),
    parts: &[String],
    depth: usize,
) -> Option<Place> {
    let child = |place: &[String], name: &String| {
        let place = [place, std::slice::from_ref(name)].concat();
        modules.contains_key(&place).then_some(place)
    };
    let imported = |place: &[String], name: &String| modules.get(place)?.names.get(name.as_str()).copied();
    let (first, mut rest) = parts.split_first()?;
    let mut place = match first.as_str() {
        "crate" => root.to_vec(),
        "self" => here.to_vec(),
        "super" => here[..here.len().checked_sub(1)?].to_vec(),
        _ => match (child(here, first), imported(here, first)) {
            (Some(child), _) => child,
            // `use serde::Serialize` imports by a path that begins with a name of another crate: nothing to follow.
            (None, Some(path)) if depth > 0 && path != parts && path[0] != *first => {
                return resolve(modules, (root, here), &[path, rest].concat(), depth - 1);
            }
            _ => root_of(first.strip_prefix("trainmon_")?),
        },
    };
    while let Some((name, after)) = rest.split_first() {
        if name == "super" {
            place.pop()?;
        } else if let Some(child) = child(&place, name) {
            place = child;
        } else if let Some(path) = imported(&place, name).filter(|path| depth > 0 && *path != parts) {
            let root = modules.get(&place).map_or(&[][..], |module| &module.file.root);
            return resolve(modules, (root, &place), &[path, after].concat(), depth - 1).or(Some(place));
        } else {
            break;
        }
        rest = after;
    }
    // What is at the root of a crate of several rooms, a macro, is in none of them.
    if place.is_empty() { None } else { Some(place) }
}

/// A graph of names.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// A way from one name to another, both of them included.
fn way(graph: &Graph, from: &str, to: &str, seen: &mut BTreeSet<String>) -> Option<Vec<String>> {
    if !seen.insert(from.to_owned()) {
        return None;
    }
    graph.get(from)?.iter().find_map(|next| {
        let rest = if next == to { vec![to.to_owned()] } else { way(graph, next, to, seen)? };
        Some([vec![from.to_owned()], rest].concat())
    })
}

/// The circle that an arrow closes, if it is there and closes one: its names in order, the first one again at the end.
pub fn circle_of(graph: &Graph, from: &str, to: &str) -> Option<Vec<String>> {
    let back = if graph.get(from)?.contains(to) { way(graph, to, from, &mut BTreeSet::new())? } else { return None };
    Some([vec![from.to_owned()], back].concat())
}

/// A circle through a graph, if there is one.
pub fn any_circle(graph: &Graph) -> Option<Vec<String>> {
    graph.keys().find_map(|start| way(graph, start, start, &mut BTreeSet::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses among made-up files, as `from to`.
    fn used(texts: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = texts
            .iter()
            .map(|(place, text)| {
                let place = place.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
                File::new(Default::default(), [Vec::new(), place], (*text).to_owned())
            })
            .collect();
        uses(&files)
            .iter()
            .map(|used| format!("{} {}", used.from.place.join("::"), used.to.place.join("::")))
            .collect()
    }

    #[test]
    fn paths_lead_to_the_file_that_has_what_they_name() {
        for (from, text, expected) in [
            ("a", "use crate::b::C;", &["a b"][..]),
            ("a", "use crate::{b::{self, c::D}, a::X};", &["a b", "a b::c"]),
            ("a", "use std::{fs, b::c}; use b::c;", &[]),
            ("a", "fn f() { crate::b::c::d::<u8>(); b::c(); }", &["a b::c"]),
            ("b::c", "use super::C; use super::super::a::D;", &["b::c b", "b::c a"]),
            ("b", "mod c; use c::D; use self::c::E; fn f() { c::g() }", &["b b::c", "b b::c", "b b::c"]),
            ("b", "mod inner { use super::c::D; use super::super::a::E; }", &["b b::c", "b a"]),
            // What is imported is followed: as a module, under another name, and where it is only handed on.
            ("a", "use crate::b; fn f() { b::c::d() }", &["a b", "a b::c"]),
            ("a", "use crate::b::c as d; fn f() { d::e() }", &["a b::c", "a b::c"]),
            ("e", "use crate::hands_on::{D, Alias, own};", &["e b::c", "e a", "e hands_on"]),
            ("e", "use crate::hands_on::Foreign;", &["e hands_on"]),
            ("a", "#[cfg(test)] mod tests { use crate::b::C; }", &[]),
        ] {
            let hands_on =
                "pub use crate::b::c::D; pub use crate::a::X as Alias; pub use serde::Foreign; pub fn own() {}";
            let mut all = vec![("", ""), ("a", ""), ("b", ""), ("b::c", ""), ("e", ""), ("hands_on", hands_on)];
            all.iter_mut().filter(|(place, _)| *place == from).for_each(|(_, own)| *own = text);
            let mut found = used(&all);
            found.retain(|used| used.starts_with(&format!("{from} ")));
            assert_eq!(found, expected, "{from}: {text}");
        }
    }

    #[test]
    fn imports_that_import_each_other_end() {
        assert_eq!(used(&[("", ""), ("a", "pub use crate::b::X;"), ("b", "pub use crate::a::X;")]), ["a b", "b a"]);
    }

    #[test]
    fn circles_are_found_and_shown_in_order() {
        let graph = |arrows: &str| {
            let mut graph = Graph::new();
            for arrow in arrows.split(' ') {
                graph.entry(arrow[..1].into()).or_default().insert(arrow[1..].into());
            }
            graph
        };
        let circle = |arrows: &str| any_circle(&graph(arrows)).map(|way| way.concat());
        assert_eq!(circle("ab bc ac cd"), None);
        assert_eq!(circle("ab bc cb").as_deref(), Some("bcb"));
        assert_eq!(circle("ab be ac cd da").as_deref(), Some("acda"));
        assert_eq!(circle("aa").as_deref(), Some("aa"));
        let of = |from, to| circle_of(&graph("ab bc cb ca"), from, to).map(|way| way.concat());
        assert_eq!(of("c", "a").as_deref(), Some("cabc"));
        assert_eq!((of("a", "c"), of("d", "a")), (None, None));
        assert_eq!(circle_of(&graph("ab bc ca cd"), "c", "d"), None);
    }
}
