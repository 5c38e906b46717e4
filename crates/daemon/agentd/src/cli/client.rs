//! How a command reaches the daemon: through the private socket of one that runs, else by
//! composing one in this process that listens nowhere. The commands cannot tell which.

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

/// A daemon that answers at all does so within this time.
const TIME_LIMIT: Duration = Duration::from_secs(15);
/// No JSON answer that a command asks for is larger.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

pub(super) struct LocalClient(Way);

enum Way {
    Socket { path: PathBuf, data_dir: PathBuf },
    InProcess(Box<Offline>),
}

impl LocalClient {
    /// The daemon that runs on the data directory; `None` when there is none.
    pub(super) async fn running(config: &Config) -> Result<Option<Self>, CliError> {
        let data_dir = config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone());
        let path = data_dir.join("agentd.sock");
        let Some(_) = socket::connect(&path).await? else { return Ok(None) };
        Ok(Some(Self(Way::Socket { path, data_dir })))
    }

    /// The daemon that runs, else one in this process.
    pub(super) async fn connect(config: &Config) -> Result<Self, CliError> {
        if let Some(running) = Self::running(config).await? {
            return Ok(running);
        }
        let clock = Clock::system();
        require_clock_agreement(config, &clock).await?;
        match Offline::open(config.clone(), clock, Entropy::system()).await {
            Ok(offline) => Ok(Self(Way::InProcess(Box::new(offline)))),
            Err(StartError::Store(source @ StoreError::AlreadyRunning { .. })) => {
                Err(CliError::NotAnswering { data_dir: config.data_dir.clone(), source: Box::new(source) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a request. The answer's head must come within `limit`, if there is one; whatever the
    /// status, the caller reads it.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        limit: Option<Duration>,
    ) -> Result<Response<Body>, CliError> {
        match &self.0 {
            Way::InProcess(offline) => in_process(offline.router(), request).await,
            Way::Socket { path, data_dir } => {
                let not_answering = |source| CliError::NotAnswering { data_dir: data_dir.clone(), source };
                let sending = over_socket(path, request);
                match limit {
                    None => sending.await,
                    Some(limit) => tokio::time::timeout(limit, sending)
                        .await
                        .unwrap_or_else(|elapsed| Err(not_answering(elapsed.into()))),
                }
            }
        }
    }

    /// Sends JSON and reads JSON.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<T, CliError> {
        self.json_within(TIME_LIMIT, method, path, body).await
    }

    /// The same where the daemon may take longer.
    pub(super) async fn json_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<T, CliError> {
        let answer = self.bytes_within(limit, method, path, body).await?;
        serde_json::from_slice(&answer).map_err(|source| CliError::Unreadable { source })
    }

    /// The same for an answer of any kind.
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

    /// Lets go of the data directory.
    pub(super) async fn close(self) {
        if let Way::InProcess(offline) = self.0 {
            offline.close().await;
        }
    }
}

/// A request to the daemon itself.
pub(super) fn request(method: Method, path: &str, body: Body) -> Result<Request<Body>, CliError> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(|error| CliError::Usage(format!("`{path}` cannot be asked for: {error}")))
}

/// The answer, unless it is a refusal.
pub(super) async fn accept(answer: Response<Body>) -> Result<Response<Body>, CliError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    Err(refusal(status.as_u16(), &read(answer).await?))
}

/// The daemon's sentence out of the body of an error.
pub(super) fn refusal(status: u16, body: &[u8]) -> CliError {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let sentence = body.get("error").and_then(serde_json::Value::as_str);
    let message = sentence.map_or_else(|| format!("the daemon answered {status} without a reason"), str::to_owned);
    CliError::Refused { status, message }
}

async fn read(answer: Response<Body>) -> Result<Bytes, CliError> {
    let body = http_body_util::Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
    Ok(body.collect().await.map_err(CliError::broken)?.to_bytes())
}

async fn in_process(router: Router, request: Request<Body>) -> Result<Response<Body>, CliError> {
    match router.oneshot(request).await {
        Ok(answer) => Ok(answer),
        Err(never) => match never {},
    }
}

async fn over_socket(path: &std::path::Path, request: Request<Body>) -> Result<Response<Body>, CliError> {
    let gone = || CliError::broken(io::Error::from(io::ErrorKind::ConnectionRefused));
    let stream = socket::connect(path).await?.ok_or_else(gone)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(CliError::broken)?;
    // Ends with the answer's body.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(CliError::broken)?;
    Ok(answer.map(Body::new))
}
