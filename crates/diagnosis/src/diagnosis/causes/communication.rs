//! The ranks of a distributed run wait for each other in collectives.

use super::*;

thresholds! {
    COLLECTIVES = 0.30, "share", "communication that overlaps the backward pass leaves less; without it the loop is 1.4x as fast";
}

const BY_COLLECTIVES: ConfidenceRamp = ConfidenceRamp { least: 0.55, most: 0.90, from: COLLECTIVES, to: PHASE };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "waiting for other ranks",
    brief: "ranks wait for each other in collectives",
    meaning: "the ranks spend much of their time in collectives",
    rule: &[
        "several ranks train together",
        "their loops spend at least `collectives` of the time in collectives, about the same on every rank; or \
         their GPUs are busy but draw less than `low_power`, because a waiting collective draws little",
        "if the ranks differ by at least `straggler`, the rank that does not wait holds up the others, and the \
         verdict is that rank's own cause",
        "if another rank's loop runs during at least `larger_half` of these waits, the ranks are late in turn, and \
         the verdict is cpu/main-thread",
    ],
    judge: |case| {
        let collectives = case.main.share(Activity::Collective);
        if collectives < COLLECTIVES || collectives <= case.lost {
            return None;
        }
        let sure = BY_COLLECTIVES.at(collectives);
        let Some(late) = late_in_turn(case.window) else {
            return Some(Judgment::new(Cause::Communication, sure));
        };
        let words = format!(
            "each rank is late in turn with its own work on the host, and the others wait for it {} of the time",
            percent(late)
        );
        Some(Judgment::new(Cause::MainThread, sure).meaning(words))
    },
    signals: &[MAIN_STACKS, MAIN_WAIT, CHAIN, DEVICE, POWER],
    source: "frames of torch/distributed/distributed_c10d.py. A rank that waits in a collective kernel reads close \
        to full utilization at low power",
    limits: "needs stacks. With NCCL, the host launches a collective and continues, so the wait shows up at the \
        next synchronization, or as a busy GPU at low power. Ranks on other machines cannot be seen",
    advice: advice![
        "Communicate less often: no_sync() or larger batches per rank"
            => "gradients accumulated under no_sync() are exchanged once for more work";
        "Let DDP overlap the exchange with the backward pass"
            => "bucket_cap_mb, gradient_as_bucket_view=True and static_graph=True help to hide it; bf16 \
                compression hooks shrink it";
        Nothing "Check the transport with NCCL_DEBUG=INFO"
            => "it should name NVLink or InfiniBand; a fallback to TCP sockets is many times slower", if with_gpu;
    ],
    ..CauseSpec::in_class(Class::Gpu)
};

/// Share of the time in which the loop waits in collectives while another rank's loop still runs, if that is most of its waiting
/// there: then nothing is wrong with the exchange itself.
pub(super) fn late_in_turn(window: &Features) -> Option<f64> {
    let main = window.main.as_ref()?;
    let waits = main.share(Activity::Collective) - main.runs_in_collectives();
    let late = window.chain.as_ref()?.ranks_at_work;
    (waits > 0.0 && late >= LARGER_HALF.value * waits).then_some(late.min(waits))
}

/// Several ranks whose GPUs are busy but barely filled. A rank that waits in a collective kernel is also busy at low power,
/// and if the exchange itself is slow, all ranks are.
pub(super) fn at_low_power(case: &RuleInput<'_>) -> Option<Judgment> {
    (case.window.ranks > 1).then(|| {
        case.found(Cause::Communication, GUESSED).other(
            Cause::UnderFilled,
            EVEN_CHANCE,
            "kernels too small to fill the GPU look the same: check whether a single rank is busy at low power too",
        )
    })
}
