//! JSON-RPC 2.0 as the Model Context Protocol uses it: one message a line, no batches.

use serde_json::{Map, Value, json};

use trainmon_base::errors::shorten;
use trainmon_base::text::sanitize;

/// A longer line is not read as a message, bytes.
pub const LINE_MAX: usize = 1 << 20;
/// So many characters of what a client sent are repeated to it.
const ECHO_MAX: usize = 100;

/// The line is no JSON.
pub(crate) const PARSE_ERROR: i32 = -32700;
/// It is no message.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// There is no such method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// The method takes no such parameters.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// The protocol's version is not known (MCP 2026-07-28).
pub(crate) const UNSUPPORTED_VERSION: i32 = -32022;

/// An error, for a response.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// One of the codes above.
    pub code: i32,
    /// One line.
    pub message: String,
    /// What a client can act on.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// There is no such method.
    pub(crate) fn no_method(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("no method is called `{}`", echo(method)))
    }

    /// The response with this error. The ID is null where none could be read.
    pub fn response(self, id: &Value) -> Value {
        let Self { code, message, data } = self;
        let mut error = json!({ "code": code, "message": message });
        if let (Some(data), Some(error)) = (data, error.as_object_mut()) {
            error.insert("data".to_owned(), data);
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

/// What a client sent, short and safe to repeat.
pub fn echo(text: &str) -> String {
    shorten(&sanitize(text), ECHO_MAX)
}

/// The response with this result.
pub fn response(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A message from the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// It is to be answered.
    Request {
        /// A text or a whole number.
        id: Value,
        /// What to do.
        method: String,
        /// With what.
        params: Map<String, Value>,
    },
    /// It is not.
    Notification {
        /// What happened.
        method: String,
        /// And to what.
        params: Map<String, Value>,
    },
    /// The answer to a request that trainmon has never sent.
    Response,
}

/// Reads a line.
///
/// # Errors
/// The response to what is no message.
pub fn parse(line: &[u8]) -> Result<Incoming, Value> {
    let refuse = |code, message: &str, id: &Value| Err(RpcError::new(code, message).response(id));
    let value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return refuse(PARSE_ERROR, &format!("not JSON: {error}"), &Value::Null),
    };
    let mut message = match value {
        Value::Object(message) => message,
        Value::Array(_) => {
            return refuse(INVALID_REQUEST, "batches are not supported: send one message a line", &Value::Null);
        }
        _ => return refuse(INVALID_REQUEST, "not a message: send an object", &Value::Null),
    };
    let id = message.remove("id");
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64();
    // What cannot be an ID is not repeated.
    let known = id.as_ref().filter(|id| is_id(id)).cloned().unwrap_or_default();
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse(INVALID_REQUEST, "not a message: `jsonrpc` must be \"2.0\"", &known);
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => return Ok(Incoming::Response),
        _ => return refuse(INVALID_REQUEST, "not a request: `method` must be a text", &known),
    };
    if id.is_some() && known.is_null() {
        return refuse(INVALID_REQUEST, "not a request: `id` must be a text or a whole number", &known);
    }
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        // A notification is never answered.
        Some(_) if known.is_null() => return Ok(Incoming::Response),
        Some(_) => return refuse(INVALID_PARAMS, "`params` must be an object", &known),
    };
    Ok(if known.is_null() {
        Incoming::Notification { method, params }
    } else {
        Incoming::Request { id: known, method, params }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(line: &str) -> i64 {
        parse(line.as_bytes()).unwrap_err()["error"]["code"].as_i64().unwrap()
    }

    #[test]
    fn requests_and_notifications_are_told_apart() {
        let request = parse(br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).unwrap();
        assert_eq!(request, Incoming::Request { id: json!("a"), method: "ping".into(), params: Map::new() });
        let notification = parse(br#"{"jsonrpc":"2.0","method":"x","params":{"y":1}}"#).unwrap();
        assert!(
            matches!(notification, Incoming::Notification { method, params } if method == "x" && params.len() == 1)
        );
        assert_eq!(parse(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Incoming::Response));
    }

    #[test]
    fn what_is_no_message_has_the_error_of_its_kind() {
        for (line, wanted) in [
            ("{", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, INVALID_REQUEST),
            ("7", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, INVALID_PARAMS),
            (&"[".repeat(100_000), PARSE_ERROR),
        ] {
            assert_eq!(code(line), i64::from(wanted), "{}", &line[..line.len().min(80)]);
        }
        let refused = parse(br#"{"jsonrpc":"2.0","id":5,"method":7}"#).unwrap_err();
        assert_eq!(refused["id"], 5);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_have_one_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(refused) = parse(&bytes) {
                prop_assert_eq!(&refused["jsonrpc"], "2.0");
                prop_assert!(refused["error"]["code"].is_i64() && refused["error"]["message"].is_string());
                prop_assert!(!refused.to_string().contains('\n'));
            }
        }
    }
}
