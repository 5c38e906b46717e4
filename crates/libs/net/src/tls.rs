//! One TLS configuration for all clients of the process. Reading the machine's certificates
//! takes milliseconds and about a megabyte, so it waits for the first client that is needed.

use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};

use crate::NetError;

/// The machine's own trust store (on Debian, the package `ca-certificates`; `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` are honoured). Without any certificate plain HTTP still works and every
/// HTTPS server is refused.
pub(crate) fn with_machine_roots() -> Result<ClientConfig, NetError> {
    static CONFIG: OnceLock<Result<ClientConfig, NetError>> = OnceLock::new();
    CONFIG.get_or_init(|| configure(machine_roots())).clone()
}

/// Trusts nobody; for a client that speaks plain HTTP.
pub(crate) fn without_roots() -> Result<ClientConfig, NetError> {
    configure(RootCertStore::empty())
}

fn machine_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a certificate of this machine could not be read");
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        tracing::warn!(
            "this machine has no CA certificates, so no HTTPS server can be trusted; install ca-certificates"
        );
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
