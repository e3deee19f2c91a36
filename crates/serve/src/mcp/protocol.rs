//! The versions of the protocol, and what trainmon says of itself. Up to 2025-11-25 a client opens a session with
//! `initialize`; since 2026-07-28 each request names its version, and there is no session. trainmon speaks both.

use serde_json::{Map, Value, json};

use super::jsonrpc::{INVALID_PARAMS, RpcError, UNSUPPORTED_VERSION, echo};
use super::untrusted::NOTE;

/// The version without sessions.
const STATELESS: &str = "2026-07-28";
/// Those with a session, newest first.
const WITH_SESSION: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Where a request names its version, and the capabilities of its client.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// What trainmon says of itself changes only with its version, milliseconds.
const FRESH_MS: u32 = 3_600_000;

/// How a request is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Within a session that `initialize` has opened, of this version.
    Session(&'static str),
    /// For itself.
    Stateless,
}

/// What not every version knows. Older clients do not get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// What a tool does to the machine, and the message of a progress.
    Annotations,
    /// Results as JSON, their schemas, and titles.
    StructuredContent,
}

impl Era {
    /// The era of a request. `opened` is the version of an open session.
    ///
    /// # Errors
    /// The request says neither, or names a version that is not known.
    pub(crate) fn of_request(params: &Map<String, Value>, opened: Option<&'static str>) -> Result<Self, RpcError> {
        let meta = |key: &str| params.get("_meta").and_then(|meta| meta.get(key));
        match (meta(VERSION_KEY), opened) {
            (None, Some(version)) => Ok(Self::Session(version)),
            (None, None) => Err(RpcError::new(
                INVALID_PARAMS,
                format!(
                    "send `initialize` first, or the protocol's version with each request, as `_meta.{VERSION_KEY}`"
                ),
            )),
            (Some(Value::String(version)), _) if version != STATELESS => Err(RpcError {
                data: Some(json!({ "supported": versions(), "requested": echo(version) })),
                ..RpcError::new(UNSUPPORTED_VERSION, "unsupported protocol version")
            }),
            (Some(Value::String(_)), _) if meta(CAPABILITIES_KEY).is_some_and(Value::is_object) => {
                Ok(Self::Stateless)
            }
            (Some(_), _) => {
                let message = format!("`_meta` needs a text as {VERSION_KEY} and an object as {CAPABILITIES_KEY}");
                Err(RpcError::new(INVALID_PARAMS, message))
            }
        }
    }

    /// Whether its version has this. Versions are dates.
    pub fn knows(self, feature: Feature) -> bool {
        let since = match feature {
            Feature::Annotations => "2025-03-26",
            Feature::StructuredContent => "2025-06-18",
        };
        match self {
            Self::Session(version) => version >= since,
            Self::Stateless => true,
        }
    }

    /// The result with what each result of this era has.
    pub fn complete(self, mut result: Value) -> Value {
        if let (Self::Stateless, Some(result)) = (self, result.as_object_mut()) {
            result.insert("resultType".to_owned(), json!("complete"));
            result.insert("_meta".to_owned(), json!({ "io.modelcontextprotocol/serverInfo": server(self) }));
        }
        result
    }

    /// The same for what a client may keep.
    pub(crate) fn cacheable(self, mut result: Value) -> Value {
        if let (Self::Stateless, Some(result)) = (self, result.as_object_mut()) {
            result.insert("ttlMs".to_owned(), json!(FRESH_MS));
            result.insert("cacheScope".to_owned(), json!("public"));
        }
        self.complete(result)
    }
}

fn versions() -> Vec<&'static str> {
    [STATELESS].into_iter().chain(WITH_SESSION).collect()
}

fn server(era: Era) -> Value {
    let mut server = json!({ "name": "trainmon", "title": "trainmon", "version": env!("CARGO_PKG_VERSION") });
    if let (false, Some(server)) = (era.knows(Feature::StructuredContent), server.as_object_mut()) {
        server.remove("title");
    }
    server
}

/// What an agent should know before its first call.
fn instructions() -> String {
    format!(
        "trainmon watches a running training job from outside and says what holds it back. `list` finds the jobs, `diagnose` \
         watches one and gives a verdict with evidence and advice, `explain` says what a cause means. All tools only read: they \
         never signal or change a process. {NOTE}"
    )
}

/// The answer to `initialize`, and the version of the session.
///
/// # Errors
/// It names no version.
pub fn initialize(params: &Map<String, Value>) -> Result<(Value, &'static str), RpcError> {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let asked = asked.ok_or_else(|| RpcError::new(INVALID_PARAMS, "`protocolVersion` must be a text"))?;
    let newest = WITH_SESSION.first().copied().unwrap_or_default();
    let version = WITH_SESSION.iter().find(|known| **known == asked).copied().unwrap_or(newest);
    let answer = json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": server(Era::Session(version)),
        "instructions": instructions(),
    });
    Ok((answer, version))
}

/// The answer to `server/discover`.
pub fn discover(era: Era) -> Value {
    era.cacheable(json!({
        "supportedVersions": versions(),
        "capabilities": { "tools": {} },
        "instructions": instructions(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_know_what_was_added_before_them() {
        use Feature::{Annotations, StructuredContent};
        for (version, annotations, structured) in [
            ("2024-11-05", false, false),
            ("2025-03-26", true, false),
            ("2025-06-18", true, true),
            ("2025-11-25", true, true),
        ] {
            assert!(WITH_SESSION.contains(&version));
            let era = Era::Session(version);
            assert_eq!(
                (era.knows(Annotations), era.knows(StructuredContent)),
                (annotations, structured),
                "{version}"
            );
        }
        assert!(Era::Stateless.knows(Annotations) && Era::Stateless.knows(StructuredContent));
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_version_is_agreed_on() {
        let agreed = |asked: &str| {
            let (answer, version) = initialize(&object(json!({ "protocolVersion": asked }))).unwrap();
            assert_eq!(answer["protocolVersion"], version);
            assert_eq!(answer["serverInfo"].get("title").is_some(), version >= "2025-06-18");
            version.to_owned()
        };
        assert_eq!(agreed("2024-11-05"), "2024-11-05");
        // It has no session to open.
        assert_eq!((agreed("1999-01-01"), agreed(STATELESS)), ("2025-11-25".into(), "2025-11-25".into()));
        assert_eq!(initialize(&Map::new()).unwrap_err().code, INVALID_PARAMS);
    }

    #[test]
    fn a_request_says_how_it_is_to_be_answered() {
        let with = |meta: Value| object(json!({ "_meta": meta }));
        let era = |meta: Value| Era::of_request(&with(meta), None).map_err(|error| error.code);
        assert_eq!(era(json!({ VERSION_KEY: STATELESS, CAPABILITIES_KEY: {} })), Ok(Era::Stateless));
        assert_eq!(era(json!({ VERSION_KEY: STATELESS })), Err(INVALID_PARAMS));
        assert_eq!(era(json!({ VERSION_KEY: 7, CAPABILITIES_KEY: {} })), Err(INVALID_PARAMS));
        assert_eq!(era(json!({ VERSION_KEY: "2027-01-01", CAPABILITIES_KEY: {} })), Err(UNSUPPORTED_VERSION));
        assert_eq!(era(json!({})), Err(INVALID_PARAMS));
        let version = WITH_SESSION[1];
        assert_eq!(Era::of_request(&Map::new(), Some(version)), Ok(Era::Session(version)));
        let result = Era::Stateless.cacheable(json!({}));
        assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("public")));
        assert_eq!(Era::Session(version).cacheable(json!({})), json!({}));
    }
}
