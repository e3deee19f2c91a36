//! What a tool answers: text and JSON, with marks around all text from other programs.

use std::sync::Arc;
use std::thread;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::protocol::{Era, Feature};
use super::untrusted::{NOTE, REASON_MAX, quote};
use trainmon_base::errors::{self, Failure};

/// What a tool gives.
#[derive(Debug)]
pub struct ToolAnswer {
    /// For a person.
    pub text: String,
    /// The same as an object.
    pub json: Value,
}

impl ToolAnswer {
    /// One with marks in it, which it explains.
    pub fn noted(text: &str, mut json: Value) -> Self {
        if let Some(json) = json.as_object_mut() {
            json.insert("untrusted".to_owned(), NOTE.into());
        }
        Self { text: format!("{NOTE}\n\n{text}"), json }
    }

    /// The result of `tools/call`.
    pub fn result(self, era: Era) -> Value {
        let mut result = json!({ "content": [{ "type": "text", "text": self.text }], "isError": false });
        if let (true, Some(result)) = (era.knows(Feature::StructuredContent), result.as_object_mut()) {
            result.insert("structuredContent".to_owned(), self.json);
        }
        result
    }
}

/// The result of a tool that has failed, in one line. What only trainmon's own words are in is not marked.
pub fn failed(tool: &str, error: &anyhow::Error) -> Value {
    let sentence = errors::sentence(error);
    let is_own = error.chain().any(|cause| cause.is::<Failure>());
    let why = if is_own { errors::printable(&sentence) } else { quote(&sentence, REASON_MAX) };
    let mut content = vec![json!({ "type": "text", "text": format!("{tool}: {why}") })];
    if !is_own {
        content.push(json!({ "type": "text", "text": NOTE }));
    }
    json!({ "content": content, "isError": true })
}

/// Does something that may take long on a thread of its own: none of tokio's, which panics where no thread can be started. Where
/// the answer is not awaited any more, the work is told so. `slot` is held until it ends.
pub async fn on_thread(
    slot: Arc<()>,
    work: impl FnOnce(&dyn Fn() -> bool) -> anyhow::Result<ToolAnswer> + Send + 'static,
) -> anyhow::Result<ToolAnswer> {
    let (send, answer) = oneshot::channel();
    let run = move || {
        let made = work(&|| !send.is_closed());
        drop(slot);
        let _ = send.send(made);
    };
    thread::Builder::new().name("tm-mcp-call".to_owned()).spawn(run).context("cannot start a thread")?;
    answer.await.unwrap_or_else(|_| Err(Failure::failed("the tool has stopped; trainmon's log says why").into()))
}
