//! The chain, made to agree with the split of the loop's time.

use super::{Chain, ChainPath};
use crate::diagnosis::parts::GpuIdle;
use trainmon_waits::taxonomy::{End, Purpose};
use trainmon_waits::time_split::TimeSplit;

impl ChainPath {
    /// The loop works, alone or with compute threads.
    pub fn is_loops_own(&self) -> bool {
        matches!(self.part, Purpose::Own | Purpose::Loads | Purpose::Saves)
    }

    fn is_own_work(&self) -> bool {
        self.part == Purpose::Own
    }

    /// A thread of the loop's own process computes for it.
    fn is_compute_thread(&self) -> bool {
        self.part == Purpose::Thread && self.end == End::Cpu && self.hops.len() == 1
    }
}

impl Chain {
    /// Makes the paths agree with the split of the loop's time. Of the time that its thread runs, the parts that spin at the
    /// GPU, make or receive batches, or save are separated from its own work; compute threads that it waits for count as its
    /// work. With a GPU, the lost part of each path is the GPU's idle time meanwhile. `slept` is the share of the time in
    /// which its code sleeps.
    pub fn settle(&mut self, shares: &TimeSplit, idle: Option<&GpuIdle>, slept: f64) {
        let own = self.share(Purpose::Own);
        let excess = own - shares.host_busy;
        if excess > 0.0 {
            let spins = excess.min((shares.device_sync - self.share(Purpose::Gpu)).max(0.0));
            let rest = excess - spins;
            let (loads, saves) = (shares.input_wait, shares.checkpoint);
            let of_rest = |share: f64| if share > 0.0 { (rest * share / (loads + saves)).min(share) } else { 0.0 };
            let (loads, saves) = (of_rest(loads), of_rest(saves));
            self.shift(spins, ChainPath::is_own_work, Purpose::Gpu, Some(End::Gpu));
            self.shift(loads, ChainPath::is_own_work, Purpose::Loads, None);
            self.shift(saves, ChainPath::is_own_work, Purpose::Saves, None);
            // The rest runs at a line that waits: it polls.
            let longest =
                self.ways.iter().filter(|way| !way.is_loops_own()).max_by(|a, b| a.share.total_cmp(&b.share));
            if let Some(way) = longest.cloned() {
                self.shift_to(rest - loads - saves, ChainPath::is_own_work, |_| way.clone());
            }
        } else {
            let left = self.shift(-excess, ChainPath::is_compute_thread, Purpose::Own, None);
            // Fewer samples are traced than split.
            self.shift(left, |way| !way.is_loops_own() && way.part != Purpose::Gpu, Purpose::Own, Some(End::Cpu));
        }
        // A loop that sleeps while the GPU works waits for it, for as long as it works: only its code could tell otherwise.
        // From moment to moment the GPU's use is an average.
        let for_gpu = shares.device_sync - self.share(Purpose::Gpu);
        let for_gpu = for_gpu.min(self.share(Purpose::Sleep) - slept);
        self.shift(for_gpu, |way| way.part == Purpose::Sleep, Purpose::Gpu, Some(End::Gpu));
        if let Some(idle) = idle {
            self.lose(Purpose::Own, idle.while_host_busy);
            // Waiting for a batch or making one: the GPU idles in the same part of both.
            let part = idle.while_input_wait / shares.input_wait.max(f64::MIN_POSITIVE);
            for batches in [Purpose::Loads, Purpose::Batch] {
                self.lose(batches, self.share(batches) * part);
            }
            self.lose(Purpose::Gpu, idle.while_sync);
        }
        self.ways.sort_by(|a, b| b.share.total_cmp(&a.share));
    }

    /// Changes paths that fit to another part, up to `share` of the loop's time, with a new end if one is given. Returns the
    /// share for which there was no path.
    fn shift(&mut self, share: f64, fits: fn(&ChainPath) -> bool, part: Purpose, end: Option<End>) -> f64 {
        self.shift_to(share, fits, |way| {
            let hops = if end.is_some() { Vec::new() } else { way.hops.clone() };
            ChainPath { hops, end: end.unwrap_or(way.end), name: None, lock: None, part, ..*way }
        })
    }

    /// The same, with a function that says what each path becomes.
    fn shift_to(&mut self, share: f64, fits: fn(&ChainPath) -> bool, new: impl Fn(&ChainPath) -> ChainPath) -> f64 {
        let mut left = share;
        let mut moved: Vec<ChainPath> = Vec::new();
        for way in self.ways.iter_mut().filter(|way| fits(way)) {
            let share = left.clamp(0.0, way.share);
            if share <= 0.0 {
                continue;
            }
            let lost = way.lost * share / way.share;
            (way.share, way.lost) = (way.share - share, way.lost - lost);
            left -= share;
            moved.push(ChainPath { share, lost, ..new(way) });
        }
        for new in moved {
            let same = |way: &&mut ChainPath| (way.part, &way.hops, way.end) == (new.part, &new.hops, new.end);
            match self.ways.iter_mut().find(same) {
                Some(way) => (way.share, way.lost) = (way.share + new.share, way.lost + new.lost),
                None => self.ways.push(new),
            }
        }
        self.ways.retain(|way| way.share > 0.0);
        left
    }

    /// Sets the lost time of a part, as far as its time goes.
    fn lose(&mut self, part: Purpose, lost: f64) {
        let share = self.share(part);
        let lost = if share > 0.0 { (lost / share).clamp(0.0, 1.0) } else { 0.0 };
        self.ways.iter_mut().filter(|way| way.part == part).for_each(|way| way.lost = way.share * lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_that_the_split_takes_for_a_wait_for_the_device_is_one() {
        let way = |part: Purpose, end: End, share: f64, lost: f64| ChainPath {
            hops: Vec::new(),
            end,
            name: None,
            lock: None,
            share,
            lost,
            part,
        };
        // The GPU is busy for 83%, and the loop sleeps for as long: it waits for the GPU, though each sampled moment could
        // only say that the GPU works for 83% of it.
        let ways = |own: f64| {
            vec![
                way(Purpose::Gpu, End::Gpu, 0.69, 0.0),
                way(Purpose::Sleep, End::Timer, 0.14, 0.14),
                way(Purpose::Own, End::Cpu, own, own),
            ]
        };
        let settled = |shares: TimeSplit, slept: f64| {
            let mut chain = Chain { ways: ways(0.17), ..Chain::default() };
            let idle = GpuIdle { total: 0.17, while_host_busy: 0.17, ..GpuIdle::default() };
            chain.settle(&shares, Some(&idle), slept);
            [chain.share(Purpose::Gpu), chain.share(Purpose::Sleep), chain.lost(Purpose::Sleep)]
                .map(|share| (share * 100.0).round())
        };
        let for_it = TimeSplit { device_sync: 0.83, host_busy: 0.17, ..TimeSplit::default() };
        assert_eq!(settled(for_it, 0.0), [83.0, 0.0, 0.0]);
        // Its code asks for the sleep.
        assert_eq!(settled(for_it, 0.14), [69.0, 14.0, 14.0]);
        let by_code = TimeSplit { other: 0.14, device_sync: 0.69, ..for_it };
        assert_eq!(settled(by_code, 0.0), [69.0, 14.0, 14.0]);
    }
}
