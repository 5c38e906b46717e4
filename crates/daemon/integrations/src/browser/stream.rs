//! Connection of one stream client.

use std::time::Duration;

use agentd_browser::Viewer;
use agentd_web::StreamCredential;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::service::{Browser, ViewerPermit};

/// Maximum size of a client message; clients have nothing to send.
pub(super) const MAX_FRAME_BYTES: usize = 4 << 10;
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Time without any message, including pongs, after which a client is disconnected.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time to wait for a pong before the next frame is sent.
const PONG_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum interval between processed messages of a client.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(50);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to drain messages that the client sent before it read the close frame.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Reason why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The client disconnected.
    Disconnected,
    /// The client was silent for too long.
    Silent,
    /// The credential was revoked.
    Revoked,
    BrowserClosed,
    ShuttingDown,
}

impl Ending {
    fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Disconnected => (close_code::NORMAL, "bye"),
            Self::Silent => (close_code::POLICY, "the client was silent for too long"),
            Self::Revoked => (close_code::POLICY, "the credential was revoked or has expired"),
            Self::BrowserClosed => (close_code::NORMAL, "the browser was closed"),
            Self::ShuttingDown => (close_code::AWAY, "the daemon is shutting down"),
        };
        CloseFrame { code, reason: reason.into() }
    }
}

/// Serves an admitted client.
pub(super) async fn serve(browser: Browser, credential: StreamCredential, permit: ViewerPermit, mut socket: WebSocket) {
    let ending = tokio::select! {
        biased;
        () = browser.draining().cancelled() => Ending::ShuttingDown,
        () = credential.revoked() => Ending::Revoked,
        ending = stream_frames(&browser, &mut socket) => ending,
    };
    tracing::debug!(?ending, "browser stream client disconnected");
    drop(permit);
    if ending != Ending::Disconnected {
        let closed = timeout(CLOSE_TIMEOUT, socket.send(Message::Close(Some(ending.frame())))).await;
        if matches!(closed, Ok(Ok(()))) {
            let reading = async { while let Some(Ok(_)) = socket.recv().await {} };
            let _ = timeout(DRAIN_TIMEOUT, reading).await;
        }
    }
}

async fn stream_frames(browser: &Browser, socket: &mut WebSocket) -> Ending {
    let mut settings = browser.settings_changes();
    let mut viewer: Option<Viewer> = None;
    // Whether the last frame was acknowledged.
    let mut is_acknowledged = true;
    let (mut last_received, mut last_sent) = (Instant::now(), Instant::now());
    loop {
        let next_event = async {
            match &mut viewer {
                Some(viewer) => ViewerEvent::Frame(viewer.next().await),
                None => ViewerEvent::Browser(browser.viewer().await),
            }
        };
        let sent = tokio::select! {
            event = next_event, if is_acknowledged => match event {
                ViewerEvent::Browser(new) => {
                    viewer = Some(new);
                    continue;
                }
                ViewerEvent::Frame(None) => return Ending::BrowserClosed,
                ViewerEvent::Frame(Some(jpeg)) => {
                    is_acknowledged = false;
                    send(socket, [Message::Binary(jpeg), Message::Ping(Bytes::new())]).await
                }
            },
            message = socket.recv() => {
                last_received = Instant::now();
                match message {
                    Some(Ok(Message::Pong(_))) => is_acknowledged = true,
                    Some(Ok(Message::Ping(_) | Message::Text(_) | Message::Binary(_))) => sleep(MESSAGE_INTERVAL).await,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ending::Disconnected,
                }
                continue;
            }
            // Fails when the daemon shuts down, which is detected elsewhere.
            _ = settings.changed() => {
                if let Some(viewer) = &mut viewer {
                    viewer.set_pace(browser.stream_pace());
                }
                continue;
            }
            () = sleep_until(last_sent + PONG_TIMEOUT), if !is_acknowledged => {
                is_acknowledged = true;
                last_sent = Instant::now();
                continue;
            }
            () = sleep_until((last_sent + PING_INTERVAL).min(last_received + SILENCE_TIMEOUT)) => {
                if last_received.elapsed() >= SILENCE_TIMEOUT {
                    return Ending::Silent;
                }
                send(socket, [Message::Ping(Bytes::new())]).await
            }
        };
        last_sent = Instant::now();
        if let Err(ending) = sent {
            return ending;
        }
    }
}

enum ViewerEvent {
    Browser(Viewer),
    Frame(Option<Bytes>),
}

async fn send<const N: usize>(socket: &mut WebSocket, messages: [Message; N]) -> Result<(), Ending> {
    let sending = async {
        for message in messages {
            socket.send(message).await?;
        }
        Ok::<(), axum::Error>(())
    };
    match timeout(SILENCE_TIMEOUT, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ending::Disconnected),
        Err(_) => Err(Ending::Silent),
    }
}
