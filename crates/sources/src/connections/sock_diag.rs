//! Questions to the kernel about Unix sockets, and its answers (sock_diag(7)).

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// A sock_diag request for the peer of the Unix socket with this inode.
pub(super) fn peer_request(inode: u32, number: u32) -> Vec<u8> {
    const REQUEST: u32 = 1;
    const UNIX: u32 = 1;
    const SHOW_PEER: u32 = 4;
    const ANY: u32 = u32::MAX;
    // The header: length, kind and flags, number, port. Both supported architectures are little-endian.
    let header = [40, u32::from(SOCK_DIAG_BY_FAMILY) | REQUEST << 16, number, 0];
    // struct unix_diag_req: family with protocol and padding, states, inode, what to show, cookie.
    let request = [UNIX, ANY, inode, SHOW_PEER, ANY, ANY];
    header.into_iter().chain(request).flat_map(u32::to_le_bytes).collect()
}

/// The peer in a sock_diag answer: a netlink header of 16 bytes, `struct unix_diag_msg` of 16, then attributes.
pub(super) fn peer_in(answer: &[u8]) -> Option<u64> {
    const PEER: u16 = 2;
    let half = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    if half(4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut at = 32;
    loop {
        let (length, kind) = (usize::from(half(at)?), half(at + 2)?);
        if kind == PEER && length >= 8 {
            let peer = u32::from_ne_bytes(answer.get(at + 4..at + 8)?.try_into().ok()?);
            return (peer > 0).then_some(peer.into());
        }
        if length < 4 {
            return None;
        }
        at += length.next_multiple_of(4);
    }
}
