//! Where a socket leads: the other end on this machine, or an address elsewhere.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use super::named;
use crate::sources::fields::{Fields, lines, number};
use crate::sources::files::{READ_LIMIT, read_once};

/// Most sockets remembered; a program that connects anew for each step makes many.
const MOST: usize = 2048;
/// A table of internet sockets with more bytes is read once a tick at most.
const LARGE: usize = 256 << 10;

/// The far side of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Far {
    /// A unix socket: the link of its peer.
    Unix(Arc<str>),
    /// An internet socket: the remote address, and the link of the socket there where it is on this machine.
    Inet { remote: Arc<str>, peer: Option<Arc<str>> },
    /// Neither connected nor known.
    Nowhere,
}

impl Far {
    pub(super) fn peer(&self) -> Option<&Arc<str>> {
        match self {
            Self::Unix(peer) => Some(peer),
            Self::Inet { peer, .. } => peer.as_ref(),
            Self::Nowhere => None,
        }
    }

    pub(super) fn remote(&self) -> Option<Arc<str>> {
        if let Self::Inet { remote, .. } = self { Some(Arc::clone(remote)) } else { None }
    }
}

/// The sockets that were asked for.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    known: HashMap<Arc<str>, Far>,
    /// The tables are large, and were read in this tick.
    large: bool,
}

impl Sockets {
    pub(super) fn get(&self, link: &str) -> Option<&Far> {
        self.known.get(link)
    }

    /// Finds out where a socket of a process leads.
    pub(super) fn find(&mut self, proc_root: &Path, pid: u32, link: &Arc<str>) {
        if self.known.contains_key(link) {
            return;
        }
        let Some(inode) = inode(link) else { return };
        if let Some(peer) = unix_peer(inode) {
            self.known.insert(Arc::clone(link), Far::Unix(named("socket", peer)));
            return;
        }
        if self.large {
            return;
        }
        let mut sockets = Vec::new();
        for table in ["net/tcp", "net/tcp6"] {
            let bytes = read_once(proc_root.join(format!("{pid}/{table}")), READ_LIMIT).unwrap_or_default();
            self.large |= bytes.len() > LARGE;
            sockets.extend(lines(&bytes).filter_map(internet_socket));
        }
        let far =
            sockets.iter().find(|socket| socket.inode == inode && !socket.remote.ip().is_unspecified()).map(|own| {
                Far::Inet {
                    remote: own.remote.to_string().into(),
                    peer: sockets
                        .iter()
                        .find(|other| (other.local, other.remote) == (own.remote, own.local))
                        .map(|other| named("socket", other.inode)),
                }
            });
        self.known.insert(Arc::clone(link), far.unwrap_or(Far::Nowhere));
    }

    /// At the end of a tick: what leads nowhere may be connected by the next, and memory is bounded.
    pub(super) fn forget_old(&mut self) {
        self.large = false;
        self.known.retain(|_, far| *far != Far::Nowhere);
        if self.known.len() > MOST {
            self.known.clear();
        }
    }
}

fn inode(link: &str) -> Option<u64> {
    number(link.strip_prefix("socket:[")?.strip_suffix(']')?.as_bytes())
}

/// A line of `/proc/net/tcp` or `tcp6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InternetSocket {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) inode: u64,
}

/// Parses `SL LOCAL REMOTE STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE …` (net/ipv4/tcp_ipv4.c, `get_tcp4_sock`).
pub(super) fn internet_socket(line: &[u8]) -> Option<InternetSocket> {
    let mut fields = Fields::of(line);
    let local = address(fields.nth(1)?)?;
    let remote = address(fields.next()?)?;
    let inode = fields.nth(6).and_then(number).filter(|inode| *inode > 0)?;
    Some(InternetSocket { local, remote, inode })
}

/// `0100007F:1F90`: words of the machine's byte order, and the port.
fn address(field: &[u8]) -> Option<SocketAddr> {
    let (host, port) = std::str::from_utf8(field).ok()?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut words = [0_u32; 4];
    let count = host.len() / 8;
    if !host.is_ascii() || host.len() != count * 8 {
        return None;
    }
    for (word, at) in words.iter_mut().zip(0..count) {
        *word = u32::from_str_radix(host.get(at * 8..at * 8 + 8)?, 16).ok()?;
    }
    let host = match count {
        1 => IpAddr::V4(Ipv4Addr::from(words.first()?.to_ne_bytes())),
        4 => {
            let mut bytes = [0_u8; 16];
            for (part, word) in bytes.chunks_exact_mut(4).zip(words) {
                part.copy_from_slice(&word.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(host, port))
}

/// The inode of a unix socket's peer, asked of the kernel (sock_diag(7)). Only sockets of our own network namespace.
fn unix_peer(inode: u64) -> Option<u64> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const REQUEST: u16 = 1;
    const SHOW_PEER: u32 = 4;
    const NO_COOKIE: u32 = u32::MAX;
    let inode = u32::try_from(inode).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asked = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok()?;
    let _ = set_socket_timeout(&asked, Timeout::Recv, Some(Duration::from_millis(50)));
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend([0_u8; 8]);
    // struct unix_diag_req: family, protocol, padding, states, inode, what to show, cookie.
    request.extend([1, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(inode.to_ne_bytes());
    request.extend(SHOW_PEER.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    send(&asked, &request, SendFlags::empty()).ok()?;
    let mut answer = [0_u8; 1024];
    let (_, length) = recv(&asked, &mut answer[..], RecvFlags::empty()).ok()?;
    peer_in(answer.get(..length)?)
}

/// The peer in an answer of sock_diag: a netlink header of 16 bytes, `struct unix_diag_msg` of 16, then attributes.
pub(super) fn peer_in(answer: &[u8]) -> Option<u64> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const PEER: u16 = 2;
    let half = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    if half(4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut at = 32;
    loop {
        let (length, kind) = (usize::from(half(at)?), half(at + 2)?);
        if kind == PEER {
            let peer = u32::from_ne_bytes(answer.get(at + 4..at + 8)?.try_into().ok()?);
            return (peer > 0).then_some(peer.into());
        }
        if length < 4 {
            return None;
        }
        at += length.next_multiple_of(4);
    }
}
