//! The work queue of a simulated GPU: in order, with exact busy time and no process that has to tick.

/// An in-order queue of work on a simulated GPU. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queue {
    /// Length of all work ever launched.
    pub enqueued_ns: u64,
    /// When the last launched work ends.
    pub free_at_ns: u64,
}

impl Queue {
    /// Launches work of `length_ns` at `now_ns`.
    pub fn launch(&mut self, now_ns: u64, length_ns: u64) {
        self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(length_ns);
        self.enqueued_ns = self.enqueued_ns.saturating_add(length_ns);
    }

    /// Time the queue was busy up to `now_ns`.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        self.enqueued_ns.saturating_sub(self.free_at_ns.saturating_sub(now_ns))
    }

    /// Whether work runs at `now_ns`.
    pub fn running(&self, now_ns: u64) -> bool {
        self.free_at_ns > now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_knows_its_busy_time_exactly() {
        let mut queue = Queue::default();
        queue.launch(1_000, 100);
        queue.launch(1_050, 100);
        assert_eq!(queue.free_at_ns, 1_200);
        assert_eq!([900, 1_000, 1_100, 1_200, 5_000].map(|t| queue.busy_ns(t)), [0, 0, 100, 200, 200]);
        queue.launch(2_000, 50);
        assert_eq!(queue.busy_ns(2_025), 225);
        assert!(queue.running(2_049) && !queue.running(2_050));
    }
}
