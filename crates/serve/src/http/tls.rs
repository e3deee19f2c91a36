//! TLS 1.3 for both sides.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Why TLS cannot be set up, in words.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate.
    #[error("no certificate in it: it must begin with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// There is no key.
    #[error("no private key in it: it must begin with -----BEGIN PRIVATE KEY-----")]
    NoKey,
    /// They do not fit, or are of an unknown kind.
    #[error("{0}")]
    Refused(#[from] rustls::Error),
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or(TlsError::NoCertificate)
}

/// The side of a server, from the texts of two PEM files: its certificates, its own first, and its key.
///
/// # Errors
/// [`TlsError`].
pub fn server(certificates_pem: &str, key_pem: &str) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(certificates_pem)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|_| TlsError::NoKey)?;
    let builder =
        ServerConfig::builder_with_provider(Arc::new(default_provider())).with_protocol_versions(&[&TLS13])?;
    Ok(Arc::new(builder.with_no_client_auth().with_single_cert(chain, key)?))
}

/// The side of a client that trusts the authorities in the text of a PEM file.
///
/// # Errors
/// [`TlsError`].
pub fn client(authorities_pem: &str) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(authorities_pem)?);
    if added == 0 {
        return Err(TlsError::NoCertificate);
    }
    let builder =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_protocol_versions(&[&TLS13])?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
