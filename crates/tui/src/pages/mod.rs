//! The pages: one folder each, and the only list of them.
//!
//! The list has the names, keys and footer of each page. Its folder has a type of the same name: the page's state, how
//! it responds to keys, and how it is drawn. The list is in the order of Tab.

pub mod action;
mod chain;
mod cpu;
mod findings;
pub(crate) mod fleet;
mod gpu;
mod help;
mod io;
pub mod keys;
mod overview;
pub mod processes;
mod profile;
mod run;
mod stacks;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::message::Export;
use super::widgets::{Confirm, Drawn, Hit, Menu, Prompt, PromptKind, Scene};
use action::Action;
use trainmon_attach::jobs::{JobKey, Needs};

/// Declares the pages in their order: what each shows, for `docs/screen.md`; its type and folder; name, short name, keys and
/// their help; and settings that differ from the default.
macro_rules! pages {
    ($(
        $(#[doc = $about:literal])+
        $page:ident $folder:ident $name:literal $short:literal $keys:literal $help:literal
        $($field:ident: $value:expr),*;
    )*) => {
        /// A screenful.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each folder says what its page shows")]
        pub enum Page { #[default] $($page,)* }

        impl Page {
            /// All pages, in the order of Tab.
            pub const ALL: [Self; [$(stringify!($page)),*].len()] = [$(Self::$page,)*];

            /// Names, help and footer.
            pub const fn spec(self) -> &'static PageSpec {
                match self {
                    $(Self::$page => const {
                        &PageSpec {
                            $($field: $value,)*
                            ..PageSpec::usual([concat!($($about),+), $name, $short, $keys, $help])
                        }
                    },)*
                }
            }

            /// The folder of its code. Older files call the page by it.
            const fn folder(self) -> &'static str {
                match self { $(Self::$page => stringify!($folder),)* }
            }
        }

        /// The state of all pages.
        #[derive(Debug, Clone, Default)]
        pub struct Pages { $(pub(crate) $folder: $folder::$page,)* }

        impl Pages {
            /// A page.
            pub(crate) fn get(&self, page: Page) -> &dyn Content {
                match page { $(Page::$page => &self.$folder,)* }
            }

            /// A page, for changes.
            pub(crate) fn get_mut(&mut self, page: Page) -> &mut dyn Content {
                match page { $(Page::$page => &mut self.$folder,)* }
            }
        }
    };
}

pages! {
    /// the answer; the pipeline from storage to GPU with its limit; where each step's time went, with past verdicts; a row for
    /// each rank and worker; GPU, CPU and storage over time
    Overview overview "Overview" "Main" "1" "overview: the answer, the pipeline, every timeline";
    /// [what the loop waits for](verdicts.md#the-wait-chain), and what that waits for, as a tree with shares; where each step's
    /// time went
    Chain chain "Chain" "Chain" "2" "chain: what the loop waits for, and what that waits for";
    /// each GPU: use, memory, power against its limit, clocks, PCIe, throttle reasons in words, SM, tensor and DRAM
    /// activity where there is GPM; the processes on it
    Gpu gpu "GPU" "GPU" "3" "GPU: each GPU in full";
    /// each CPU (the job's are marked), run-queue delay, quota and throttling, pressure, threads by role, the other
    /// processes that use most
    Cpu cpu "CPU" "CPU" "4" "CPU: each CPU, queues, quota, pressure, threads, other processes"
        needs: Needs { other_processes: true, ..NOTHING };
    /// disks, mounts under the job's data, page cache against storage, network
    Io io "IO" "IO" "5" "IO: disks, mounts, page cache, network";
    /// tree or flat, every column sorts, filter, search, threads, stages; signals, each after a question, once
    /// `signals = true`
    Processes processes "Processes" "Procs" "6" "processes of the job"
        footer: &[
            (Action::Enter, "process"),
            (Action::NextSort, "sort"),
            (Action::Tree, "tree"),
            (Action::Filter, "filter"),
            (Action::Search, "search"),
            (Action::Threads, "threads"),
            (Action::Kill, "signal"),
        ];
    /// hottest functions of the loop and the workers as they are sampled, what each does, the lines that wait for the
    /// GPU
    Stacks stacks "Stacks" "Stack" "7" "stacks: hottest functions of the loop and the workers"
        needs: Needs { stacks: true, ..NOTHING },
        footer: &[(Action::Enter, "fold"), (Action::Pause, "pause"), (Action::StepBack, "back")];
    /// evidence with its limits, counter-evidence, what is not available and how to fix that
    Findings findings "Why" "Why" "8" "why: evidence, advice, what is not available and how to fix that"
        needs_samples: false;
    /// the run so far: how long steps took, time by verdict, what the loop did, changes of verdict
    Run run "History" "Run" "9" "history: time by verdict, what the loop did, changes of verdict";
    /// the account of a profile: each GPU as one bar of what it did and why it was idle; one step, with threads, streams, idle
    /// gaps and what ended each; kernels, calls that wait for the
    /// GPU, where the host was while the GPU was idle, collectives, copies, operators, modules, efficiency
    Profile profile "Profile" "Prof" "0" "profile: what each GPU did, its kernels, waits and idle time"
        footer: &[
            (Action::TakeProfile, "take one"),
            (Action::StepForward, "next gap"),
            (Action::ZoomIn, "zoom"),
            (Action::NextTable, "next table"),
            (Action::Enter, "row in full"),
        ],
        needs_samples: false;
    /// every key, and what colors and textures mean
    Help help "Help" "Help" "? h F1" "this help"
        needs_samples: false,
        in_footer: false;
}

/// Description of a page.
#[derive(Debug)]
pub struct PageSpec {
    /// What is on it.
    pub about: &'static str,
    /// Its name on the tab.
    pub name: &'static str,
    /// A shorter name for narrow terminals.
    pub short: &'static str,
    /// Its keys: its number in the list, and other keys that people try.
    pub keys: &'static str,
    /// What it shows, for the help.
    pub help: &'static str,
    /// Actions and their words for the footer, the most useful first.
    pub footer: &'static [(Action, &'static str)],
    /// What it needs beyond the ordinary samples.
    pub needs: Needs,
    /// Whether it shows samples: a trace has none.
    pub needs_samples: bool,
    /// Whether it has a tab in the footer.
    pub in_footer: bool,
}

/// Nothing beyond the ordinary samples.
const NOTHING: Needs = Needs { stacks: false, other_processes: false, candidates: false };

impl PageSpec {
    /// The needs of a page with timelines or text.
    const fn usual([about, name, short, keys, help]: [&'static str; 5]) -> Self {
        let footer = &[
            (Action::Pause, "pause"),
            (Action::StepBack, "back"),
            (Action::ZoomOut, "zoom"),
            (Action::Jobs, "jobs"),
            (Action::Export, "save"),
            (Action::TakeProfile, "profile"),
        ];
        Self { about, name, short, keys, help, footer, needs: NOTHING, needs_samples: true, in_footer: true }
    }
}

/// A page is called by its name on the tab, and as people guess: by its short name or its key.
impl ValueEnum for Page {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let spec = self.spec();
        let others = [spec.short, self.folder()].into_iter().chain(spec.keys.split(' '));
        let name = spec.name.to_lowercase();
        let others: Vec<String> = others.map(str::to_lowercase).filter(|other| *other != name).collect();
        Some(PossibleValue::new(name).aliases(others))
    }
}

impl Page {
    /// Index in the order of Tab.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The page so many places further on, wrapping around at the end.
    pub fn after(self, steps: usize) -> Self {
        Self::ALL.get((self.index() + steps) % Self::ALL.len()).copied().unwrap_or_default()
    }
}

/// What a page does: at least, draw itself.
pub trait Content {
    /// Draws the page from its line `top` on, and notes what is where.
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn);

    /// Updates to another frame, or to the current one when the page opens. Hidden pages cost nothing: they are
    /// refreshed when they open.
    fn refresh(&mut self, _scene: &Scene<'_>) {}

    /// Moves the selection by so many rows; false if there is no selection, so that the page scrolls instead.
    fn select_by(&mut self, _rows: isize, _scene: &Scene<'_>) -> bool {
        false
    }

    /// Whether an action that means the same on every other page is the page's own here.
    fn takes(&self, _action: Action) -> bool {
        false
    }

    /// What a key does here.
    fn act(&mut self, _action: Action, _scene: &Scene<'_>) -> Reply {
        Reply::Changed
    }

    /// Responds to a click on a row or a heading.
    fn click(&mut self, _hit: Hit, _scene: &Scene<'_>) -> Reply {
        Reply::Changed
    }

    /// Draws the selected row in full over the page, from its line `top` on, if there is one.
    fn detail(&self, _buf: &mut Buffer, _scene: &Scene<'_>, _top: usize, _drawn: &mut Drawn) {}

    /// Takes in the text of a prompt that the page opened.
    fn typed(&mut self, _purpose: PromptKind, _text: &str, _scene: &Scene<'_>) {}
}

/// What a page, the list of jobs or a menu asks for after a key.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Nothing visible.
    Nothing,
    /// Draw.
    Changed,
    /// Show a choice of several.
    Menu(Menu<Reply>),
    /// Open a prompt.
    Prompt(Prompt),
    /// Ask this question.
    Confirm(Confirm),
    /// Show the selected row in full.
    Detail,
    /// Show this in the footer.
    Notice(String),
    /// Do what a key does.
    Act(Action),
    /// Save this.
    Export(Export),
    /// Close the list of jobs.
    CloseList,
    /// Show this job.
    ShowJob(JobKey),
    /// Attach to this process.
    Attach(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_order() {
        for (place, page) in Page::ALL.into_iter().enumerate() {
            assert_eq!(page.index(), place);
        }
        let last = Page::ALL[Page::ALL.len() - 1];
        assert_eq!(last.after(1), Page::Overview);
        assert_eq!(Page::Overview.after(Page::ALL.len() - 1), last);
    }
}
