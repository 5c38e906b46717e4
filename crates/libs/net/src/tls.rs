//! TLS configuration shared by all clients of the process. Loading the machine's certificates takes milliseconds and
//! about a megabyte, so it is deferred until a client needs it.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};

use crate::NetError;

/// Returns the configuration with the machine's trust store (on Debian, the package `ca-certificates`; `SSL_CERT_FILE`
/// and `SSL_CERT_DIR` are honoured). Without any certificates, plain HTTP still works and every HTTPS server is
/// rejected.
pub(crate) fn with_machine_roots() -> Result<ClientConfig, NetError> {
    static CONFIG: OnceLock<Result<ClientConfig, NetError>> = OnceLock::new();
    CONFIG.get_or_init(|| configure(machine_roots())).clone()
}

/// Returns a configuration without trusted roots, for plain HTTP.
pub(crate) fn without_roots() -> Result<ClientConfig, NetError> {
    configure(RootCertStore::empty())
}

fn machine_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "failed to read system certificate");
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        tracing::warn!("no CA certificates found; HTTPS requests will fail until ca-certificates is installed");
    }
    roots
}

fn configure(roots: RootCertStore) -> Result<ClientConfig, NetError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| NetError::Client { source: Arc::new(error) })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
