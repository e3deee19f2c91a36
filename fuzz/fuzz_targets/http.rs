//! What comes over a connection to `trainmon export`.
#![no_main]

use std::sync::{Arc, LazyLock};

use tokio::io::{join, sink};
use tokio::runtime::{Builder, Runtime};
use trainmon_serve::http::server::{ServedPage, Site, serve_one};
use trainmon_serve::http::token::Token;

struct OnePage;

impl Site for OnePage {
    fn page(&self, path: &str, accept: &str) -> Option<ServedPage> {
        (path == "/metrics" && accept.len() < 1 << 20).then(|| ("page".into(), "text/plain"))
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_time().build().unwrap());

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    RUNTIME.block_on(async {
        for token in [None, Token::new("0123456789abcdef").ok()] {
            serve_one(join(bytes, sink()), token, Arc::new(OnePage)).await;
        }
    });
});
