//! Of which thread or process a verdict shows the path of the time: of the loop, or of what it waits for.

use trainmon_base::text::named_enum;

use super::features::Features;
use super::parts::Hottest;
use super::thresholds::{HARDLY, LARGER_HALF};
use trainmon_waits::taxonomy::Purpose;

named_enum! {
    /// Of what a path through the code is.
    #[derive(Default)]
    pub enum PlaceOf {
        /// The loop's time, outside of its waits for data and the GPU.
        #[default]
        Loop = "loop",
        /// The workers' time: the loop waits for them.
        Workers = "workers",
        /// The time of threads that make the batches or fit the model: the loop waits for them.
        Threads = "threads",
    }
}

impl PlaceOf {
    /// Whether it is the loop's.
    pub(super) fn is_loop(&self) -> bool {
        *self == Self::Loop
    }
}

/// The path to show: that of the loop, or of what makes the batches if it waits for them most.
pub(super) fn shown(window: &Features) -> (PlaceOf, Vec<Hottest>) {
    let stacks = window.loop_stacks();
    let of_loop = || stacks.map(|stacks| stacks.place.clone()).unwrap_or_default();
    let fits_aside = stacks.filter(|stacks| stacks.fits_aside() && stacks.shares.of_model() < HARDLY.value);
    if let Some(stacks) = fits_aside.filter(|stacks| !stacks.place_aside.is_empty()) {
        return (PlaceOf::Threads, stacks.place_aside.clone());
    }
    let for_pool = window.chain.as_ref().is_some_and(|chain| chain.share(Purpose::Process) >= LARGER_HALF.value);
    if !window.waits_lead() && !for_pool {
        return (PlaceOf::Loop, of_loop());
    }
    let of_workers = window.workers.as_ref().map(|workers| workers.place.clone());
    // The loop itself hardly makes any: its threads do.
    let by_threads = stacks.filter(|stacks| stacks.loading() < LARGER_HALF.value * window.lost_wait());
    let by_threads = by_threads.map(|stacks| stacks.place_aside.clone());
    match (of_workers, by_threads) {
        (Some(place), _) if !place.is_empty() => (PlaceOf::Workers, place),
        (_, Some(place)) if !place.is_empty() => (PlaceOf::Threads, place),
        _ => (PlaceOf::Loop, of_loop()),
    }
}
