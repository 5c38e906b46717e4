//! Client of the daemon for commands: through the private socket of a running daemon, or with an offline daemon in this
//! process. Both have the same interface.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::{Clock, Entropy};
use agentd_store::StoreError;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use super::error::CliError;
use super::socket;
use crate::config::Config;
use crate::lifecycle::{Offline, StartError, require_clock_agreement};

/// Default request timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response body.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Client of the local daemon.
pub(super) struct LocalClient(Transport);

enum Transport {
    Socket { path: PathBuf, data_dir: PathBuf },
    InProcess(Box<Offline>),
}

impl LocalClient {
    /// Connects to the daemon that uses the data directory; returns `None` if no daemon is running.
    pub(super) async fn running(config: &Config) -> Result<Option<Self>, CliError> {
        let data_dir = config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone());
        let path = data_dir.join("agentd.sock");
        let Some(_) = socket::connect(&path).await? else { return Ok(None) };
        Ok(Some(Self(Transport::Socket { path, data_dir })))
    }

    /// Connects to the running daemon, or opens an offline daemon in this process.
    pub(super) async fn connect(config: &Config) -> Result<Self, CliError> {
        if let Some(running) = Self::running(config).await? {
            return Ok(running);
        }
        let clock = Clock::system();
        require_clock_agreement(config, &clock).await?;
        match Offline::open(config.clone(), clock, Entropy::system()).await {
            Ok(offline) => Ok(Self(Transport::InProcess(Box::new(offline)))),
            Err(StartError::Store(source @ StoreError::AlreadyRunning { .. })) => {
                Err(CliError::Unresponsive { data_dir: config.data_dir.clone(), source: Box::new(source) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a request. The response headers must arrive within `limit`, if it is set. The caller handles the status.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        limit: Option<Duration>,
    ) -> Result<Response<Body>, CliError> {
        match &self.0 {
            Transport::InProcess(offline) => in_process(offline.router(), request).await,
            Transport::Socket { path, data_dir } => {
                let unresponsive = |source| CliError::Unresponsive { data_dir: data_dir.clone(), source };
                let sending = over_socket(path, request);
                match limit {
                    None => sending.await,
                    Some(limit) => tokio::time::timeout(limit, sending)
                        .await
                        .unwrap_or_else(|elapsed| Err(unresponsive(elapsed.into()))),
                }
            }
        }
    }

    /// Sends a JSON request and parses the JSON response.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<T, CliError> {
        self.json_within(DEFAULT_TIMEOUT, method, path, body).await
    }

    /// Variant of [`Self::json`] with another timeout.
    pub(super) async fn json_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<T, CliError> {
        let response = self.bytes_within(limit, method, path, body).await?;
        serde_json::from_slice(&response).map_err(|source| CliError::Unreadable { source })
    }

    /// Variant of [`Self::json_within`] that returns the raw body.
    pub(super) async fn bytes_within(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<Bytes, CliError> {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = request(method, path, body)?;
        read(accept(self.send(request, Some(limit)).await?).await?).await
    }

    /// Releases the data directory.
    pub(super) async fn close(self) {
        if let Transport::InProcess(offline) = self.0 {
            offline.close().await;
        }
    }
}

/// Builds a request to the daemon.
pub(super) fn request(method: Method, path: &str, body: Body) -> Result<Request<Body>, CliError> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(|error| CliError::Usage(format!("`{path}` is not a valid request path: {error}")))
}

/// Returns the response if its status is a success.
pub(super) async fn accept(response: Response<Body>) -> Result<Response<Body>, CliError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    Err(error_from_body(status.as_u16(), &read(response).await?))
}

/// Builds an error from the body of an error response.
pub(super) fn error_from_body(status: u16, body: &[u8]) -> CliError {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error_message = body.get("error").and_then(serde_json::Value::as_str);
    let message = error_message
        .map_or_else(|| format!("the daemon responded with status {status} and no message"), str::to_owned);
    CliError::Refused { status, message }
}

async fn read(response: Response<Body>) -> Result<Bytes, CliError> {
    let body = http_body_util::Limited::new(response.into_body(), MAX_RESPONSE_BYTES);
    Ok(body.collect().await.map_err(CliError::broken)?.to_bytes())
}

async fn in_process(router: Router, request: Request<Body>) -> Result<Response<Body>, CliError> {
    match router.oneshot(request).await {
        Ok(response) => Ok(response),
        Err(never) => match never {},
    }
}

async fn over_socket(path: &std::path::Path, request: Request<Body>) -> Result<Response<Body>, CliError> {
    let not_running = || CliError::broken(io::Error::from(io::ErrorKind::ConnectionRefused));
    let stream = socket::connect(path).await?.ok_or_else(not_running)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(CliError::broken)?;
    // Ends with the response body.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(CliError::broken)?;
    Ok(response.map(Body::new))
}
