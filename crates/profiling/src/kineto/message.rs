//! The messages between libkineto and the daemon that it asks for a configuration, in the machine's own byte order: a u64 length, a
//! kind in 32 bytes, and a body (dynolog's header ipcfabric/Utils.h, which Kineto includes).

/// Length and kind, bytes.
const MESSAGE_HEAD: usize = 40;
/// Kinds: a process names itself, and asks for a configuration.
const CONTEXT: &[u8] = b"ctxt";
const REQUEST: &[u8] = b"req";
/// The bit of a request's type that stands for the activity profiler (`LibkinetoConfigType::ACTIVITIES`). A process that is being
/// profiled asks without it.
const ACTIVITIES: i32 = 2;

/// What a process says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KinetoMessage {
    /// It names itself, and expects the number of those that did.
    Context,
    /// It asks for a configuration. `free` says whether it can take one now.
    Request {
        /// No profile is being taken.
        free: bool,
    },
}

impl KinetoMessage {
    /// Reads a datagram; `None` for anything else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let kind = bytes.get(8..MESSAGE_HEAD)?;
        let kind = kind.split(|byte| *byte == 0).next()?;
        let body = bytes.get(MESSAGE_HEAD..)?;
        match kind {
            CONTEXT => Some(Self::Context),
            REQUEST => {
                let kinds = i32::from_ne_bytes(body.get(..4)?.try_into().ok()?);
                Some(Self::Request { free: kinds & ACTIVITIES != 0 })
            }
            _ => None,
        }
    }
}

/// The answer to [`KinetoMessage::Context`].
pub fn registered() -> Vec<u8> {
    message(CONTEXT, &1_i32.to_ne_bytes())
}

/// The answer to [`KinetoMessage::Request`]: a configuration, or an empty text for none.
pub(crate) fn configured(configuration: &str) -> Vec<u8> {
    message(REQUEST, configuration.as_bytes())
}

fn message(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u64).to_ne_bytes().to_vec();
    bytes.extend_from_slice(kind);
    bytes.resize(MESSAGE_HEAD, 0);
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_read_and_an_answer_has_its_length() {
        // Two ancestors, in a job of SLURM.
        let body: Vec<u8> = [2_i32.to_ne_bytes(), 2_i32.to_ne_bytes()]
            .concat()
            .into_iter()
            .chain(77_i64.to_ne_bytes())
            .chain([1234_i32.to_ne_bytes(), 1_i32.to_ne_bytes()].concat())
            .collect();
        assert_eq!(KinetoMessage::parse(&message(REQUEST, &body)), Some(KinetoMessage::Request { free: true }));
        let busy: Vec<u8> = [0_i32.to_ne_bytes(), 2_i32.to_ne_bytes()].concat();
        assert_eq!(KinetoMessage::parse(&message(REQUEST, &busy)), Some(KinetoMessage::Request { free: false }));
        assert_eq!(KinetoMessage::parse(&registered()), Some(KinetoMessage::Context));
        let answer = configured("A=1\n");
        assert_eq!(
            (answer.len(), &answer[..8], &answer[MESSAGE_HEAD..]),
            (44, &4_u64.to_ne_bytes()[..], &b"A=1\n"[..])
        );
        assert!(answer[8..].starts_with(b"req\0"));
    }

    proptest! {
        #[test]
        fn any_datagram_is_a_message_or_none(bytes: Vec<u8>) {
            let _ = KinetoMessage::parse(&bytes);
        }

        #[test]
        fn a_kind_that_is_cut_off_is_none(length in 0_usize..MESSAGE_HEAD) {
            let whole = registered();
            prop_assert_eq!(KinetoMessage::parse(&whole[..length]), None);
        }
    }
}
