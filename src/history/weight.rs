//! How much memory a frame or a verdict takes, near enough to keep the archive within its limit.
//!
//! Counted is what grows with the job. Text that several frames share is counted for each.

use std::mem::size_of_val;
use std::sync::Arc;

use crate::diagnosis::verdict::{Hottest, Verdict};
use crate::rates::Frame;
use crate::rates::frame::{GpuRates, MountRates, ProcessRates, TrainerRates};
use crate::rates::stacks::ProcessStacks;

/// Memory of a frame, bytes.
pub(super) fn of_frame(frame: &Frame) -> usize {
    size_of_val(frame)
        + lists(&frame.processes, |p: &ProcessRates| p.command.len() + p.comm.len())
        + lists(&frame.workers, |_| 0)
        + lists(&frame.trainers, |t: &TrainerRates| {
            size_of_val(&*t.wait_lengths_s)
                + size_of_val(&*t.step_lengths_s)
                + size_of_val(&*t.stalls)
                + t.chain.as_ref().map_or(0, |chain| {
                    lists(&chain.paths, |path| size_of_val(&*path.hops) + path.name.as_ref().map_or(0, |n| n.len()))
                        + lists(&chain.peers, |peer| peer.command.len() + peer.comm.len())
                })
        })
        + lists(&frame.threads, |t| t.name.len())
        + lists(&frame.thread_roles, |_| 0)
        + frame.neighbours.as_ref().map_or(0, |n| lists(&n.processes, |p| p.comm.len() + p.command.len()))
        + lists(&frame.host.cpus, |_| 0)
        + lists(&frame.host.net, |n| n.name.len())
        + lists(&frame.gpus, |g: &GpuRates| {
            size_of_val(&*g.others) + size_of_val(&*g.job_pids) + size_of_val(&*g.processes)
        })
        + lists(&frame.storage.devices, |d| d.name.len())
        + lists(&frame.storage.mounts, |m: &MountRates| {
            m.mount_point.len()
                + m.fs_type.len()
                + lists(&m.disks, |d: &Arc<str>| d.len())
                + lists(&m.examples, |e| e.len())
        })
        + lists(&frame.stacks, |s: &ProcessStacks| {
            lists(&s.places, |p| p.function.len() + p.file.len() + p.text.as_ref().map_or(0, |text| text.len()))
        })
}

/// Memory of a verdict, bytes.
pub(super) fn of_verdict(verdict: &Verdict) -> usize {
    let place = |place: Option<&Hottest>| place.map_or(0, |at| at.function.len() + at.file.len());
    let texts = [&verdict.trainmon, &verdict.command, &verdict.started, &verdict.summary];
    size_of_val(verdict)
        + texts.iter().map(|text| text.len()).sum::<usize>()
        + lists(&verdict.ranks, |r| place(r.at.as_ref()))
        + lists(&verdict.workers, |w| place(w.hottest.as_ref()))
        + lists(&verdict.evidence, |e| e.signal.len() + e.unit.len() + e.text.len())
        + lists(&verdict.advice, |a| a.title.len() + a.why.len())
        + lists(&verdict.culprits, |c| c.name.len())
        + lists(&verdict.chain, |node| {
            let texts = [Some(&node.kind), Some(&node.name), Some(&node.state), node.at.as_ref(), node.by.as_ref()];
            texts.into_iter().flatten().map(String::len).sum::<usize>() + size_of_val(&*node.waits_for)
        })
        + lists(&verdict.other_findings, |f| f.text.len())
        + lists(&verdict.not_seen, |n| n.what.len() + n.why.len() + n.mend.as_ref().map_or(0, String::len))
        + verdict
            .seen
            .iter()
            .map(|(source, state)| size_of_val(source) * 2 + source.len() + state.len())
            .sum::<usize>()
        + verdict.main_thread.as_ref().map_or(0, |main| {
            let hot = main.hottest.iter().chain(&main.sync_lines);
            hot.map(|h| size_of_val(h) + h.function.len() + h.file.len()).sum::<usize>()
        })
}

/// The list itself and what hangs on its entries.
fn lists<T>(list: &[T], more: impl Fn(&T) -> usize) -> usize {
    size_of_val(list) + list.iter().map(more).sum::<usize>()
}
