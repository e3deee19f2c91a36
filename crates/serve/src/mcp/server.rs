//! Answers an agent's client on standard input and output.
//!
//! One loop reads requests and answers what it knows at once. Calls of tools run beside it, a few at a time, each as a task or
//! on a thread of its own.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet, LocalSet};

use super::answer::{ToolAnswer, failed};
use super::jsonrpc::{self, INVALID_REQUEST, Incoming, LINE_MAX, RpcError, response};
use super::pipes::{self, Line, Messages};
use super::protocol::{self, Era, Feature};
use super::tools::{self, ToolCall, Watched};
use trainmon_attach::jobs::session::EndSignals;
use trainmon_base::errors::Failure;

/// Calls that run at a time.
const CALLS: usize = 4;

/// Does what the tools say.
pub trait Worker: 'static {
    /// Does what a call asks for. `slot` is held until the work ends.
    fn work(
        self: Arc<Self>,
        slot: Arc<()>,
        call: ToolCall,
        progress: CallProgress,
    ) -> impl Future<Output = anyhow::Result<ToolAnswer>>;
}

/// Serves until standard input ends, the client goes or a signal comes.
///
/// # Errors
/// No thread can be started, or no descriptor is left.
pub async fn serve(worker: Arc<impl Worker>) -> anyhow::Result<()> {
    LocalSet::new().run_until(answer_all(worker)).await
}

async fn answer_all(worker: Arc<impl Worker>) -> anyhow::Result<()> {
    let mut ending = EndSignals::listen()?;
    let messages = Messages::start()?;
    let mut lines = pipes::lines()?;
    let mut server = Server {
        worker,
        out: messages.queue.clone(),
        slots: Arc::new(()),
        running: JoinSet::new(),
        calls: HashMap::new(),
        session: None,
    };
    let mut is_open = true;
    while is_open || !server.running.is_empty() {
        // A line is only read when its answer has a place.
        let next = async {
            let place = messages.queue.reserve().await.ok()?;
            lines.recv().await.map(|line| (place, line))
        };
        tokio::select! {
            biased;
            () = ending.signalled() => return Ok(()),
            () = messages.queue.closed() => return Ok(()),
            _ = server.running.join_next(), if !server.running.is_empty() => server.forget_finished(),
            next = next, if is_open => match next {
                Some((place, line)) => {
                    if let Some(answer) = server.answer(line) {
                        place.send(answer);
                    }
                    // A call that was given up ends before the next line is read.
                    tokio::task::yield_now().await;
                }
                None => {
                    is_open = false;
                    server.end_watching();
                }
            },
        }
    }
    drop(server);
    tokio::select! {
        biased;
        () = ending.signalled() => {}
        () = messages.finish() => {}
    }
    Ok(())
}

/// A call that runs.
struct RunningCall {
    task: AbortHandle,
    /// It watches a process, for a client that still listens.
    is_watching: bool,
}

struct Server<W> {
    worker: Arc<W>,
    out: mpsc::Sender<Value>,
    /// Held by all that runs, also by the threads of calls that were given up.
    slots: Arc<()>,
    running: JoinSet<()>,
    /// By the IDs of their requests.
    calls: HashMap<String, RunningCall>,
    /// The version of the session that the client has opened with `initialize`.
    session: Option<&'static str>,
}

impl<W: Worker> Server<W> {
    fn forget_finished(&mut self) {
        self.calls.retain(|_, call| !call.task.is_finished());
    }

    /// Gives up what only a client that stays can wait for.
    fn end_watching(&mut self) {
        self.calls.values().filter(|call| call.is_watching).for_each(|call| call.task.abort());
    }

    /// The answer to a line, if it is known at once.
    fn answer(&mut self, line: Line) -> Option<Value> {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                let message = format!("a message is longer than {} MiB: skipped", LINE_MAX >> 20);
                return Some(RpcError::new(INVALID_REQUEST, message).response(&Value::Null));
            }
        };
        match jsonrpc::parse(&line) {
            Ok(Incoming::Request { id, method, params }) => match self.request(&id, &method, &params) {
                Ok(result) => result.map(|result| response(&id, result)),
                Err(error) => Some(error.response(&id)),
            },
            Ok(Incoming::Notification { method, params }) => {
                if method == "notifications/cancelled" {
                    self.cancel(&params);
                }
                None
            }
            Ok(Incoming::Response) => None,
            Err(refused) => Some(refused),
        }
    }

    /// Nothing may be sent for the request any more. A task that is aborted does not run again.
    fn cancel(&mut self, params: &Map<String, Value>) {
        let call = params.get("requestId").and_then(|id| self.calls.remove(&id.to_string()));
        call.into_iter().for_each(|call| call.task.abort());
    }

    /// The result of a request; none yet for a call that has been started.
    fn request(&mut self, id: &Value, method: &str, params: &Map<String, Value>) -> Result<Option<Value>, RpcError> {
        match method {
            "initialize" => {
                let (result, version) = protocol::initialize(params)?;
                self.session = Some(version);
                return Ok(Some(result));
            }
            // Before a session, too.
            "ping" => return Ok(Some(json!({}))),
            _ => {}
        }
        let known = ["server/discover", "tools/list", "tools/call"];
        if !known.contains(&method) {
            return Err(RpcError::no_method(method));
        }
        let era = Era::of_request(params, self.session)?;
        match method {
            "server/discover" => Ok(Some(protocol::discover(era))),
            "tools/list" => Ok(Some(era.cacheable(tools::list(era)))),
            _ => self.call(id, params, era),
        }
    }

    fn call(&mut self, id: &Value, params: &Map<String, Value>, era: Era) -> Result<Option<Value>, RpcError> {
        let call = ToolCall::from_params(params)?;
        let tool = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let refuse = |why: String| Ok(Some(era.complete(failed(&tool, &Failure::failed(why).into()))));
        let call = match call {
            Ok(call) => call,
            Err(why) => return refuse(why),
        };
        if self.calls.contains_key(&id.to_string()) {
            return Err(RpcError::new(INVALID_REQUEST, "a request with this `id` is still running"));
        }
        let is_quick = matches!(call, ToolCall::Explain(_));
        if !is_quick && Arc::strong_count(&self.slots) > CALLS {
            return refuse(format!("{CALLS} calls are running already: wait for one of them, or cancel it"));
        }
        let is_watching = matches!(call, ToolCall::Diagnose(Watched::Process(..)));
        let (worker, out, slot) = (Arc::clone(&self.worker), self.out.clone(), Arc::clone(&self.slots));
        let has_message = era.knows(Feature::Annotations);
        let progress = CallProgress { out: self.out.clone(), token: progress_token(params), has_message };
        let request = id.clone();
        let task = self.running.spawn_local(async move {
            let answer = worker.work(slot, call, progress).await;
            let result = answer.map_or_else(|error| failed(&tool, &error), |answer| answer.result(era));
            // A client that has gone ends the loop.
            let _ = out.send(response(&request, era.complete(result))).await;
        });
        self.calls.insert(id.to_string(), RunningCall { task, is_watching });
        Ok(None)
    }
}

/// A text or a whole number, where the client wants to know.
fn progress_token(params: &Map<String, Value>) -> Option<Value> {
    let token = params.get("_meta").and_then(|meta| meta.get("progressToken"))?;
    Some(token.clone()).filter(|token| token.is_string() || token.is_i64() || token.is_u64())
}

/// Tells the client how far a call is.
#[derive(Debug)]
pub struct CallProgress {
    out: mpsc::Sender<Value>,
    token: Option<Value>,
    /// The client knows messages of progress.
    has_message: bool,
}

impl CallProgress {
    /// Lost where the client does not keep up.
    pub fn tell(&self, passed: f64, total: f64, said: &str) {
        if let Some(token) = &self.token {
            let mut params = json!({ "progressToken": token, "progress": passed, "total": total });
            if let (true, Some(params)) = (self.has_message, params.as_object_mut()) {
                params.insert("message".to_owned(), said.into());
            }
            let _ =
                self.out.try_send(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One that is never called.
    struct NoWorker;

    impl Worker for NoWorker {
        async fn work(self: Arc<Self>, _: Arc<()>, _: ToolCall, _: CallProgress) -> anyhow::Result<ToolAnswer> {
            unreachable!("no call is one of a tool")
        }
    }

    fn server() -> (Server<NoWorker>, mpsc::Receiver<Value>) {
        let (out, messages) = mpsc::channel(16);
        let (worker, slots) = (Arc::new(NoWorker), Arc::new(()));
        let server = Server {
            worker,
            out,
            slots,
            running: JoinSet::new(),
            calls: HashMap::new(),
            session: Some("2025-11-25"),
        };
        (server, messages)
    }

    /// Any value of a few levels.
    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        let keys = prop_oneof![
            Just("name".to_owned()),
            Just("arguments".to_owned()),
            Just("cause".to_owned()),
            Just("_meta".to_owned()),
            Just("protocolVersion".to_owned()),
            Just("io.modelcontextprotocol/protocolVersion".to_owned()),
            "\\PC{0,8}",
        ];
        leaf.prop_recursive(4, 16, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(keys.clone(), inner, 0..4)
                    .prop_map(|items| Value::Object(items.into_iter().collect())),
            ]
        })
    }

    fn assert_is_answer(answer: &Value) {
        let object = answer.as_object().unwrap();
        assert_eq!(object["jsonrpc"], "2.0");
        assert!(
            object.contains_key("id") && object.contains_key("result") != object.contains_key("error"),
            "{answer}"
        );
        if let Some(error) = object.get("error") {
            assert!(
                error["code"].is_i64() && error["message"].as_str().is_some_and(|text| text.len() < 1000),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn anything_has_one_answer_or_none(
            method in prop_oneof![
                Just("initialize"), Just("ping"), Just("server/discover"), Just("tools/list"), Just("tools/call"), Just("x"),
                Just("notifications/cancelled"),
            ],
            id in json_value(), params in json_value(), cut in any::<prop::sample::Index>(), is_cut in any::<bool>(),
        ) {
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string().into_bytes();
            let length = if is_cut { cut.index(message.len()) } else { message.len() };
            let (mut server, _messages) = server();
            if let Some(answer) = server.answer(Line::Whole(message[..length].to_vec())) {
                assert_is_answer(&answer);
            }
            prop_assert!(server.calls.is_empty());
        }
    }
}
