//! One client of the stream, from its first frame to its last.

use std::time::Duration;

use agentd_browser::Viewer;
use agentd_web::Opener;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::service::{Browser, ViewerPermit};

/// A client has nothing to say.
pub(super) const MAX_FRAME_BYTES: usize = 4 << 10;
const PING_EVERY: Duration = Duration::from_secs(20);
/// A client that sends nothing for so long, not even the answer to a ping, is gone.
const SILENT_AFTER: Duration = Duration::from_secs(60);
/// A client whose pings come back later, or never, has a frame in so long all the same.
const SLOWEST: Duration = Duration::from_secs(10);
/// Whoever says something anyway is heard so often.
const BETWEEN_MESSAGES: Duration = Duration::from_millis(50);
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// What the client sent before it read the close frame is read away for so long.
const LINGER: Duration = Duration::from_secs(1);

/// Why a client sees nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It went away by itself.
    Gone,
    /// It was not heard of for too long.
    Silent,
    /// Its credential is not good any more.
    Refused,
    BrowserClosed,
    GoingDown,
}

impl Ending {
    fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Gone => (close_code::NORMAL, "bye"),
            Self::Silent => (close_code::POLICY, "the client was silent for too long"),
            Self::Refused => (close_code::POLICY, "the credential is not good any more"),
            Self::BrowserClosed => (close_code::NORMAL, "the browser was closed"),
            Self::GoingDown => (close_code::AWAY, "the daemon is going down"),
        };
        CloseFrame { code, reason: reason.into() }
    }
}

/// Shows the browser to a client that was let in.
pub(super) async fn serve(browser: Browser, opener: Opener, permit: ViewerPermit, mut socket: WebSocket) {
    let ending = tokio::select! {
        biased;
        () = browser.draining().cancelled() => Ending::GoingDown,
        () = opener.until_refused() => Ending::Refused,
        ending = show(&browser, &mut socket) => ending,
    };
    tracing::debug!(?ending, "a client of the stream left");
    drop(permit);
    if ending != Ending::Gone {
        let farewell = timeout(FAREWELL_LIMIT, socket.send(Message::Close(Some(ending.frame())))).await;
        if matches!(farewell, Ok(Ok(()))) {
            let reading = async { while let Some(Ok(_)) = socket.recv().await {} };
            let _ = timeout(LINGER, reading).await;
        }
    }
}

async fn show(browser: &Browser, socket: &mut WebSocket) -> Ending {
    let mut settings = browser.settings_changes();
    let mut viewer: Option<Viewer> = None;
    // What was sent last has arrived.
    let mut has_arrived = true;
    let (mut heard, mut said) = (Instant::now(), Instant::now());
    loop {
        let look = async {
            match &mut viewer {
                Some(viewer) => Seen::Frame(viewer.next().await),
                None => Seen::Browser(browser.viewer().await),
            }
        };
        let sent = tokio::select! {
            seen = look, if has_arrived => match seen {
                Seen::Browser(new) => {
                    viewer = Some(new);
                    continue;
                }
                Seen::Frame(None) => return Ending::BrowserClosed,
                Seen::Frame(Some(jpeg)) => {
                    has_arrived = false;
                    send(socket, [Message::Binary(jpeg), Message::Ping(Bytes::new())]).await
                }
            },
            message = socket.recv() => {
                heard = Instant::now();
                match message {
                    Some(Ok(Message::Pong(_))) => has_arrived = true,
                    Some(Ok(Message::Ping(_) | Message::Text(_) | Message::Binary(_))) => sleep(BETWEEN_MESSAGES).await,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ending::Gone,
                }
                continue;
            }
            // It fails when the daemon ends, which is noticed elsewhere.
            _ = settings.changed() => {
                if let Some(viewer) = &mut viewer {
                    viewer.set_pace(browser.stream_pace());
                }
                continue;
            }
            () = sleep_until(said + SLOWEST), if !has_arrived => {
                has_arrived = true;
                said = Instant::now();
                continue;
            }
            () = sleep_until((said + PING_EVERY).min(heard + SILENT_AFTER)) => {
                if heard.elapsed() >= SILENT_AFTER {
                    return Ending::Silent;
                }
                send(socket, [Message::Ping(Bytes::new())]).await
            }
        };
        said = Instant::now();
        if let Err(ending) = sent {
            return ending;
        }
    }
}

enum Seen {
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
    match timeout(SILENT_AFTER, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ending::Gone),
        Err(_) => Err(Ending::Silent),
    }
}
