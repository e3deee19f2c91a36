//! The channels that were waited on: the holders of each end, and the channels whose holder is still to be found.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{Connections, Holders, LASTING, SocketEnd};
use trainmon_sample::Channel;

impl Connections {
    /// The holders of these links, among the sampled processes and those found by the host scan.
    pub(super) fn held(&self, links: HashSet<&str>) -> Holders {
        let mut held = Holders::new();
        if links.is_empty() {
            return held;
        }
        for (pid, ends) in &self.ends {
            for end in ends.ends.iter().filter(|end| links.contains(&*end.link)) {
                held.entry(Arc::clone(&end.link)).or_default().push((*pid, end.reads, end.writes));
            }
        }
        for link in links {
            for (pid, (reads, writes)) in self.host.holders(link) {
                let of_link = held.entry(link.into()).or_default();
                if of_link.iter().all(|(known, ..)| *known != pid) {
                    of_link.push((pid, reads, writes));
                }
            }
        }
        held
    }

    /// Whether another sampled process can write into a pipe that this one can read.
    pub(super) fn reads_from_another(&self, pid: u32) -> bool {
        let is_pipe = |end: &&SocketEnd| end.link.starts_with("pipe:");
        let own = self.ends.get(&pid).into_iter().flat_map(|ends| &ends.ends).filter(is_pipe);
        let own: HashSet<&str> = own.filter(|end| end.reads).map(|end| &*end.link).collect();
        let others = self.ends.iter().filter(|(other, _)| **other != pid).flat_map(|(_, ends)| &ends.ends);
        others.filter(is_pipe).any(|end| end.writes && own.contains(&*end.link))
    }

    pub(super) fn channel(&self, link: &Arc<str>, held: &Holders) -> Channel {
        let who = |link: &str, wanted: fn(bool, bool) -> bool| -> Vec<u32> {
            let all = held.get(link).into_iter().flatten();
            let mut pids: Vec<u32> =
                all.filter(|(_, reads, writes)| wanted(*reads, *writes)).map(|(pid, ..)| *pid).collect();
            pids.sort_unstable();
            pids
        };
        let mut channel = Channel { link: Arc::clone(link), ..Channel::default() };
        if link.starts_with("pipe:") {
            channel.readers = who(link, |reads, _| reads);
            channel.writers = who(link, |_, writes| writes);
            return channel;
        }
        let far = self.sockets.get(link);
        channel.readers = who(link, |_, _| true);
        // If a connection is too short-lived to find its peer, take the process that accepts such connections, but not
        // the waiter itself, which may have inherited that socket.
        let accepts = |other: &Arc<str>| far.is_some_and(|far| far.listener.as_ref() == Some(other));
        let mut holders = self.sockets.links(link).map(|other| {
            let mut pids = who(other, |_, _| true);
            pids.retain(|pid| !accepts(other) || !channel.readers.contains(pid));
            pids
        });
        channel.writers = holders.find(|pids| !pids.is_empty()).unwrap_or_default();
        channel.remote = far.and_then(|far| far.remote.clone());
        channel.accepted = far.is_some_and(|far| far.accepted);
        channel
    }

    /// Sockets that accept the connections that were waited on and whose holders are to be found.
    pub(super) fn lonely_listeners(&self, channels: &[Channel], waited: &BTreeMap<Arc<str>, u32>) -> Vec<Arc<str>> {
        let mut times: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for channel in channels.iter().filter(|channel| channel.writers.is_empty()) {
            let listener = self.sockets.get(&channel.link).and_then(|far| far.listener.as_ref());
            if let (Some(listener), Some(more)) = (listener, waited.get(&channel.link)) {
                let sum = times.entry(listener).or_default();
                *sum = sum.saturating_add(*more);
            }
        }
        times.into_iter().filter(|(_, times)| *times >= LASTING).map(|(link, _)| Arc::clone(link)).collect()
    }

    /// The link whose holder is to be found on the whole host, because only one side of the channel is known.
    pub(super) fn lonely(&self, channel: &Channel) -> Option<Arc<str>> {
        if channel.link.starts_with("pipe:") {
            let is_whole = match (channel.readers.as_slice(), channel.writers.as_slice()) {
                ([], _) | (_, []) => false,
                // It holds both ends, like the pipe that wakes an event loop. Another process may still have inherited
                // one.
                ([reader], [writer]) => reader != writer,
                _ => true,
            };
            return (!is_whole).then(|| Arc::clone(&channel.link));
        }
        if !channel.writers.is_empty() {
            return None;
        }
        self.sockets.get(&channel.link)?.peer.clone()
    }
}
