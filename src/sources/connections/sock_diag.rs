//! What the kernel is asked about unix sockets, and its answers (sock_diag(7)).

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// A question of sock_diag for the peer of the unix socket with this inode.
pub(super) fn peer_request(inode: u32, number: u32) -> Vec<u8> {
    const REQUEST: u16 = 1;
    const SHOW_PEER: u32 = 4;
    const NO_COOKIE: u32 = u32::MAX;
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend(number.to_ne_bytes());
    request.extend([0_u8; 4]);
    // struct unix_diag_req: family, protocol, padding, states, inode, what to show, cookie.
    request.extend([1, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(inode.to_ne_bytes());
    request.extend(SHOW_PEER.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    request.extend(NO_COOKIE.to_ne_bytes());
    request
}

/// The peer in an answer of sock_diag: a netlink header of 16 bytes, `struct unix_diag_msg` of 16, then attributes.
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
