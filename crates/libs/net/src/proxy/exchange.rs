//! A single plain HTTP request and its response over a separate connection, or its upgrade to a WebSocket.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::refusal::{self, Body};
use super::shared::{ConnectionPermit, Shared, Upstream};
use super::target::Target;
use super::tunnel;
use crate::NetError;
use crate::headers::remove_hop_by_hop;

const MIN_BUFFER_BYTES: usize = 8 << 10;

/// Forwards `request` and returns the response.
pub(super) async fn forward(
    shared: &Arc<Shared>,
    permit: ConnectionPermit,
    mut request: Request<Incoming>,
    target: &Target,
    upstream: Upstream,
) -> Response<Body> {
    let websocket = asks_for_websocket(&request).then(|| hyper::upgrade::on(&mut request));
    let Ok(()) = prepare(&mut request, target, websocket.is_some()) else {
        return refusal::text_response(StatusCode::BAD_REQUEST, "the URL cannot be forwarded");
    };
    let Upstream { stream, meter } = upstream;
    let opened = http1::Builder::new()
        .max_buf_size(shared.limits.head_bytes.max(MIN_BUFFER_BYTES))
        .max_header_size(shared.limits.head_bytes)
        .handshake(TokioIo::new(stream))
        .await;
    let (mut sender, connection) = match opened {
        Ok(opened) => opened,
        Err(error) => return answer_failure(shared, target, &exchange_error(target, error)),
    };
    let (stop, watched, held) = (shared.stop.clone(), Arc::clone(&meter), Arc::clone(&permit));
    shared.tasks.spawn(async move {
        let _permit = held;
        tokio::select! {
            ended = connection.with_upgrades() => if let Err(error) = ended {
                tracing::debug!(%error, "upstream proxy connection ended with an error");
            },
            () = watched.expired() => {}
            () = stop.cancelled() => {}
        }
    });
    let mut response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(_) if meter.is_expired() => {
            return answer_failure(shared, target, &NetError::Timeout { host: target.host.to_string() });
        }
        Err(error) => return answer_failure(shared, target, &exchange_error(target, error)),
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        remove_hop_by_hop(response.headers_mut());
        return response.map(Either::Right);
    }
    let Some(client) = websocket.filter(|_| names_websocket(response.headers())) else {
        return refusal::text_response(
            StatusCode::BAD_GATEWAY,
            "the server switched to a protocol that was not requested",
        );
    };
    let server = hyper::upgrade::on(&mut response);
    let stop = shared.stop.clone();
    shared.tasks.spawn(async move {
        let _permit = permit;
        let carrying = async {
            if let Ok(server) = server.await {
                tunnel::relay(client, TokioIo::new(server), &meter).await;
            }
        };
        tokio::select! {
            () = carrying => {}
            () = stop.cancelled() => {}
        }
    });
    remove_hop_by_hop(response.headers_mut());
    switch_to_websocket(response.headers_mut());
    response.map(Either::Right)
}

/// Answers a request that failed after its server was reached.
fn answer_failure(shared: &Shared, target: &Target, error: &NetError) -> Response<Body> {
    shared.report(target, error);
    refusal::error_response(error)
}

fn exchange_error(target: &Target, error: hyper::Error) -> NetError {
    NetError::Transport { host: target.host.to_string(), source: Arc::new(error) }
}

/// Rewrites a request to the proxy into one to the server.
fn prepare(request: &mut Request<Incoming>, target: &Target, is_websocket: bool) -> Result<(), http::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    *request.uri_mut() = path.parse::<Uri>()?;
    *request.version_mut() = http::Version::HTTP_11;
    let headers = request.headers_mut();
    // If both are present, the length is wrong and the next server might use it.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
    headers.insert(HOST, HeaderValue::try_from(target.authority())?);
    if is_websocket {
        switch_to_websocket(headers);
    } else {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(())
}

fn switch_to_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

fn asks_for_websocket(request: &Request<Incoming>) -> bool {
    let upgrades = request.headers().get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    request.method() == Method::GET
        && names_websocket(request.headers())
        && upgrades.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
}

fn names_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
