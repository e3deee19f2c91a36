//! What is kept of one rank's trace while the others are read: its account, its collectives, and what it did between them. Its size
//! is bounded: half a megabyte.

use std::collections::HashMap;

use serde_json::Value;

use super::activities::ActivitySlices;
use crate::account::ProfileAccount;
use crate::intervals::TimeRange;
use crate::kernels::element_bytes;
use crate::parts::AccountParts;
use crate::ranks_account::CollectiveKind;
use crate::timeline::{GpuDetail, GpuSpan, HostSpan, TraceTimeline};

/// Most collectives of a rank that are compared: the first ones.
pub(crate) const COLLECTIVES_MAX: usize = 4_096;
/// Most groups of ranks that are told apart.
const GROUPS_MAX: usize = 4_096;

/// One rank's trace, as far as it is compared with those of other ranks.
#[derive(Debug, Default)]
pub struct RankTrace {
    /// Its account.
    pub account: ProfileAccount,
    /// Its collectives in the window, in the order of their begins.
    pub collectives: Vec<Collective>,
    /// The groups of ranks, by [`Collective::group`].
    pub groups: Vec<Group>,
    /// Collectives beyond the bound.
    pub left_out: u64,
    /// The machine.
    pub host: Option<String>,
    /// Wall clock of time 0, nanoseconds since 1970.
    pub origin_unix_ns: Option<i128>,
    /// What the rank did when.
    pub activities: ActivitySlices,
}

/// A rank's part in a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collective {
    /// When the rank entered, nanoseconds of its trace.
    pub start: i64,
    /// When it left.
    pub end: i64,
    /// Bytes that it sent or received, whichever is more.
    pub bytes: Option<u64>,
    /// Its number in its group, where recorded.
    pub sequence: Option<u32>,
    /// The group, by its place in [`RankTrace::groups`]; `None` where it is not recorded.
    pub group: Option<u16>,
    /// The number of the stream; 0 for one of the host's.
    pub stream: i32,
    /// Its kind.
    pub kind: CollectiveKind,
}

impl Collective {
    /// On another clock: within 36 years, so that no difference overflows.
    pub fn moved(self, by: i64) -> Self {
        let within = |at: i64| at.saturating_add(by).clamp(-(i64::MAX / 8), i64::MAX / 8);
        Self { start: within(self.start), end: within(self.end), ..self }
    }
}

/// A group of ranks.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Number of its ranks.
    pub size: u64,
    /// Which these are, raw.
    pub ranks: String,
}

impl RankTrace {
    /// Of a trace.
    pub(crate) fn new(parts: &AccountParts<'_>, account: ProfileAccount) -> Self {
        let host = parts.timeline.facts.get("host_name").and_then(Value::as_str).filter(|host| !host.is_empty());
        let mut trace = Self {
            account,
            host: host.map(|host| host.chars().take(80).collect()),
            origin_unix_ns: parts.timeline.origin_unix_ns(),
            ..Self::default()
        };
        trace.take_gpus(parts);
        if trace.collectives.is_empty() {
            trace.take_hosts(parts);
        }
        let moments: Vec<TimeRange> = trace.collectives.iter().map(|one| (one.start, one.end)).collect();
        trace.activities = ActivitySlices::new(parts, &moments);
        trace
    }

    fn push(&mut self, collective: Collective) {
        if self.collectives.len() < COLLECTIVES_MAX {
            self.collectives.push(collective);
        } else {
            self.left_out += 1;
        }
    }

    fn group_of(&mut self, detail: &GpuDetail) -> Option<u16> {
        let (size, name) = detail.group.as_ref()?;
        let group = Group { name: name.to_string(), size: *size, ranks: detail.group_ranks.to_string() };
        let at = self.groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            if self.groups.len() < GROUPS_MAX {
                self.groups.push(group);
            }
            self.groups.len().saturating_sub(1)
        });
        u16::try_from(at).ok()
    }

    /// Collectives that are kernels.
    fn take_gpus(&mut self, parts: &AccountParts<'_>) {
        let (timeline, Some(gpu)) = (parts.timeline, parts.gpus.first()) else { return };
        let announced = Announced::new(timeline);
        let mut kinds = HashMap::new();
        for span in parts.kernels_that(true, gpu) {
            let by = announced.by(parts, span);
            let detail = timeline.detail(span).filter(|detail| !detail.collective.is_empty());
            let kind = match (detail, by) {
                (Some(detail), _) => CollectiveKind::of_name(&detail.collective),
                (None, Some(by)) => CollectiveKind::of_name(timeline.names.text(by.name)),
                (None, None) => {
                    *kinds.entry(span.name).or_insert_with(|| CollectiveKind::of_name(timeline.names.text(span.name)))
                }
            };
            let stream = timeline.streams.get(usize::from(span.lane)).map(|(_, lane)| lane.number());
            let collective = Collective {
                start: span.start,
                end: span.end,
                bytes: detail.and_then(bytes_of).or_else(|| bytes_by_shapes(timeline, by?, kind)),
                sequence: detail.and_then(|detail| u32::try_from(detail.sequence?).ok()),
                group: detail.and_then(|detail| self.group_of(detail)),
                stream: stream.and_then(|stream| i32::try_from(stream?).ok()).unwrap_or_default(),
                kind,
            };
            self.push(collective);
        }
    }

    /// Collectives of the host's side: those of Gloo, MPI and UCC are done in their own threads.
    fn take_hosts(&mut self, parts: &AccountParts<'_>) {
        let (timeline, scope) = (parts.timeline, &parts.scope);
        let done_here = |span: &&HostSpan| {
            let name = || timeline.names.text(span.name);
            timeline.names.facts(span.name).communicates
                && ["gloo:", "mpi:", "ucc:"].iter().any(|begin| name().starts_with(begin))
        };
        let mut found: Vec<&HostSpan> =
            timeline.host.iter().filter(done_here).filter(|span| scope.sees(span.start, span.end)).collect();
        found.sort_unstable_by_key(|span| (span.start, span.end));
        for span in found {
            let kind = CollectiveKind::of_name(timeline.names.text(span.name));
            let bytes = bytes_by_shapes(timeline, span, kind);
            let (start, end) = (span.start, span.end);
            self.push(Collective { start, end, bytes, sequence: None, group: None, stream: 0, kind });
        }
    }
}

/// The annotations that say which collective a thread starts, `nccl:all_reduce`, by thread and in order of their begins.
struct Announced<'a>(HashMap<u16, Vec<&'a HostSpan>>);

impl<'a> Announced<'a> {
    fn new(timeline: &'a TraceTimeline) -> Self {
        let mut by_thread: HashMap<u16, Vec<&HostSpan>> = HashMap::new();
        for span in timeline.host.iter().filter(|span| timeline.names.facts(span.name).communicates) {
            if timeline.names.text(span.name).starts_with("nccl:") {
                by_thread.entry(span.lane).or_default().push(span);
            }
        }
        Self(by_thread)
    }

    /// The one in which the kernel was launched.
    fn by(&self, parts: &AccountParts<'_>, span: &GpuSpan) -> Option<&'a HostSpan> {
        let call = parts.host.call_of(span.link, span.external)?;
        let all = self.0.get(&call.lane)?;
        let before = all.partition_point(|one| one.start <= call.start).checked_sub(1)?;
        all.get(before).copied().filter(|one| one.end >= call.start)
    }
}

fn bytes_of(detail: &GpuDetail) -> Option<u64> {
    let (sent, received) = detail.elements?;
    let bytes = sent.max(received).saturating_mul(element_bytes(&detail.element));
    (bytes > 0).then_some(bytes)
}

/// Bytes by the shapes of what an annotation was given: what the rank sends. Where it receives more, these say nothing.
fn bytes_by_shapes(timeline: &TraceTimeline, span: &HostSpan, kind: CollectiveKind) -> Option<u64> {
    if matches!(kind, CollectiveKind::AllGather | CollectiveKind::Gather | CollectiveKind::Scatter) {
        return None;
    }
    let shapes = timeline.shapes_of(span.shapes);
    let dims: Value = serde_json::from_str(shapes.dims).ok()?;
    let types: Vec<String> = serde_json::from_str(shapes.types).ok()?;
    let bytes = elements(&dims)?.saturating_mul(element_bytes(types.first()?));
    (bytes > 0).then_some(bytes)
}

/// Elements of `[[3, 4], [5]]`: of all tensors in it.
fn elements(dims: &Value) -> Option<u64> {
    let dims = dims.as_array()?;
    if dims.iter().any(Value::is_number) {
        return dims.iter().try_fold(1_u64, |product, count| Some(product.saturating_mul(count.as_u64()?)));
    }
    dims.iter().try_fold(0_u64, |sum, tensor| Some(sum.saturating_add(elements(tensor)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_shapes_are_counted() {
        let of = |text: &str| elements(&serde_json::from_str(text).unwrap());
        assert_eq!(of("[[256, 256]]"), Some(65_536));
        assert_eq!(of("[[3, 4], [5]]"), Some(17));
        assert_eq!(of("[[[3, 4], [5]]]"), Some(17));
        assert_eq!((of("[]"), of("[[-1]]"), of("[\"a\"]"), of("3")), (Some(0), None, None, None));
    }
}
