//! `--print-config`: the settings that are in effect, as a file that can be used as the configuration. Its comments are the
//! help of the options.
//!
//! What was not set is printed as a comment: set in the file, the screen's arrangement would win over what is kept from the
//! last time. A table of toml_edit cannot hold a key that is a comment, so the lines are written one by one.

use clap::{Arg, ArgAction};
use toml::{Table, Value};

use super::{Settings, options};
use trainmon_base::text::wrap;

/// Cells of a line of comment.
const WIDTH: usize = 116;

const HEAD: &str = "\
# trainmon's configuration: $XDG_CONFIG_HOME/trainmon/config.toml, or -c FILE. The command line wins over this file.
# A setting that is commented out is not set; it shows the default or an example.
";

impl Settings {
    /// The settings in effect as a configuration file.
    ///
    /// # Errors
    /// TOML is UTF-8: a path that is not cannot be printed.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let mut values = Table::try_from(self)?;
        values.extend(self.layout.table());
        let mut text = HEAD.to_owned();
        for option in options::of_files() {
            let key = options::key(&option);
            text.push('\n');
            for line in wrap(&comment(&option), WIDTH) {
                text += &format!("# {line}\n");
            }
            text += &match values.get(&key) {
                Some(value) => format!("{key} = {value}\n"),
                None => format!("# {key} = {}\n", example(&option)),
            };
        }
        Ok(text)
    }
}

/// What an option is for, and the words that it takes.
fn comment(option: &Arg) -> String {
    let help = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.trim_end_matches('.');
    let words: Vec<String> = option.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    match option.get_action() {
        ArgAction::SetTrue => format!("{help}."),
        // What the flag does is what the key does where it is false.
        ArgAction::SetFalse => format!(
            "false: {}{}.",
            help.get(..1).unwrap_or_default().to_lowercase(),
            help.get(1..).unwrap_or_default()
        ),
        _ if words.is_empty() => format!("{help}."),
        _ => format!("{help}. One of {}.", words.join(", ")),
    }
}

/// The default of an option that is not set, or else what its value is called.
fn example(option: &Arg) -> String {
    let words = option.get_default_values().iter().map(|word| word.to_string_lossy().into_owned());
    match option.get_action() {
        ArgAction::SetTrue => "false".to_owned(),
        ArgAction::SetFalse => "true".to_owned(),
        _ if option.get_value_delimiter().is_some() => Value::from(words.collect::<Vec<_>>()).to_string(),
        _ => {
            let name = option.get_value_names().into_iter().flatten().map(ToString::to_string);
            Value::String(words.chain(name).next().unwrap_or_default()).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::time::Duration;

    use super::super::file::parse;
    use super::*;
    use trainmon_rates::GpuChoice;
    use trainmon_tui::Layout;
    use trainmon_tui::pages::Page;
    use trainmon_tui::pages::processes::{ProcessColumn, Sort};

    /// The settings that a printed configuration makes.
    fn back(text: &str) -> Settings {
        parse(text).unwrap()
    }

    #[test]
    fn the_defaults_are_read_back() {
        let text = Settings::default().to_toml().unwrap();
        assert_eq!(
            text,
            include_str!("../../assets/config.toml"),
            "assets/config.toml is what is printed by default"
        );
        assert_eq!(back(&text), Settings::default());
        // What is a comment must be right as well: it is there to be used.
        let all: Vec<_> =
            text.lines().map(|l| l.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(l)).collect();
        parse(&all.join("\n")).unwrap();
    }

    fn choice<T: std::fmt::Debug + Clone + 'static>(
        of: impl Strategy<Value = T>,
    ) -> impl Strategy<Value = Option<T>> {
        prop::option::of(of)
    }

    prop_compose! {
        fn layouts()(
            page in choice(prop::sample::select(Page::ALL.to_vec())),
            scale in choice(prop::sample::select(vec!["auto", "10s", "1m", "1h"])),
            column in choice(prop::sample::select(ProcessColumn::ALL.to_vec())),
            reversed in any::<bool>(),
            columns in choice(prop::sample::subsequence(ProcessColumn::ALL.to_vec(), 1..5).prop_shuffle()),
            switches in prop::array::uniform4(prop::option::of(any::<bool>())),
            theme in choice(prop_oneof![Just("dark".to_owned()), "[a-z\"' \\\\]{1,8}/x\\.toml"]),
        ) -> Layout {
            let [tree, threads, low_bandwidth, mouse] = switches;
            Layout {
                page,
                time_scale: scale.map(|word| word.parse().unwrap()),
                sort: column.map(|column| Sort { column, reversed }),
                columns,
                tree,
                threads,
                theme: theme.map(|name| name.parse().unwrap()),
                low_bandwidth,
                mouse,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            layout in layouts(),
            micros in 100_000u64..3_600_000_000,
            minutes in 1u64..=1440,
            switches in prop::array::uniform7(any::<bool>()),
            root in "/\\PC{0,12}",
            py_spy in choice("\\PC{1,12}"),
            gpus in choice(prop::collection::vec(0u32..16, 0..3)),
            price in choice(0u32..100_000),
        ) {
            let [ptrace, stacks, ascii, color, readonly, signals, keep_layout] = switches;
            let settings = Settings {
                interval: Duration::from_micros(micros),
                history: Duration::from_secs(minutes * 60),
                proc_root: root.into(),
                price: price.map(|cents| format!("${}", f64::from(cents) / 100.0).parse().unwrap()),
                py_spy: py_spy.map(Into::into),
                gpus: gpus.map(|gpus| gpus.into_iter().map(GpuChoice::Index).collect()),
                layout, ptrace, stacks, ascii, color, readonly, signals, keep_layout,
                ..Settings::default()
            };
            prop_assert_eq!(back(&settings.to_toml().unwrap()), settings);
        }
    }
}
