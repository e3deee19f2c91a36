//! A fake Prometheus, and what it answers of a run of many ranks.

#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing, reason = "each test uses a part of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

/// What the fake server does with a query.
pub enum Reply {
    /// Answers with these bytes, and closes.
    Bytes(Vec<u8>),
    /// Waits for longer than it is waited for.
    Slow,
    /// Sends a body without an end.
    Endless,
}

/// How a server answers queries.
pub type Server = fn(&str) -> Reply;

pub fn http(status: &str, kind: &str, body: &str) -> Reply {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    Reply::Bytes((head + body).into_bytes())
}

pub fn answered(body: &Value) -> Reply {
    http("200 OK", "application/json", &body.to_string())
}

pub fn vector(series: &[Value]) -> Value {
    json!({ "status": "success", "data": { "resultType": "vector", "result": series } })
}

pub fn series(labels: Value, value: f64) -> Value {
    json!({ "metric": labels, "value": [1_700_000_000.5, value.to_string()] })
}

/// The query in a request's form.
fn query_of(stream: &mut TcpStream) -> Option<String> {
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_lowercase();
            let length: usize = lower.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
            if body.len() >= length {
                let escaped = body.strip_prefix("query=")?.split('&').next()?;
                let mut parts = escaped.split('%');
                let mut query = parts.next()?.to_owned();
                for part in parts {
                    query.push(char::from(u8::from_str_radix(part.get(..2)?, 16).ok()?));
                    query.push_str(&part[2..]);
                }
                return Some(query);
            }
        }
        let length = stream.read(&mut piece).ok().filter(|length| *length > 0)?;
        request.extend_from_slice(&piece[..length]);
    }
}

/// The URL of a fake Prometheus.
pub fn fake(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let reply = Arc::new(reply);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, reply) = (stream.unwrap(), Arc::clone(&reply));
            std::thread::spawn(move || {
                let Some(query) = query_of(&mut stream) else { return };
                match reply(&query) {
                    Reply::Bytes(bytes) => _ = stream.write_all(&bytes),
                    Reply::Slow => std::thread::sleep(Duration::from_secs(30)),
                    Reply::Endless => {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"");
                        while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
                    }
                }
            });
        }
    });
    url
}

/// A run of so many ranks on as many machines; the last one is late.
pub fn run_of(ranks: usize) -> impl Fn(&str) -> Reply {
    move |query| {
        let each = |value: &dyn Fn(usize) -> (Value, f64)| {
            let one = |at| {
                let (mut labels, value) = value(at);
                for (name, text) in
                    [("job", "t".to_owned()), ("instance", format!("node-{at}:9845")), ("pid", "7".to_owned())]
                {
                    labels[name] = text.into();
                }
                labels["training_job"] = "llama".into();
                series(labels, value)
            };
            answered(&vector(&(0..ranks).map(one).collect::<Vec<_>>()))
        };
        let last = ranks - 1;
        let rank = |at: usize| json!({ "rank": at.to_string() });
        let gpu = |at: usize| json!({ "gpu": "0", "UUID": format!("GPU-{at}"), "rank": at.to_string() });
        match query {
            _ if query.contains("rank_blocked") => each(&|at| (rank(at), if at == last { 0.1 } else { 0.7 })),
            _ if query.contains("world_size") => each(&|at| (rank(at), ranks as f64)),
            _ if query.contains("rank_gpu_info") => each(&|at| (gpu(at), 1.0)),
            _ if query.contains("verdict_confidence") => each(&|_| (json!({}), 0.9)),
            _ if query.contains("verdict_info") => each(&|at| {
                let (class, cause) = if at == last { ("io", "network-storage") } else { ("gpu", "communication") };
                (json!({ "class": class, "cause": cause }), 20.0)
            }),
            _ if query.starts_with("avg_over_time(trainmon_gpu_utilization") => each(&|at| (gpu(at), 0.5)),
            _ => answered(&vector(&[])),
        }
    }
}
