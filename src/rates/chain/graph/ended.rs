//! Who has ended since the tick before.

use crate::sample::{JobSample, ProcessSample};

/// torch's workers that were sampled in this tick until they ended: they are still known for what they were. Others are found by
/// what they used, as children that live shortly.
pub(super) fn workers<'a>(before: &'a JobSample, job: &JobSample) -> impl Iterator<Item = &'a ProcessSample> {
    let sampled = &job.sampler.processes;
    let is_sampled = move |process: &&ProcessSample| sampled.iter().any(|one| one.id == process.id);
    before.processes.iter().filter(|process| process.is_torch_worker()).filter(is_sampled)
}
