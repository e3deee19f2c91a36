//! A client for the HTTP API of one server: POST requests with a form, one after the other on a connection. It follows no redirects,
//! and neither the time that it waits nor what it keeps of an answer grows beyond a bound.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::token::Token;

/// Largest answer, bytes: a series has about 250, so these are a hundred thousand.
const MOST_BYTES: usize = 32 << 20;
/// How long one request may take, the connection included.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What is wrong with an address, in words.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// It is no URL of a server.
    #[error("not a URL of a server: write http://HOST:9090")]
    Malformed,
    /// It holds a password.
    #[error("a password in a URL is seen by every user of this machine: use --token-file")]
    Password,
    /// It goes on after the path.
    #[error("the URL ends with its path: remove what comes after ?")]
    Query,
    /// The token would be readable on the way.
    #[error("the token would cross the network without TLS: use https://, or --insecure if the network is trusted")]
    TokenInClear,
}

/// Why there is no answer, in words.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The name is not known, or there is no connection.
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    /// It is not the server that it should be, or speaks no TLS 1.3.
    #[error("no TLS connection: {0}; --ca-file names the authority that it should have")]
    Tls(std::io::Error),
    /// It took too long.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    TooSlow,
    /// The connection was cut, or what came is no HTTP.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// It is too long.
    #[error("the answer is longer than 32 MiB")]
    TooLong,
    /// It is elsewhere.
    #[error("it redirects to {0}: give that URL")]
    Redirected(String),
    /// It wants a token.
    #[error("it wants a token ({0}): use --token-file")]
    Unauthorized(StatusCode),
}

/// An answer.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: StatusCode,
    /// What is in it.
    pub body: Bytes,
}

/// How to reach a server.
#[derive(Clone)]
pub struct Client {
    host: String,
    port: u16,
    /// As in a request's `Host`.
    authority: String,
    /// What comes before each path, without a slash at its end.
    prefix: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    token: Option<Token>,
}

impl Client {
    /// A client for the server at a URL, whose path comes before that of each request. `tls` makes the side of a TLS client, if it
    /// is needed. `insecure` lets the token go to other machines without TLS.
    ///
    /// # Errors
    /// [`UrlError`], and those of `tls`.
    pub fn new(
        url: &str,
        token: Option<Token>,
        insecure: bool,
        tls: impl FnOnce() -> anyhow::Result<Arc<ClientConfig>>,
    ) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().map_err(|_| UrlError::Malformed)?;
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::Password.into());
        }
        if uri.query().is_some() {
            return Err(UrlError::Query.into());
        }
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(UrlError::Malformed.into()),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(UrlError::Malformed.into());
        }
        if token.is_some() && !secure && !insecure && !is_here(&host) {
            return Err(UrlError::TokenInClear.into());
        }
        let name = ServerName::try_from(host.clone()).map_err(|_| UrlError::Malformed)?;
        let tls = if secure { Some((TlsConnector::from(tls()?), name)) } else { None };
        Ok(Self {
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            host,
            tls,
            token,
        })
    }

    /// A connection.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn connect(&self) -> Result<Connection, AskError> {
        in_time(async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(AskError::Connect)?;
            match &self.tls {
                None => self.over(stream).await,
                Some((connector, name)) => {
                    let stream = connector.connect(name.clone(), stream).await.map_err(AskError::Tls)?;
                    self.over(stream).await
                }
            }
        })
        .await
    }

    async fn over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Connection, AskError> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // It ends with the sender; its errors come out of the requests.
        tokio::spawn(connection);
        Ok(Connection { client: self.clone(), sender })
    }
}

/// Whether a host is this machine.
fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn in_time<T>(work: impl Future<Output = Result<T, AskError>>) -> Result<T, AskError> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(AskError::TooSlow))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: hyper::Error) -> AskError {
    let reason = std::error::Error::source(&error).map(|source| format!(" ({source})")).unwrap_or_default();
    AskError::Broken(format!("{error}{reason}"))
}

/// A connection to the server.
pub struct Connection {
    client: Client,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Posts a form, and gives the answer unless it is a redirect or a refusal.
    ///
    /// # Errors
    /// [`AskError`].
    pub(crate) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Result<HttpAnswer, AskError> {
        let Client { prefix, authority, token, .. } = &self.client;
        let mut request = Request::post(format!("{prefix}{path}"))
            .header(HOST, authority)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("trainmon/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token.header());
        }
        let request = request.body(Full::from(encoded(form))).map_err(|error| AskError::Broken(error.to_string()))?;
        in_time(async {
            let response = match self.sender.send_request(request.clone()).await {
                // The server has closed the connection after the answer before, and this request has not reached it.
                Err(error) if error.is_canceled() => {
                    self.sender = self.client.connect().await?.sender;
                    self.sender.send_request(request).await
                }
                response => response,
            };
            let (head, body) = response.map_err(broken)?.into_parts();
            if head.status.is_redirection() {
                let to = head.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("another address");
                return Err(AskError::Redirected(to.chars().take(200).collect()));
            }
            if matches!(head.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Err(AskError::Unauthorized(head.status));
            }
            let body = Limited::new(body, MOST_BYTES).collect().await.map_err(|error| {
                match error.downcast::<hyper::Error>() {
                    Ok(error) => broken(*error),
                    Err(error) if error.is::<LengthLimitError>() => AskError::TooLong,
                    Err(error) => AskError::Broken(error.to_string()),
                }
            })?;
            Ok(HttpAnswer { status: head.status, body: body.to_bytes() })
        })
        .await
    }
}

/// A form as `application/x-www-form-urlencoded`.
fn encoded(form: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut escaped = |part: &str| {
        for byte in part.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
        std::mem::take(&mut text)
    };
    let pairs: Vec<String> =
        form.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tls;

    fn client(url: &str, with_token: bool, insecure: bool) -> anyhow::Result<Client> {
        let token = with_token.then(|| Token::new("0123456789abcdef").unwrap());
        Client::new(url, token, insecure, || tls::client("").map_err(anyhow::Error::from))
    }

    #[test]
    fn urls_of_servers() {
        for (url, host, port, prefix) in [
            ("http://prom:9090", "prom", 9090, ""),
            ("http://10.0.0.1/", "10.0.0.1", 80, ""),
            ("http://[::1]:9090/prometheus/", "::1", 9090, "/prometheus"),
        ] {
            let client = client(url, false, false).unwrap();
            assert_eq!((client.host.as_str(), client.port, client.prefix.as_str()), (host, port, prefix), "{url}");
        }
        for (url, why) in [
            ("prom:9090", "not a URL"),
            ("/api", "not a URL"),
            ("", "not a URL"),
            ("ftp://prom", "not a URL"),
            ("http://", "not a URL"),
            ("http://user:secret@prom", "password"),
            ("http://prom/?a=b", "after ?"),
            ("https://prom", "no certificate"),
        ] {
            let why_not = client(url, false, false).err().unwrap().to_string();
            assert!(why_not.contains(why) && !why_not.contains("secret"), "{url}: {why_not}");
        }
    }

    #[test]
    fn a_token_never_leaves_the_machine_in_clear() {
        for here in ["http://127.0.0.1:9090", "http://localhost:9090", "http://[::1]:9090"] {
            assert!(client(here, true, false).is_ok(), "{here}");
        }
        for far in ["http://prom:9090", "http://10.0.0.1", "http://localhost.evil.example"] {
            assert!(client(far, true, false).is_err(), "{far}");
            assert!(client(far, true, true).is_ok() && client(far, false, false).is_ok(), "{far}");
        }
    }

    #[test]
    fn forms_are_escaped() {
        assert_eq!(
            encoded(&[("query", "a{b=\"c d\"}+1"), ("é", "&=%")]),
            "query=a%7Bb%3D%22c%20d%22%7D%2B1&%C3%A9=%26%3D%25"
        );
    }
}
