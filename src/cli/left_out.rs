//! Commands that a build may leave out. Their features are in `Cargo.toml`.

/// A command that not every build has.
struct OptionalCommand {
    name: &'static str,
    /// What brings it.
    feature: &'static str,
    is_built: bool,
}

const OPTIONAL: [OptionalCommand; 5] = [
    OptionalCommand { name: "export", feature: "serve", is_built: cfg!(feature = "serve") },
    OptionalCommand { name: "fleet", feature: "fleet", is_built: cfg!(feature = "fleet") },
    OptionalCommand { name: "import", feature: "import", is_built: cfg!(feature = "import") },
    OptionalCommand { name: "mcp", feature: "mcp", is_built: cfg!(feature = "mcp") },
    OptionalCommand { name: "trace", feature: "trace", is_built: cfg!(feature = "trace") },
];

/// Why this build does not have a command, and how to get it, if it was left out.
pub fn why(name: &str) -> Option<String> {
    let command = OPTIONAL.iter().find(|command| command.name == name && !command.is_built)?;
    Some(format!(
        "this build has no `{name}`, because the feature `{}` was left out; a full build: cargo install --locked trainmon",
        command.feature
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::help;
    use crate::cli::refused::{CallOutcome, refused};

    #[test]
    fn a_command_that_was_left_out_is_in_no_help_and_asking_for_it_says_how_to_get_it() {
        let command = help::command();
        let page = command.clone().render_help().to_string();
        for OptionalCommand { name, feature, is_built } in OPTIONAL {
            assert_eq!(command.find_subcommand(name).is_some(), is_built, "{name}");
            assert_eq!(page.contains(&format!("\n  {name} ")), is_built, "{name}: {page}");
            assert_eq!(why(name).is_none(), is_built, "{name}");
            for rest in [&[][..], &["--help"], &["--interval", "1s", "run.tmz"]] {
                let words = ["trainmon", name].iter().chain(rest).map(Into::into).collect::<Vec<_>>();
                let Err(error) = command.clone().try_get_matches_from(&words) else { continue };
                let outcome = refused(&error, &words, |_| true);
                let is_said = matches!(outcome, CallOutcome::Line(line) if line.contains(&format!("`{feature}`")));
                assert_eq!(is_said, !is_built, "{words:?}");
            }
        }
    }
}
