//! A small server on a thread of its own, so that an answer never waits for the sampling of jobs, nor the other way round.
//!
//! Each connection gets little: one request, a few seconds for it, and headers of a limited size. So many are served at once; where
//! all places are taken, the oldest connection makes room for the next one, first of all one that has not asked yet.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::token::Token;

/// Most connections served at once; others wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 64;
/// A connection keeps its place for so long at least. A scraper asks at once, and is answered within milliseconds.
const ITS_PLACE: Duration = Duration::from_secs(1);
/// How long a connection may take in all: longer than Prometheus waits by default.
const CONNECTION: Duration = Duration::from_secs(10);
/// How long the headers may take.
const HEADERS: Duration = Duration::from_secs(3);
/// Largest headers, bytes: hyper answers larger ones with 431 on its own.
const HEADER_BYTES: usize = 16 << 10;
/// Most headers.
const MOST_HEADERS: usize = 64;
/// After a failure to accept, such as too few descriptors.
const PAUSE: Duration = Duration::from_millis(200);
/// Certificates are read again after so long: they are renewed while trainmon runs.
const CERTIFICATES: Duration = Duration::from_secs(3600);

/// A page: its text and its content type.
pub type ServedPage = (Bytes, &'static str);

/// What is served.
pub trait Site: Send + Sync + 'static {
    /// The page at a path, if there is one. `accept` is the request's `Accept` header.
    fn page(&self, path: &str, accept: &str) -> Option<ServedPage>;
}

/// How to make the side of a TLS server, now or later.
pub type LoadTls = Box<dyn Fn() -> anyhow::Result<Arc<ServerConfig>> + Send>;

/// What a request needs.
pub struct Admission {
    /// A request without it is refused.
    pub token: Option<Token>,
    /// Without it there is no TLS.
    pub tls: Option<LoadTls>,
}

/// Listens at an address.
///
/// # Errors
/// The system's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves the pages until the program ends.
///
/// # Errors
/// TLS cannot be set up, or no thread can be started.
pub fn start(listener: TcpListener, admission: Admission, pages: Arc<dyn Site>) -> anyhow::Result<()> {
    let tls = admission.tls.map(Tls::new).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let token = admission.token;
    // A page that looks like one of the machine's own must not be fetched by a browser for another site.
    let only_local = listener.local_addr()?.ip().is_loopback();
    let rules = Arc::new(Rules { token, only_local, pages });
    thread::Builder::new().name("tm-http".to_owned()).spawn(move || {
        let serve = async {
            // Within the runtime, as it registers there.
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => accept(listener, tls, rules).await,
                Err(error) => trainmon_base::errors::note(&format!("cannot serve metrics: {error}")),
            }
        };
        tokio::task::LocalSet::new().block_on(&runtime, serve);
    })?;
    Ok(())
}

/// The certificates, and when they were read.
struct Tls {
    load: LoadTls,
    acceptor: TlsAcceptor,
    loaded: Instant,
}

impl Tls {
    fn new(load: LoadTls) -> anyhow::Result<Self> {
        let acceptor = load()?.into();
        Ok(Self { load, acceptor, loaded: Instant::now() })
    }

    /// With what to begin the next connection. Certificates that cannot be read any more stay as they were.
    fn acceptor(&mut self) -> TlsAcceptor {
        if self.loaded.elapsed() >= CERTIFICATES {
            self.loaded = Instant::now();
            match (self.load)() {
                Ok(config) => self.acceptor = config.into(),
                Err(error) => trainmon_base::errors::note(&format!("the certificates stay as they were: {error:#}")),
            }
        }
        self.acceptor.clone()
    }
}

/// What decides what a request gets.
struct Rules {
    token: Option<Token>,
    only_local: bool,
    pages: Arc<dyn Site>,
}

async fn accept(listener: tokio::net::TcpListener, mut tls: Option<Tls>, rules: Arc<Rules>) {
    let mut places = OpenConnections::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        places.make_room().await;
        let (acceptor, rules, has_asked) = (tls.as_mut().map(Tls::acceptor), Arc::clone(&rules), Rc::default());
        let asks = Rc::clone(&has_asked);
        let task = places.running.spawn_local(async move {
            // What ends late or badly is the client's loss.
            let _ = tokio::time::timeout(CONNECTION, connection(stream, acceptor, rules, asks)).await;
        });
        places.taken.push(OpenConnection { since: Instant::now(), has_asked, task });
    }
}

/// The connections that are served.
#[derive(Default)]
struct OpenConnections {
    taken: Vec<OpenConnection>,
    running: JoinSet<()>,
}

/// One of them.
struct OpenConnection {
    since: Instant,
    /// Its request is complete.
    has_asked: Rc<Cell<bool>>,
    task: AbortHandle,
}

impl OpenConnections {
    /// Waits until a place is free. The oldest connection that has not asked ends for it, or the oldest of all, once it has had
    /// its time.
    async fn make_room(&mut self) {
        loop {
            while self.running.try_join_next().is_some() {}
            self.taken.retain(|place| !place.task.is_finished());
            if self.taken.len() < MOST_CONNECTIONS {
                return;
            }
            let Some(oldest) = self.taken.iter().min_by_key(|place| (place.has_asked.get(), place.since)) else {
                return;
            };
            tokio::select! {
                _ = self.running.join_next() => {}
                () = tokio::time::sleep(ITS_PLACE.saturating_sub(oldest.since.elapsed())) => oldest.task.abort(),
            }
        }
    }
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, rules: Arc<Rules>, has_asked: Rc<Cell<bool>>) {
    match acceptor {
        None => answer_one(stream, rules, has_asked).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(HEADERS, acceptor.accept(stream)).await {
                answer_one(stream, rules, has_asked).await;
            }
        }
    }
}

/// Answers one request over any stream, as [`start`] does over each connection to an address of this machine alone.
pub async fn serve_one(stream: impl AsyncRead + AsyncWrite + Unpin, token: Option<Token>, pages: Arc<dyn Site>) {
    answer_one(stream, Arc::new(Rules { token, only_local: true, pages }), Rc::default()).await;
}

async fn answer_one(stream: impl AsyncRead + AsyncWrite + Unpin, rules: Arc<Rules>, has_asked: Rc<Cell<bool>>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        has_asked.set(true);
        let response = rules.answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADER_BYTES);
    server.max_headers(MOST_HEADERS).keep_alive(false);
    // An error is of this connection alone: it was cut, or spoke no HTTP.
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}

impl Rules {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
        let text = |name| header(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
        if let Some(token) = &self.token
            && !header(AUTHORIZATION).is_some_and(|given| token.is_in(given))
        {
            let mut refused =
                plain(StatusCode::UNAUTHORIZED, "a bearer token is needed: Authorization: Bearer TOKEN\n");
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        }
        if self.only_local && self.token.is_none() && !is_local(text(HOST)) {
            return plain(StatusCode::FORBIDDEN, "this address is for 127.0.0.1 and localhost alone\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let Some((body, kind)) = self.pages.page(request.uri().path(), text(ACCEPT)) else {
            return plain(StatusCode::NOT_FOUND, "not found: the metrics are at /metrics\n");
        };
        let mut response = Response::new(Full::new(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

/// Whether a `Host` header names this machine itself, so that no name of the web led here (DNS rebinding).
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok()
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// One page, at `/metrics`.
    struct OnePage;

    impl Site for OnePage {
        fn page(&self, path: &str, accept: &str) -> Option<ServedPage> {
            (path == "/metrics").then(|| (Bytes::from(format!("for {accept}\n")), "text/plain"))
        }
    }

    fn served(token: Option<&str>) -> SocketAddr {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let token = token.map(|token| Token::new(token).unwrap());
        start(listener, Admission { token, tls: None }, Arc::new(OnePage)).unwrap();
        address
    }

    /// The answer to these bytes.
    fn asked(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The server may have answered and closed before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn status(answer: &str) -> &str {
        answer.split(' ').nth(1).unwrap_or_default()
    }

    #[test]
    fn a_page_and_nothing_else() {
        let address = served(None);
        let get = |path: &str, host: &str| {
            asked(address, format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: x\r\n\r\n").as_bytes())
        };
        let page = get("/metrics", "127.0.0.1:9845");
        assert!(status(&page) == "200" && page.ends_with("for x\n") && page.contains("connection: close"), "{page}");
        assert_eq!(status(&get("/metrics", "localhost")), "200");
        assert_eq!(status(&get("/metrics", "[::1]:80")), "200");
        assert_eq!(status(&get("/metrics", "evil.example:9845")), "403");
        assert_eq!(status(&get("/", "localhost")), "404");
        assert_eq!(
            status(&asked(address, b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")),
            "405"
        );
        let head = asked(address, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(status(&head) == "200" && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn only_who_has_the_token_gets_the_page() {
        let address = served(Some("0123456789abcdef"));
        let get = |header: &str| {
            asked(address, format!("GET /metrics HTTP/1.1\r\nHost: far.example\r\n{header}\r\n").as_bytes())
        };
        assert_eq!(status(&get("Authorization: Bearer 0123456789abcdef\r\n")), "200");
        for wrong in ["", "Authorization: Bearer 0123456789abcdee\r\n", "Authorization: Basic 0123456789abcdef\r\n"] {
            let refused = get(wrong);
            assert!(status(&refused) == "401" && refused.contains("www-authenticate: Bearer"), "{refused}");
        }
    }

    #[test]
    fn bad_requests_end_soon_and_the_next_one_is_answered() {
        let address = served(None);
        let huge = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
        assert_eq!(status(&asked(address, huge.as_bytes())).get(..1).unwrap_or("4"), "4");
        let many = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(5_000));
        assert_eq!(status(&asked(address, many.as_bytes())).get(..1).unwrap_or("4"), "4");
        assert_eq!(status(&asked(address, b"\x16\x03\x01\x00\xff garbage\r\n\r\n")), "400");
        // More clients that say nothing than are served at once.
        let silent: Vec<_> =
            (0..MOST_CONNECTIONS + 8).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let begun = Instant::now();
        assert_eq!(status(&asked(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")), "200");
        assert!(begun.elapsed() < ITS_PLACE * 2, "{:?}", begun.elapsed());
        drop(silent);
    }
}
