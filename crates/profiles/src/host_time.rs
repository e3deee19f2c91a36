//! The host's time: what the job's threads did when, and which operator started what on the GPU.

use std::collections::HashMap;

use super::account::{IdleReason, LoopAccount, StepPart};
use super::intervals::{Intervals, Lengths, TimeRange};
use super::names::NameId;
use super::scope::Scope;
use super::threads::{OpenSpan, ThreadWalk};
use super::timeline::{HostKind, HostSpan, TraceTimeline};

/// What the job's threads did, as sets of moments within the window.
#[derive(Debug, Default)]
pub struct HostTime {
    /// By reason, [`IdleReason::Python`] aside: that is all the rest.
    pub did: [Intervals; IdleReason::COUNT],
    /// In an operator, where the reason is [`IdleReason::Operator`]: elsewhere an annotation is all that is recorded.
    pub operated: Intervals,
    /// The loop's thread saved a state.
    pub saved: Intervals,
    /// The operators by their names, on all threads.
    pub operators: HashMap<NameId, OperatorTime>,
    /// The modules by their names.
    pub modules: HashMap<NameId, OperatorTime>,
    /// Calls of the runtime by what ties them to the GPU's spans, in order of the link.
    calls: Vec<(u32, RuntimeCall)>,
    /// No call of the runtime was recorded: these are operators by what ties kernels to them.
    by_external: bool,
}

/// What an operator took of its threads.
#[derive(Debug, Default, Clone, Copy)]
pub struct OperatorTime {
    /// Number of calls that began in the window.
    pub count: u64,
    /// Nanoseconds in the window.
    pub host: i64,
}

/// A call of the runtime, and where it was made.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeCall {
    /// The call.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// Its name.
    pub name: NameId,
    /// Its thread.
    pub lane: u16,
    /// The outermost operator.
    pub operator: Option<NameId>,
    /// The innermost module.
    pub module: Option<NameId>,
}

/// Idle time by reason.
pub type IdleParts = [Intervals; IdleReason::COUNT];

impl HostTime {
    /// Of the threads of a trace.
    pub fn new(timeline: &TraceTimeline, scope: &Scope) -> Self {
        let by_external = !timeline.host.iter().any(|span| span.kind == HostKind::Runtime);
        let mut time = Self { by_external, ..Self::default() };
        let mut did: [Vec<Intervals>; IdleReason::COUNT] = Default::default();
        let (mut operated, mut saved) = (Vec::new(), Vec::new());
        for lane in 0..u16::try_from(timeline.threads.len()).unwrap_or(u16::MAX) {
            let counts = scope.threads.contains(&lane);
            let mut of_thread = IdleParts::default();
            let (mut operating, mut saving) = (Intervals::default(), Intervals::default());
            let of_loop = Some(lane) == scope.of_loop;
            time.walk(timeline, scope, lane, |piece, level| {
                let reason = level.reason();
                if counts && reason == IdleReason::Operator && !level.is_only_annotated() {
                    operating.push(piece);
                }
                if of_loop && level.saves {
                    saving.push(piece);
                }
                // A wait for a batch is the loop's.
                if counts
                    && (of_loop || reason != IdleReason::InputWait)
                    && let Some(set) = of_thread.get_mut(reason.index())
                {
                    set.push(piece);
                }
            });
            let sets = did
                .iter_mut()
                .chain([&mut operated, &mut saved])
                .zip(of_thread.into_iter().chain([operating, saving]));
            sets.filter(|(_, set)| set.count() > 0).for_each(|(all, set)| all.push(set));
        }
        time.did = did.map(|sets| Intervals::union_of(sets, scope.window));
        [time.operated, time.saved] = [operated, saved].map(|sets| Intervals::union_of(sets, scope.window));
        time.calls.sort_unstable_by_key(|(link, call)| (*link, call.start));
        time
    }

    /// Idle time, divided by reason: each moment has the first that holds.
    pub fn divided(&self, idle: &Intervals) -> IdleParts {
        let mut left = idle.clone();
        let mut parts = IdleParts::default();
        for (part, did) in parts.iter_mut().zip(&self.did).take(IdleReason::Python.index()) {
            *part = left.take(did);
        }
        if let Some(python) = parts.last_mut() {
            *python = left;
        }
        parts
    }

    fn walk(
        &mut self,
        timeline: &TraceTimeline,
        scope: &Scope,
        lane: u16,
        mut each: impl FnMut(TimeRange, &OpenSpan<'_>),
    ) {
        let spans = timeline.of_thread(lane);
        let only_python = spans.iter().all(|span| span.kind == HostKind::Python);
        if only_python && !scope.threads.contains(&lane) {
            return;
        }
        let names = &timeline.names;
        let mut python = python_of(timeline, scope, lane);
        let mut walk = ThreadWalk::new(spans, names);
        while let Some(level) = walk.open_next(|(begin, end), level| {
            let (begin, end) = (begin.max(scope.window.0), end.min(scope.window.1));
            if begin >= end {
                return;
            }
            each((begin, end), level);
            if let Some(operator) = level.operator {
                self.operators.entry(operator.name).or_default().host += end - begin;
            }
            if let Some(module) = level.module {
                self.modules.entry(module).or_default().host += end - begin;
            }
        }) {
            let span = level.span;
            let begins = (scope.window.0..scope.window.1).contains(&span.start);
            match span.kind {
                HostKind::Operator if level.operator.is_some_and(|operator| std::ptr::eq(operator, span)) => {
                    self.operators.entry(span.name).or_default().count += u64::from(begins && !level.facts.wraps);
                }
                HostKind::Python if level.facts.module => {
                    self.modules.entry(span.name).or_default().count += u64::from(begins);
                }
                _ => {}
            }
            let tied = span.kind == HostKind::Runtime || (self.by_external && span.kind == HostKind::Operator);
            if tied && span.link != 0 {
                let module = level.module.or_else(|| python.as_mut()?.level_at(span.start)?.module);
                let call = RuntimeCall {
                    start: span.start,
                    end: span.end,
                    name: span.name,
                    lane,
                    operator: level.operator.map(|operator| operator.name),
                    module,
                };
                self.calls.push((span.link, call));
            }
        }
    }

    /// The call that started a span of a GPU.
    pub(crate) fn call_of(&self, link: u32, external: u32) -> Option<&RuntimeCall> {
        let link = if self.by_external { external } else { link };
        let at = self.calls.partition_point(|(other, _)| *other < link);
        let (other, call) = self.calls.get(at)?;
        (link != 0 && *other == link).then_some(call)
    }
}

/// The walk over the loop's Python functions, where they are filed under another thread.
pub fn python_of<'a>(timeline: &'a TraceTimeline, scope: &Scope, lane: u16) -> Option<ThreadWalk<'a>> {
    let python = scope.python.filter(|python| Some(lane) == scope.of_loop && *python != lane)?;
    Some(ThreadWalk::new(timeline.of_thread(python), &timeline.names))
}

/// Hands over the pieces of a thread's time in the window, each with its innermost span, and with that of the loop's Python functions
/// where they are filed under another thread.
pub(crate) fn each_piece(
    timeline: &TraceTimeline,
    scope: &Scope,
    lane: u16,
    mut each: impl FnMut(TimeRange, &OpenSpan<'_>, Option<&OpenSpan<'_>>),
) {
    let mut python = python_of(timeline, scope, lane);
    ThreadWalk::new(timeline.of_thread(lane), &timeline.names).each(|(begin, end), level| {
        let (begin, end) = (begin.max(scope.window.0), end.min(scope.window.1));
        if begin < end {
            each((begin, end), level, python.as_mut().and_then(|python| python.level_at(begin)));
        }
    });
}

/// Whether a piece of the loop's time is in a function that does nothing but wait.
fn is_blocked(level: &OpenSpan<'_>, aside: Option<&OpenSpan<'_>>) -> bool {
    level.blocked.is_some() || aside.is_some_and(|aside| aside.blocked.is_some())
}

/// What the loop's thread does with its time.
pub fn of_loop(timeline: &TraceTimeline, scope: &Scope) -> Option<LoopAccount> {
    let lane = scope.of_loop?;
    let names = &timeline.names;
    let union = |wanted: &dyn Fn(&HostSpan) -> bool, spans: &[HostSpan]| {
        Intervals::union(spans.iter().filter(|span| wanted(span)).map(|span| (span.start, span.end)), scope.window)
    };
    // Gloo's collectives run in threads of their own, while the loop's thread waits and shows nothing.
    let elsewhere = |span: &HostSpan| {
        span.lane != lane && span.kind == HostKind::Annotation && names.facts(span.name).communicates
    };
    let collectives = union(&elsewhere, &timeline.host);
    let collectives = Lengths::new(&collectives);
    let mut account = LoopAccount::default();
    let mut seen = 0;
    let mut seen_collective = 0;
    each_piece(timeline, scope, lane, |(begin, end), level, aside| {
        let share = scope.share(end - begin);
        let with_others = collectives.within(begin, end);
        seen += end - begin;
        seen_collective += with_others;
        let blocked = is_blocked(level, aside);
        let waits = (blocked || level.facts.step || level.reason() == IdleReason::Python) && !level.communicates;
        let collective = if waits { scope.share(with_others) } else { 0.0 };
        account.collective += collective;
        if let Some(of) = account.part(part(level, aside)) {
            *of += share - collective;
        }
        account.optimizer += if level.optimizes && !level.facts.step { share } else { 0.0 };
    });
    let unseen = collectives.within(scope.window.0, scope.window.1) - seen_collective;
    account.collective += scope.share(unseen);
    account.nothing += scope.share(scope.length() - seen - unseen).max(0.0);
    // As everywhere, a call that waits for the GPU counts even within a wait for a batch.
    let syncs = |span: &HostSpan| span.kind == HostKind::Runtime && names.facts(span.name).synchronizes;
    account.sync = scope.share(union(&syncs, timeline.of_thread(lane)).length());
    let backward = |span: &HostSpan| span.kind == HostKind::Operator && names.facts(span.name).backward;
    account.backward = scope.share(union(&backward, &timeline.host).length());
    let makes = |span: &HostSpan| names.text(span.name).contains("_SingleProcessDataLoaderIter");
    account.makes_batches = timeline.of_thread(lane).iter().any(makes);
    Some(account)
}

/// The part of the loop's time that a piece belongs to.
pub fn part(level: &OpenSpan<'_>, aside: Option<&OpenSpan<'_>>) -> StepPart {
    let saves = level.saves || aside.is_some_and(|aside| aside.saves);
    match level.reason() {
        _ if saves && level.batch.is_none() => StepPart::Saving,
        // What Python does is told by its functions, where they are filed elsewhere.
        _ if level.is_only_annotated() && aside.is_some() && !level.communicates => {
            if is_blocked(level, aside) {
                StepPart::Blocked
            } else {
                StepPart::Python
            }
        }
        // A step is no work of its own.
        _ if level.facts.step => StepPart::Nothing,
        IdleReason::InputWait => StepPart::InputWait,
        IdleReason::Sync => StepPart::Sync,
        _ if level.communicates => StepPart::Collective,
        IdleReason::Launch if level.facts.copies => StepPart::Copies,
        IdleReason::Launch => StepPart::Launch,
        _ if is_blocked(level, aside) => StepPart::Blocked,
        IdleReason::Operator if level.is_only_annotated() => StepPart::Annotation,
        IdleReason::Operator => StepPart::Operator,
        IdleReason::Python => StepPart::Python,
    }
}
