//! The ranks of a distributed run wait for one another in collectives.

use super::*;

thresholds! {
    COLLECTIVES = 0.30, "share", "communication that overlaps the backward pass leaves less; without it the loop is 1.4x as fast";
}

const BY_COLLECTIVES: ConfidenceRamp = ConfidenceRamp { least: 0.55, most: 0.90, from: COLLECTIVES, to: PHASE };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "waiting for other ranks",
    brief: "collectives: waiting for other ranks",
    meaning: "the ranks spend their time in collectives",
    rule: &[
        "several ranks train together",
        "their main threads spend at least `collectives` in collectives, evenly over the ranks; or their devices are \
         busy at less than `low_power`, as they are while a collective waits",
        "where ranks differ by `straggler` and more, the one that does not wait holds up the others: the verdict is \
         that rank's own cause",
        "where the loop of another rank runs during `larger_half` of these waits, the ranks are late in turn: the verdict \
         is cpu/main-thread",
    ],
    judge: |case| {
        let collectives = case.main.share(Activity::Collective);
        if collectives < COLLECTIVES || collectives <= case.lost {
            return None;
        }
        let sure = BY_COLLECTIVES.at(collectives);
        let Some(late) = late_in_turn(case.window) else {
            return Some(Judgement::new(Cause::Communication, sure));
        };
        let words = format!(
            "each rank is late in turn, by its own work on the host, and the others wait for it {} of the time",
            percent(late)
        );
        Some(Judgement::new(Cause::MainThread, sure).meaning(words))
    },
    signals: &[MAIN_STACKS, MAIN_WAIT, CHAIN, DEVICE, POWER],
    source: "frames of torch/distributed/distributed_c10d.py; a rank that waits in a collective kernel reads close \
             to full utilisation at low power",
    limits: "needs stacks; with NCCL the host launches a collective and goes on, and the wait shows up at the next \
             synchronisation or as a busy device at low power; ranks on other machines are not seen",
    advice: advice![
        "Communicate less often: accumulate gradients under no_sync(), or larger batches per rank"
            => "each step then exchanges gradients once for more work";
        "Let DDP overlap: bucket_cap_mb, gradient_as_bucket_view=True, static_graph=True; compress with bf16 hooks"
            => "exchange that runs during the backward pass is hidden behind it";
        "Check the transport with NCCL_DEBUG=INFO (NVLink or InfiniBand, not sockets)"
            => "a fall-back to TCP is many times slower";
    ],
    ..CauseSpec::in_class(Class::Gpu)
};

/// Share of the time that the loop waits in collectives while another rank's loop is still running, where that is most of its
/// waiting there: then nothing is wrong with the exchange itself.
pub(super) fn late_in_turn(window: &Features) -> Option<f64> {
    let main = window.main.as_ref()?;
    let waits = main.share(Activity::Collective) - main.runs_in_collectives();
    let late = window.chain.as_ref()?.ranks_at_work;
    (waits > 0.0 && late >= LARGER_HALF.value * waits).then_some(late.min(waits))
}

/// Several ranks whose devices are busy but barely filled. A rank that waits in a collective kernel is also busy at low power,
/// and if the exchange itself is slow all ranks are.
pub(super) fn at_low_power(case: &RuleInput<'_>) -> Option<Judgement> {
    (case.window.trainers > 1).then(|| {
        case.found(Cause::Communication, GUESSED).other(
            Cause::UnderFilled,
            EVEN_CHANCE,
            "kernels too small for the device look the same: see whether a single rank is busy at low power too",
        )
    })
}
