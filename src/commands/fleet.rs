//! `trainmon fleet`: asks Prometheus for what `trainmon export` has told it of many machines, and shows it in one table.

mod screen;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;

use super::http_files::{text_of, token};
use super::live::say_what_to_do;
use crate::cli::FleetArgs;
use crate::config::Settings;
use trainmon_attach::jobs::session::block_on;
use trainmon_base::errors::{ExitCode, Failure};
use trainmon_base::foreground;
use trainmon_diagnosis::fleet::Fleet;
use trainmon_diagnosis::fleet::answer::{self, AnswerError, Answered};
use trainmon_diagnosis::fleet::join::Answers;
use trainmon_diagnosis::fleet::query::FleetQuery;
use trainmon_serve::http::client::{Client, Connection, PATIENCE};
use trainmon_serve::http::tls;
use trainmon_views::fleet;

/// Connections over which the queries go at once. Prometheus answers twenty at a time by default, and others ask it, too.
const CONNECTIONS: usize = 4;
/// Where Prometheus answers queries.
const PATH: &str = "/api/v1/query";
/// The authorities of the system: Debian, Alpine and Arch have the first, Fedora the second.
const AUTHORITIES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Shows the table on the screen, or prints it.
pub fn run(settings: &Settings, arguments: &FleetArgs) -> anyhow::Result<ExitCode> {
    let asker = Asker::new(arguments)?;
    let print = arguments.once || arguments.json || !std::io::stdout().is_terminal();
    if !print {
        foreground::wait(say_what_to_do).map_err(|error| Failure::usage(format!("{error}: use --once")))?;
    }
    block_on(async {
        if !print {
            return screen::run(settings, asker).await;
        }
        let mut fleet = asker.ask().await?;
        if arguments.json {
            fleet.price = settings.price.as_ref().map(ToString::to_string);
            super::print_json(&fleet)
        } else {
            let mut text = fleet::text(&fleet, settings.price.as_ref());
            if settings.ascii {
                text = text.chars().map(|c| if c == '\n' { c } else { trainmon_tui::theme::ascii(c) }).collect();
            }
            super::print(text)
        }
    })
}

/// Asks one server.
#[derive(Clone)]
struct Asker {
    client: Client,
    /// For errors.
    url: String,
    window: Duration,
    job: Option<String>,
}

impl Asker {
    fn new(arguments: &FleetArgs) -> anyhow::Result<Self> {
        let FleetArgs { prometheus, job, window, token_file, ca_file, insecure, .. } = arguments;
        let token = token_file.as_deref().map(token).transpose()?;
        let tls = || {
            let path = authorities(ca_file.as_deref())?;
            tls::client(&text_of(&path)?).with_context(|| format!("cannot take authorities from {}", path.display()))
        };
        // A URL with a password must not be in the error.
        let client = Client::new(prometheus, token, *insecure, tls).map_err(|error| match error.downcast() {
            Ok(trainmon_serve::http::client::UrlError::Malformed) => Failure::usage(format!(
                "--prometheus: `{}` is not a URL: write http://HOST:9090",
                trainmon_base::text::fit(prometheus, 80)
            ))
            .into(),
            Ok(error) => Failure::usage(format!("--prometheus: {error}")).into(),
            Err(error) => error,
        })?;
        Ok(Self { client, url: prometheus.clone(), window: *window, job: job.clone() })
    }

    /// Everything as it is now.
    ///
    /// # Errors
    /// In one line: what failed, and what to type.
    async fn ask(&self) -> anyhow::Result<Fleet> {
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
            let known: Vec<String> =
                fleet.runs.iter().take(5).map(trainmon_diagnosis::fleet::FleetRun::title).collect();
            let known = if known.is_empty() {
                "there is no run".to_owned()
            } else {
                format!("there are {}", known.join(", "))
            };
            return Err(Failure::failed(format!(
                "--job: no run is called `{}`; {known}",
                trainmon_base::text::fit(name, 80)
            ))
            .into());
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
