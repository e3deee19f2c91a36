//! The pages of the screen: their order, names and number keys.

/// A screenful.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Page {
    /// Verdict, where each second goes, timelines, workers.
    #[default]
    Overview,
    /// The devices.
    Gpu,
    /// CPUs, run queues, quota, pressure, threads, neighbours.
    Cpu,
    /// Disks, mounts, network.
    Io,
    /// The job's processes.
    Processes,
    /// Where the job's Python code spends its time.
    Stacks,
    /// Everything the verdict rests on.
    Findings,
    /// The keys.
    Help,
}

impl Page {
    /// All pages, in the order of Tab.
    pub const ALL: [Self; 8] =
        [Self::Overview, Self::Gpu, Self::Cpu, Self::Io, Self::Processes, Self::Stacks, Self::Findings, Self::Help];

    /// Its name; in the configuration it is written small.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Gpu => "GPU",
            Self::Cpu => "CPU",
            Self::Io => "IO",
            Self::Processes => "Processes",
            Self::Stacks => "Stacks",
            Self::Findings => "Findings",
            Self::Help => "Help",
        }
    }

    /// Its name where cells are few.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Self::Overview => "Main",
            Self::Processes => "Procs",
            Self::Findings => "Why",
            other => other.name(),
        }
    }

    /// Place in the order of Tab.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The page so many places further on, round the end.
    #[must_use]
    pub fn after(self, steps: usize) -> Self {
        Self::ALL.get((self.index() + steps) % Self::ALL.len()).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_order() {
        for (place, page) in Page::ALL.into_iter().enumerate() {
            assert_eq!(page.index(), place);
            assert_eq!(page.to_string(), page.name().to_lowercase());
            assert_eq!(page.name().parse(), Ok(page));
        }
        assert_eq!(Page::Help.after(1), Page::Overview);
        assert_eq!(Page::Overview.after(Page::ALL.len() - 1), Page::Help);
    }
}
