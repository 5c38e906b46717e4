//! TLS connections with rustls and the system's trust store.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::EmailError;

/// TLS connector. The system's root certificates are loaded on first use.
pub(super) struct Tls {
    extra_roots: Vec<Vec<u8>>,
    connector: OnceCell<TlsConnector>,
}

impl Tls {
    pub(super) fn new(extra_roots: Vec<Vec<u8>>) -> Self {
        Self { extra_roots, connector: OnceCell::new() }
    }

    /// Performs a TLS handshake and verifies that the server's certificate is valid for `host`.
    pub(super) async fn handshake<S>(&self, host: &str, server: &str, stream: S) -> Result<TlsStream<S>, EmailError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let failed = |problem: String| EmailError::Tls { server: server.to_owned(), problem };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string()))?;
        let connector = self.connector.get_or_try_init(|| self.configure()).await.map_err(failed)?;
        connector.connect(name, stream).await.map_err(|error| failed(problem(&error)))
    }

    async fn configure(&self) -> Result<TlsConnector, String> {
        let extra_roots = self.extra_roots.clone();
        // Blocking: reads a few hundred files.
        let read = tokio::task::spawn_blocking(move || roots(extra_roots));
        let roots = read.await.map_err(|error| error.to_string())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

fn roots(extra: Vec<Vec<u8>>) -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "failed to read system root certificate");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    roots.add_parsable_certificates(extra.into_iter().map(CertificateDer::from));
    roots
}

fn problem(error: &std::io::Error) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let text = match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "the issuer of its certificate is not trusted by this machine"
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "its certificate has expired",
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "its certificate is for another name",
        Some(other) => return other.to_string(),
        None => "the server closed the connection",
    };
    text.to_owned()
}
