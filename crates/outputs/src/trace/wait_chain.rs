//! The wait chain as slices and arrows.

use std::collections::HashMap;
use std::io::{self, Write};

use super::packets::{Looks, Track};
use super::proto::TrackEvent;
use super::{TraceWriter, number, text};
use trainmon_diagnosis::diagnosis::chain::ChainNode;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_views::chain::{described, who};

/// What a wait takes of the loop's time, at least, to be drawn.
const DRAWN_SHARE: f64 = 0.1;
/// A place in the drawn wait chain.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChainSlice {
    track: u64,
    name: String,
    /// The tracks of those before it that wait for it.
    waiting: Vec<u64>,
}

impl<W: Write> TraceWriter<W> {
    /// Draws the wait chain: a slice for each thing that waits or is waited for, and arrows between them. It begins anew when
    /// its form changes, as an arrow needs two slices that begin.
    pub(super) fn chain(&mut self, tick: &Tick, at: u64) -> io::Result<()> {
        let nodes: &[ChainNode] = if tick.alive { &tick.verdict.chain } else { &[] };
        let (mut slices, mut about): (Vec<ChainSlice>, Vec<&ChainNode>) = (Vec::new(), Vec::new());
        let mut places: HashMap<u32, usize> = HashMap::new();
        for node in nodes.iter().filter(|node| node.share >= DRAWN_SHARE && (node.node == 0 || !node.is_loop())) {
            let waiting = nodes.iter().filter(|before| before.waits_for.contains(&node.node));
            let waiting: Vec<usize> = waiting.filter_map(|before| places.get(&before.node).copied()).collect();
            if waiting.is_empty() != (node.node == 0) {
                continue;
            }
            let Some(track) = self.chain_track(tick, node)? else { continue };
            let place = slices.iter().position(|slice| slice.track == track);
            let place = place.unwrap_or_else(|| {
                let name = described(&ChainNode { at: None, ..node.clone() });
                slices.push(ChainSlice { track, name, waiting: Vec::new() });
                about.push(node);
                slices.len() - 1
            });
            places.insert(node.node, place);
            // Only forward: an arrow begins before it ends.
            let tracks = waiting.into_iter().filter(|before| *before < place);
            let tracks: Vec<u64> = tracks.filter_map(|before| Some(slices.get(before)?.track)).collect();
            if let Some(slice) = slices.get_mut(place) {
                slice.waiting.extend(tracks);
                slice.waiting.sort_unstable();
                slice.waiting.dedup();
            }
        }
        // A loop that waits for nothing that is drawn.
        if slices.len() < 2 {
            slices.clear();
        }
        let mut by_track = slices.clone();
        by_track.sort_by_key(|slice| slice.track);
        if by_track != self.chain {
            self.draw(&slices, at)?;
            self.chain = by_track;
        }
        for (slice, node) in slices.iter().zip(about) {
            let at = node.at.iter().map(|at| text("at", at));
            self.annotate(slice.track, std::iter::once(number("share", node.share)).chain(at).collect());
        }
        Ok(())
    }

    fn draw(&mut self, slices: &[ChainSlice], at: u64) -> io::Result<()> {
        for slice in std::mem::take(&mut self.chain) {
            self.end(slice.track, at)?;
        }
        let arrows = slices.iter().flat_map(|slice| slice.waiting.iter().map(|before| (*before, slice.track)));
        let arrows: Vec<(u64, u64, u64)> = arrows.map(|(from, to)| (from, to, self.packets.flow())).collect();
        for slice in slices {
            let from = arrows.iter().filter(|(from, ..)| *from == slice.track);
            let to = arrows.iter().filter(|(_, to, _)| *to == slice.track);
            let flow_ids = from.map(|(.., flow)| *flow).collect();
            let terminating_flow_ids = to.map(|(.., flow)| *flow).collect();
            let event = TrackEvent { flow_ids, terminating_flow_ids, ..TrackEvent::default() };
            self.begin(slice.track, at, &slice.name, event)?;
        }
        Ok(())
    }

    /// Where a node is drawn: below its thread, or below a track for what is no thread.
    fn chain_track(&mut self, tick: &Tick, node: &ChainNode) -> io::Result<Option<u64>> {
        let (parent, name) = match node.pid {
            Some(pid) => (self.thread(tick, pid, node.tid.unwrap_or(pid))?, "wait chain".to_owned()),
            None => (self.row("wait chain", 2)?, who(node)),
        };
        self.packets.track(Track::Named(parent, name), Looks { rank: 1, ..Looks::default() })
    }
}
