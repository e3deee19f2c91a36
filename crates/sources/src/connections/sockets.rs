//! Where a socket leads: to another end on this machine, or to a remote address.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::readlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use super::named;
use super::sock_diag::{peer_in, peer_request};
use crate::fields::{Fields, lines, number, text};
use crate::files::read_once;

/// Most sockets remembered; a program that connects anew at each step makes many.
const MOST_SOCKETS: usize = 2048;
/// Unix sockets asked about in one tick, about 5 µs each; the rest wait.
const MOST_ASKED: usize = 64;
/// Bytes of the internet socket tables read per tick; larger tables are read less often. On a busy server the kernel
/// produces 4 MB of them per second.
pub(super) const TABLES: usize = 256 << 10;
/// The fixed cost of opening and reading a table, in bytes of table.
const OPENED: usize = 32 << 10;
/// Most bytes read of one table: 50,000 sockets.
const TABLE_LIMIT: usize = 8 << 20;
/// An unconnected socket is checked again after this many ticks if a thread waits on it …
const ASK_AGAIN: u64 = 3;
/// … or after this many if none is known to.
const ASK_AGAIN_LATER: u64 = 30;
/// The address shown for a connection too short-lived to look up, if nothing is known about its process's connections.
const SOMEWHERE: &str = "network";
/// Network namespaces of processes are read again after this many ticks.
const NAMESPACES_FOR: u64 = 30;
/// Most processes whose namespace is remembered.
const MOST_NAMESPACES: usize = 1024;

/// The far side of a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Far {
    /// The link of the other end, where it is on this machine.
    pub(super) peer: Option<Arc<str>>,
    /// The remote address of an internet socket.
    pub(super) remote: Option<Arc<str>>,
    /// The address is on this machine. Without a peer, the connection has not been accepted yet …
    here: bool,
    /// … and this socket's holder accepts such connections.
    pub(super) listener: Option<Arc<str>>,
    /// The far side opened it.
    pub(super) accepted: bool,
}

/// The sockets that were asked about.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    proc_root: PathBuf,
    known: HashMap<Arc<str>, Far>,
    /// Sockets that lead nowhere, and since when.
    nowhere: HashMap<Arc<str>, u64>,
    /// Listening sockets, which are never connected.
    listening: HashSet<Arc<str>>,
    /// Where each process's last connection with a known remote address led; `None` if the process only accepts
    /// connections.
    pub(super) last: HashMap<u32, Option<Far>>,
    /// Sockets assumed in this tick to lead there too.
    pub(super) guessed: Vec<Arc<str>>,
    /// Some sockets are still to be asked about.
    unsettled: bool,
    tick: u64,
    /// Unix sockets asked about in this tick.
    asked: usize,
    /// Table bytes read but not yet paid for.
    pub(super) debt: usize,
    table: SocketTable,
    own_namespace: Option<Arc<str>>,
    namespaces: HashMap<u32, Option<Arc<str>>>,
    /// The sock_diag socket, with the number of the last request.
    netlink: Option<(OwnedFd, u32)>,
}

/// The internet sockets of one network namespace in one tick.
#[derive(Debug, Default)]
struct SocketTable {
    read: bool,
    namespace: Option<Arc<str>>,
    by_inode: HashMap<u64, InternetSocket>,
    by_ends: HashMap<(SocketAddr, SocketAddr), u64>,
}

impl SocketTable {
    fn far(&self, inode: u64) -> Option<Far> {
        let own = self.by_inode.get(&inode).filter(|own| !own.remote.ip().is_unspecified())?;
        let peer = self.by_ends.get(&(own.remote, own.local)).filter(|peer| **peer != inode);
        let here = own.remote.ip().is_loopback() || own.remote.ip() == own.local.ip();
        let listener = if here { self.listener(own.remote) } else { None };
        let link = |inode: u64| named("socket", inode);
        Some(Far {
            peer: peer.copied().map(link),
            remote: Some(own.remote.to_string().into()),
            here,
            listener: listener.map(link),
            accepted: self.listener(own.local).is_some(),
        })
    }

    /// The socket that accepts connections to an address.
    fn listener(&self, at: SocketAddr) -> Option<u64> {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let locals = [at.ip()].into_iter().chain(any);
        let mut ends = locals.flat_map(|local| any.map(|remote| (local, remote)));
        let of = |(local, remote)| (SocketAddr::new(local, at.port()), SocketAddr::new(remote, 0));
        ends.find_map(|end| self.by_ends.get(&of(end)).copied())
    }

    fn listens(&self, inode: u64) -> bool {
        self.by_inode.get(&inode).is_some_and(|own| own.remote.ip().is_unspecified())
    }
}

impl Sockets {
    pub(super) fn new(proc_root: &Path) -> Self {
        let own_namespace = namespace(&proc_root.join("self/ns/net"));
        Self { proc_root: proc_root.to_path_buf(), own_namespace, ..Self::default() }
    }

    pub(super) fn get(&self, link: &str) -> Option<&Far> {
        self.known.get(link)
    }

    /// The links under which the holders of a socket's far side are known.
    pub(super) fn links(&self, link: &str) -> impl Iterator<Item = &Arc<str>> + use<'_> {
        self.get(link).into_iter().flat_map(|far| far.peer.iter().chain(&far.listener))
    }

    /// Whether everything asked about in this tick is known, or leads nowhere.
    pub(super) fn is_settled(&self) -> bool {
        !self.unsettled
    }

    /// Finds out where a process's socket leads; `fd` is the descriptor that a thread waits on. What exceeds this
    /// tick's budget is left to the next.
    pub(super) fn find(&mut self, pid: u32, link: &Arc<str>, fd: Option<u32>) {
        let waits = fd.is_some();
        let again = if waits { ASK_AGAIN } else { ASK_AGAIN_LATER };
        let nowhere = self.nowhere.get(link).is_some_and(|since| self.tick.saturating_sub(*since) < again);
        if nowhere || self.known.contains_key(link) || self.listening.contains(link) {
            return;
        }
        let Some(inode) = inode(link) else { return };
        let namespace = self.namespace_of(pid);
        if self.table.namespace == namespace
            && let Some(far) = self.table.far(inode)
        {
            self.learn(pid, link, far);
            return;
        }
        let is_tcp = fd.and_then(|fd| self.is_tcp(pid, fd));
        // The kernel answers only for trainmon's own network namespace.
        if is_tcp != Some(true) && namespace.is_some() && namespace == self.own_namespace {
            if self.asked >= MOST_ASKED {
                self.unsettled = true;
                return;
            }
            self.asked += 1;
            if let Some(peer) = self.unix_peer(inode) {
                let far = Far { peer: Some(named("socket", peer)), ..Far::default() };
                self.known.insert(Arc::clone(link), far);
                return;
            }
        }
        // A socket that is waited on may be newer than the table. Reading the table makes the kernel walk its whole
        // hash table, a millisecond or two, so it is not done for what is not an internet socket.
        if is_tcp != Some(false) && (waits || !self.table.read || self.table.namespace != namespace) {
            if self.debt >= TABLES {
                self.unsettled = true;
                if is_tcp == Some(true) {
                    self.guess(pid, link);
                }
                return;
            }
            self.read_table(pid, namespace);
        }
        match self.table.far(inode) {
            Some(far) => self.learn(pid, link, far),
            None if self.table.listens(inode) => {
                self.accepts(pid);
                self.listening.insert(Arc::clone(link));
            }
            // Closed by now.
            None if is_tcp == Some(true) => self.guess(pid, link),
            None if self.nowhere.len() < MOST_SOCKETS => {
                self.nowhere.insert(Arc::clone(link), self.tick);
            }
            None => {}
        }
    }

    /// Notes that a process holds a listening socket: what it waits on comes from its clients.
    pub(super) fn accepts(&mut self, pid: u32) {
        if self.last.len() < MOST_NAMESPACES {
            self.last.entry(pid).or_default();
        }
    }

    fn learn(&mut self, pid: u32, link: &Arc<str>, far: Far) {
        if self.last.len() >= MOST_NAMESPACES {
            self.last.clear();
        }
        if far.accepted {
            self.accepts(pid);
        } else {
            self.last.insert(pid, Some(Far { peer: None, ..far.clone() }));
        }
        self.known.insert(Arc::clone(link), far);
    }

    /// Guesses where a connection made for a single request led. It is gone before the table is read again, so until
    /// the end of the tick it is assumed to lead where the process's last one led. For a process that only accepts
    /// connections nothing is guessed.
    fn guess(&mut self, pid: u32, link: &Arc<str>) {
        let elsewhere = || Far { remote: Some(SOMEWHERE.into()), ..Far::default() };
        let Some(far) = self.last.get(&pid).cloned().unwrap_or_else(|| Some(elsewhere())) else { return };
        if self.guessed.len() < MOST_SOCKETS {
            self.guessed.push(Arc::clone(link));
            self.known.insert(Arc::clone(link), far);
        }
    }

    /// Whether a socket is a TCP socket, if the kernel names its protocol (sockfs, `system.sockprotoname`).
    fn is_tcp(&self, pid: u32, fd: u32) -> Option<bool> {
        let mut name = [0_u8; 32];
        let path = self.proc_root.join(format!("{pid}/fd/{fd}"));
        match rustix::fs::getxattr(&path, "system.sockprotoname", &mut name[..]) {
            Ok(length) => Some(name.get(..length)?.starts_with(b"TCP") || name.starts_with(b"MPTCP")),
            Err(_) => None,
        }
    }

    fn read_table(&mut self, pid: u32, namespace: Option<Arc<str>>) {
        self.table = SocketTable { read: true, namespace, ..SocketTable::default() };
        for table in ["net/tcp", "net/tcp6"] {
            let bytes = read_once(self.proc_root.join(format!("{pid}/{table}")), TABLE_LIMIT).unwrap_or_default();
            self.debt += OPENED + bytes.len();
            for socket in lines(&bytes).filter_map(internet_socket) {
                self.table.by_inode.insert(socket.inode, socket);
                self.table.by_ends.insert((socket.local, socket.remote), socket.inode);
            }
        }
    }

    fn namespace_of(&mut self, pid: u32) -> Option<Arc<str>> {
        if let Some(known) = self.namespaces.get(&pid) {
            return known.clone();
        }
        let found = namespace(&self.proc_root.join(format!("{pid}/ns/net")));
        if self.namespaces.len() < MOST_NAMESPACES {
            self.namespaces.insert(pid, found.clone());
        }
        found
    }

    /// Ends a tick: unconnected sockets may be connected later, and memory is bounded.
    pub(super) fn forget_old(&mut self) {
        self.tick += 1;
        self.asked = 0;
        self.unsettled = false;
        self.debt = self.debt.saturating_sub(TABLES);
        self.table = SocketTable::default();
        let tick = self.tick;
        self.nowhere.retain(|_, since| tick.saturating_sub(*since) < ASK_AGAIN_LATER);
        for link in self.guessed.drain(..) {
            self.known.remove(&link);
        }
        self.known.retain(|_, far| !far.here || far.peer.is_some());
        if self.known.len() > MOST_SOCKETS {
            self.known.clear();
        }
        if tick.is_multiple_of(NAMESPACES_FOR) {
            self.namespaces.clear();
            self.listening.clear();
        }
    }

    /// The inode of a Unix socket's peer, asked of the kernel (sock_diag(7)).
    fn unix_peer(&mut self, inode: u64) -> Option<u64> {
        let inode = u32::try_from(inode).ok()?;
        let (socket, number) = match self.netlink.take() {
            Some((socket, number)) => (socket, number.wrapping_add(1)),
            None => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let family = AddressFamily::NETLINK;
                (socket_with(family, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok()?, 1)
            }
        };
        send(&socket, &peer_request(inode, number), SendFlags::empty()).ok()?;
        let mut answer = [0_u8; 1024];
        // The kernel answers before `send` returns.
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).ok()?;
        let answer = answer.get(..length)?;
        let is_ours = answer.get(8..12) == Some(number.to_ne_bytes().as_slice());
        self.netlink = if is_ours { Some((socket, number)) } else { None };
        if is_ours { peer_in(answer) } else { None }
    }
}

fn namespace(path: &Path) -> Option<Arc<str>> {
    Some(text(readlink(path, Vec::new()).ok()?.as_bytes()))
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
    let mut fields = Fields::new(line);
    let local = address(fields.nth(1)?)?;
    let remote = address(fields.next()?)?;
    let inode = fields.nth(6).and_then(number).filter(|inode| *inode > 0)?;
    Some(InternetSocket { local, remote, inode })
}

/// Parses `0100007F:1F90`: words in the machine's byte order, and the port.
fn address(field: &[u8]) -> Option<SocketAddr> {
    let (host, port) = std::str::from_utf8(field).ok()?.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let address = match host.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(*words.as_flattened().first_chunk::<16>()?).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}
