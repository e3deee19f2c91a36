//! Asks Prometheus for what `trainmon export` has told it of many machines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;

use crate::http::client::{Client, Connection, PATIENCE, UrlError};
use crate::http::named_files::{text_of, token};
use crate::http::tls;
use trainmon_base::errors::Failure;
use trainmon_base::text::fit;
use trainmon_diagnosis::fleet::answer::{self, AnswerError, Answered};
use trainmon_diagnosis::fleet::join::Answers;
use trainmon_diagnosis::fleet::query::FleetQuery;
use trainmon_diagnosis::fleet::{Fleet, FleetRun};

/// Connections over which the queries go at once. Prometheus answers twenty at a time by default, and others ask it, too.
const CONNECTIONS: usize = 4;
/// Where Prometheus answers queries.
const PATH: &str = "/api/v1/query";
/// The authorities of the system: Debian, Alpine and Arch have the first, Fedora the second.
const AUTHORITIES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The server to ask, and for what.
#[derive(Debug, Clone, Copy)]
pub struct AskedServer<'a> {
    /// Its URL.
    pub url: &'a str,
    /// The only run that is asked for, if one is named.
    pub job: Option<&'a str>,
    /// Over how much time rates are computed.
    pub window: Duration,
    /// The file with the token that it wants.
    pub token_file: Option<&'a Path>,
    /// The file with the authorities that its certificate may come from.
    pub ca_file: Option<&'a Path>,
    /// Whether a token may go over a connection without TLS.
    pub insecure: bool,
}

/// Asks one server.
#[derive(Clone)]
pub struct Asker {
    client: Client,
    /// For errors.
    url: String,
    window: Duration,
    job: Option<String>,
}

impl Asker {
    /// One of this server. Nothing is asked yet.
    ///
    /// # Errors
    /// A file cannot be read, or the URL is wrong, or must not get a token.
    pub fn new(asked: AskedServer<'_>) -> anyhow::Result<Self> {
        let AskedServer { url, job, window, token_file, ca_file, insecure } = asked;
        let token = token_file.map(token).transpose()?;
        let tls = || {
            let path = authorities(ca_file)?;
            tls::client(&text_of(&path)?).with_context(|| format!("cannot take authorities from {}", path.display()))
        };
        // A URL with a password must not be in the error.
        let client = Client::new(url, token, insecure, tls).map_err(|error| match error.downcast() {
            Ok(UrlError::Malformed) => {
                Failure::usage(format!("--prometheus: `{}` is not a URL: write http://HOST:9090", fit(url, 80)))
                    .into()
            }
            Ok(error) => Failure::usage(format!("--prometheus: {error}")).into(),
            Err(error) => error,
        })?;
        Ok(Self { client, url: url.to_owned(), window, job: job.map(str::to_owned) })
    }

    /// Everything as it is now.
    ///
    /// # Errors
    /// In one line: what failed, and what to type.
    pub async fn ask(&self) -> anyhow::Result<Fleet> {
        let answers = self.answers().await.with_context(|| format!("cannot ask Prometheus at {}", self.url))?;
        let fleet = answers.fleet(self.window);
        if fleet.unix_s.is_none() {
            return Err(Failure::failed(format!(
                "Prometheus at {} has no metrics of trainmon: run `trainmon export` on each machine, and let Prometheus scrape it",
                self.url
            ))
            .into());
        }
        let Some(name) = &self.job else { return Ok(fleet) };
        if !fleet.runs.iter().any(|run| run.is_called(name)) {
            let known: Vec<String> = fleet.runs.iter().take(5).map(FleetRun::title).collect();
            let known = if known.is_empty() {
                "there is no run".to_owned()
            } else {
                format!("there are {}", known.join(", "))
            };
            return Err(Failure::failed(format!("--job: no run is called `{}`; {known}", fit(name, 80))).into());
        }
        Ok(fleet.only(name))
    }

    async fn answers(&self) -> anyhow::Result<Answers> {
        let mut connections = JoinSet::new();
        for first in 0..CONNECTIONS {
            let (client, window) = (self.client.clone(), self.window);
            connections.spawn(async move {
                let mut connection = client.connect().await?;
                let mut answered = Vec::new();
                for query in FleetQuery::ALL.into_iter().skip(first).step_by(CONNECTIONS) {
                    let answer = answer(&mut connection, query, window).await;
                    answered.push((query, answer.with_context(|| format!("query {}", query.word()))?));
                }
                anyhow::Ok(answered)
            });
        }
        let mut answers = Answers::default();
        while let Some(answered) = connections.join_next().await {
            for (query, (series, warnings)) in answered?? {
                answers.series.insert(query, series);
                for warning in warnings {
                    if !answers.warnings.contains(&warning) {
                        answers.warnings.push(warning);
                    }
                }
            }
        }
        Ok(answers)
    }
}

/// The file with the authorities that a server's certificate may come from.
fn authorities(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let by_environment =
        || std::env::var_os("SSL_CERT_FILE").map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    let of_system = || AUTHORITIES.map(PathBuf::from).into_iter().find(|path| path.exists());
    let path = named.map(Path::to_path_buf).or_else(by_environment).or_else(of_system);
    path.ok_or_else(|| Failure::usage("this machine has no file of authorities: name one with --ca-file").into())
}

async fn answer(
    connection: &mut Connection,
    query: FleetQuery,
    window: Duration,
) -> anyhow::Result<(Vec<Answered>, Vec<String>)> {
    let limit = format!("{}s", PATIENCE.as_secs());
    let answer = connection.post(PATH, &[("query", &query.text(window)), ("timeout", &limit)]).await?;
    answer::read(&answer.body).map_err(|error| match error {
        AnswerError::Other(_) if !answer.status.is_success() => anyhow::anyhow!(
            "HTTP status {} and not the API of Prometheus; is there a path before /api/v1?",
            answer.status
        ),
        error => error.into(),
    })
}
