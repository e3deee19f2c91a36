//! What a thread did at each moment: its spans lie within each other, and the innermost one has the time.

use super::account::IdleReason;
use super::drawn::SliceKind;
use super::intervals::TimeRange;
use super::names::{NameFacts, NameId, TraceNames};
use super::timeline::{HostKind, HostSpan};

/// A span that is open, with what it is within.
#[derive(Debug, Clone, Copy)]
pub struct OpenSpan<'a> {
    /// The span.
    pub span: &'a HostSpan,
    /// What is known of its name.
    pub facts: NameFacts,
    /// The outermost wait for a batch.
    pub batch: Option<NameId>,
    /// The outermost operator that says what it does: the one that the program called.
    pub operator: Option<&'a HostSpan>,
    /// The innermost function of the user's own code.
    pub function: Option<NameId>,
    /// The innermost module of the model.
    pub module: Option<NameId>,
    /// The innermost function that does nothing but wait.
    pub blocked: Option<NameId>,
    /// Within a function that saves a state.
    pub saves: bool,
    /// Within a collective.
    pub communicates: bool,
    /// Within the optimizer's step.
    pub optimizes: bool,
    /// Within a compilation.
    pub compiles: bool,
}

impl<'a> OpenSpan<'a> {
    fn new(span: &'a HostSpan, names: &TraceNames, outer: Option<&Self>) -> Self {
        let facts = names.facts(span.name);
        let python = span.kind == HostKind::Python;
        let operates = span.kind == HostKind::Operator;
        let outermost = outer.and_then(|outer| outer.operator);
        let own = |has: bool| if python && has { Some(span.name) } else { None };
        Self {
            span,
            facts,
            batch: outer.and_then(|outer| outer.batch).or(if facts.waits_for_batch { Some(span.name) } else { None }),
            operator: match outermost {
                // What only wraps others gives way to the first of them.
                Some(wrapping) if operates && names.facts(wrapping.name).wraps => Some(span),
                Some(outermost) => Some(outermost),
                None if operates => Some(span),
                None => None,
            },
            function: own(facts.users_code).or_else(|| outer.and_then(|outer| outer.function)),
            module: own(facts.module).or_else(|| outer.and_then(|outer| outer.module)),
            blocked: own(facts.blocks).or_else(|| outer.and_then(|outer| outer.blocked)),
            saves: (python && facts.saves) || outer.is_some_and(|outer| outer.saves),
            communicates: facts.communicates || outer.is_some_and(|outer| outer.communicates),
            optimizes: facts.optimizer || outer.is_some_and(|outer| outer.optimizes),
            compiles: facts.compiles || outer.is_some_and(|outer| outer.compiles),
        }
    }

    /// Whether an annotation is all that the trace shows here, Python aside. That of the optimizer's step says what runs.
    pub(crate) fn is_only_annotated(&self) -> bool {
        self.span.kind == HostKind::Annotation && self.operator.is_none() && (!self.optimizes || self.facts.step)
    }

    /// How it is drawn: as the parts of a GPU's idle time are told, with calls that copy and what is only annotated apart.
    pub fn drawn(&self) -> SliceKind {
        match self.reason() {
            IdleReason::Launch if self.facts.copies => SliceKind::Sync,
            IdleReason::Operator if self.is_only_annotated() => SliceKind::Annotation,
            reason => reason.drawn(),
        }
    }

    /// What the thread does here, if its GPU is idle.
    pub fn reason(&self) -> IdleReason {
        match self.span.kind {
            _ if self.batch.is_some() => IdleReason::InputWait,
            HostKind::Runtime if self.facts.synchronizes => IdleReason::Sync,
            HostKind::Runtime => IdleReason::Launch,
            HostKind::Operator | HostKind::Annotation => IdleReason::Operator,
            HostKind::Python => IdleReason::Python,
        }
    }
}

/// Follows the spans of one thread, in their order, and knows at each moment which are open.
#[derive(Debug)]
pub struct ThreadWalk<'a> {
    names: &'a TraceNames,
    spans: std::slice::Iter<'a, HostSpan>,
    open: Vec<OpenSpan<'a>>,
    at: Option<i64>,
}

impl<'a> ThreadWalk<'a> {
    /// Before the first of a thread's spans.
    pub fn new(spans: &'a [HostSpan], names: &'a TraceNames) -> Self {
        Self { names, spans: spans.iter(), open: Vec::new(), at: None }
    }

    /// Hands over every stretch of time in which the innermost open span is the same, until there are no more.
    pub fn each(mut self, mut piece: impl FnMut(TimeRange, &OpenSpan<'a>)) {
        while self.open_next(&mut piece).is_some() {}
    }

    /// Opens the next span, and hands over the stretches of time before it; all the rest after the last span.
    pub(crate) fn open_next(&mut self, mut piece: impl FnMut(TimeRange, &OpenSpan<'a>)) -> Option<&OpenSpan<'a>> {
        let Some(span) = self.spans.next() else {
            self.close_until(i64::MAX, &mut piece);
            return None;
        };
        self.at.get_or_insert(span.start);
        self.close_until(span.start, &mut piece);
        self.open.push(OpenSpan::new(span, self.names, self.open.last()));
        self.open.last()
    }

    /// The innermost span that is open at a moment. Moments must not go back.
    pub(crate) fn level_at(&mut self, moment: i64) -> Option<&OpenSpan<'a>> {
        while self.spans.as_slice().first().is_some_and(|span| span.start <= moment) {
            self.open_next(|_, _| {});
        }
        self.close_until(moment, &mut |_, _| {});
        self.open.last()
    }

    fn close_until(&mut self, moment: i64, piece: &mut impl FnMut(TimeRange, &OpenSpan<'a>)) {
        let Some(mut at) = self.at else { return };
        while let Some(level) = self.open.last().filter(|level| level.span.end <= moment) {
            if level.span.end > at {
                piece((at, level.span.end), level);
                at = level.span.end;
            }
            self.open.pop();
        }
        if let Some(level) = self.open.last()
            && moment > at
        {
            piece((at, moment), level);
        }
        self.at = Some(at.max(moment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: i64, end: i64, name: NameId, kind: HostKind) -> HostSpan {
        HostSpan { start, end, name, link: 0, shapes: 0, lane: 0, kind }
    }

    #[test]
    fn the_innermost_span_has_the_time() {
        let mut names = TraceNames::default();
        let [python, wraps, relu, launch, sync, loader] = [
            "train.py(3): step",
            "autograd::engine::evaluate_function: A",
            "aten::relu",
            "cudaLaunchKernel",
            "cudaStreamSynchronize",
            "enumerate(DataLoader)#_X.__next__",
        ]
        .map(|name| names.number(name));
        let spans = [
            span(0, 100, python, HostKind::Python),
            span(10, 50, wraps, HostKind::Operator),
            span(20, 40, relu, HostKind::Operator),
            span(25, 30, launch, HostKind::Runtime),
            span(60, 70, sync, HostKind::Runtime),
            span(80, 120, loader, HostKind::Annotation),
        ];
        let mut found = Vec::new();
        ThreadWalk::new(&spans, &names)
            .each(|piece, level| found.push((piece, level.reason(), level.operator.map(|span| span.name))));
        use IdleReason::{InputWait, Launch, Operator, Python, Sync};
        let expected = [
            ((0, 10), Python, None),
            ((10, 20), Operator, Some(wraps)),
            ((20, 25), Operator, Some(relu)),
            ((25, 30), Launch, Some(relu)),
            ((30, 40), Operator, Some(relu)),
            ((40, 50), Operator, Some(wraps)),
            ((50, 60), Python, None),
            ((60, 70), Sync, None),
            ((70, 80), Python, None),
            ((80, 120), InputWait, None),
        ];
        assert_eq!(found, expected);
        let mut walk = ThreadWalk::new(&spans, &names);
        let mut at = |moment| walk.level_at(moment).map(|level| (level.span.name, level.function));
        assert_eq!(at(-5), None);
        assert_eq!(at(26), Some((launch, Some(python))));
        assert_eq!(at(75), Some((python, Some(python))));
        assert_eq!(at(500), None);
    }
}
