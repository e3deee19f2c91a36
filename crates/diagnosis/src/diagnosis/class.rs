//! The words that a verdict begins with: which resource must change, and what the job is doing.

use trainmon_base::text::named_enum;

named_enum! {
    /// Which resource must change for the loop to step faster.
    #[derive(Default)]
    pub enum Class {
        /// The input pipeline.
        DataLoader = "data-loader",
        /// Storage or network.
        Io = "io",
        /// The CPU.
        Cpu = "cpu",
        /// The GPU.
        Gpu = "gpu",
        /// No resource costs more than a few percent.
        Balanced = "balanced",
        /// Not training now.
        Idle = "idle",
        /// Not a training process, or too little could be read.
        #[default]
        Unknown = "unknown",
    }
}

impl Class {
    /// The heading of the answer: `DATA LOADER`.
    pub fn title(self) -> &'static str {
        match self {
            Self::DataLoader => "DATA LOADER",
            Self::Io => "IO",
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Balanced => "HEALTHY",
            Self::Idle => "NOT TRAINING",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Its name within a sentence or on a small label: `data loader`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DataLoader => "data loader",
            Self::Balanced => "healthy",
            Self::Idle => "not training",
            Self::Unknown => "unknown",
            named => named.title(),
        }
    }

    /// What holds the loop back, for a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::DataLoader => "batches are not ready in time",
            Self::Io => "data is not read, or state is not saved, fast enough",
            Self::Cpu => "the CPU side is the limit",
            Self::Gpu => "the GPU is the limit",
            Self::Balanced => "nothing costs more than a few percent",
            Self::Idle => "not training now; `phase` says what it does instead",
            Self::Unknown => "not a training process, or too little could be read",
        }
    }
}

named_enum! {
    /// What the job is doing: decided before any bottleneck is looked for.
    #[derive(Default)]
    pub enum Phase {
        /// Not enough data yet.
        #[default]
        Unknown = "unknown",
        /// Starting: imports, model and data set set-up, first batches.
        Init = "init",
        /// Stepping.
        Training = "training",
        /// Saving state.
        Checkpoint = "checkpoint",
        /// Compiling the model.
        Compile = "compile",
        /// Evaluating on other data.
        Validation = "validation",
        /// Alive, but neither stepping nor computing.
        Idle = "idle",
        /// Nothing that the loop waits for moves.
        Hung = "hung",
        /// Stopped by a signal or a debugger.
        Stopped = "stopped",
        /// Ended.
        Finished = "finished",
    }
}
