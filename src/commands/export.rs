//! `trainmon export`: metrics for Prometheus, over HTTP or through a file for node_exporter.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;

use crate::cli::ExportArgs;
use crate::config::Settings;
use trainmon_attach::jobs::session::{EndSignals, block_on};
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_serve::exporter::{Node, TextFile, follow};
use trainmon_serve::http::named_files::{text_of, token};
use trainmon_serve::http::server::{self, Admission, LoadTls, Site};
use trainmon_serve::http::tls;

/// Where it listens unless told otherwise: this machine alone can reach it.
const LISTEN: &str = "127.0.0.1:9845";
/// Follows jobs until the one that was named ends, the time is over, or a signal comes.
pub fn run(settings: &Settings, arguments: &ExportArgs) -> anyhow::Result<ExitCode> {
    let listen = match (arguments.listen, &arguments.textfile) {
        (None, Some(_)) => None,
        (None, None) => Some(LISTEN.parse()?),
        (listen, _) => listen,
    };
    let admission = admission(arguments, listen)?;
    let text_file = arguments.textfile.as_deref().map(TextFile::new).transpose()?;
    let node = Arc::new(Node::new(settings.interval, arguments.training_job.as_deref()));
    block_on(async {
        let (ending, reopening) = EndSignals::listen_beside_a_file()?;
        let followed = super::followed(settings, settings.call.pid)?;
        if let Some(address) = listen {
            let listener = server::listen(address).map_err(|error| cannot_listen(address, &error))?;
            let address = listener.local_addr().unwrap_or(address);
            let scheme = if admission.tls.is_some() { "https" } else { "http" };
            server::start(listener, admission, Arc::clone(&node) as Arc<dyn Site>)?;
            errors::note(&format!("metrics at {scheme}://{address}/metrics"));
        }
        follow(&node, followed, settings.call.duration, text_file, (ending, reopening)).await
    })?;
    Ok(ExitCode::DONE)
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    let fix = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("; is another trainmon there? `ss -ltnp sport = :{}` shows it", address.port())
        }
        std::io::ErrorKind::PermissionDenied => "; use a port above 1023".to_owned(),
        _ => String::new(),
    };
    Failure::failed(format!("cannot listen at {address}: {error}{fix}"))
}

/// What a request needs: from other machines, a token and TLS.
fn admission(arguments: &ExportArgs, listen: Option<SocketAddr>) -> anyhow::Result<Admission> {
    let token = arguments.token_file.as_deref().map(token).transpose()?;
    let tls = arguments.tls_cert.clone().zip(arguments.tls_key.clone()).map(|(certificates, key)| {
        Box::new(move || {
            let (chain, key_text) = (text_of(&certificates)?, text_of(&key)?);
            let files = || format!("TLS with {} and {}", certificates.display(), key.display());
            tls::server(&chain, &key_text).with_context(files)
        }) as LoadTls
    });
    let far = listen.is_some_and(|address| !address.ip().is_loopback());
    if far && !arguments.insecure && (token.is_none() || tls.is_none()) {
        return Err(Failure::usage(
            "other machines reach this address: add --token-file, --tls-cert and --tls-key, or --insecure if only trusted ones can",
        )
        .into());
    }
    Ok(Admission { token, tls })
}
