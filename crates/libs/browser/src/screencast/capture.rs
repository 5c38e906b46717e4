//! Capture of the active tab with Chromium's screencast.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::demand::Pace;
use crate::active::ActiveTab;
use crate::cdp::{CdpError, Connection, Delivery, Event, SessionId, Subscription};
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::Tab;

/// Maximum side length in pixels; high-density screens are scaled down.
const MAX_SIDE_PIXELS: u32 = 1_920;
/// Delay before a failed capture is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Fraction of the frame interval after which a frame is acknowledged. The remainder is for Chromium to draw the next.
const ACK_DELAY_FRACTION: f64 = 0.8;
/// Maximum refresh interval of a static page; the interval doubles with each unchanged frame.
const MAX_REFRESH_INTERVAL: Duration = Duration::from_secs(8);

pub(super) struct Capture {
    pub(super) active: ActiveTab,
    pub(super) connection: Connection,
    /// Pace requested by viewers; `None` without viewers.
    pub(super) demand: watch::Receiver<Option<Pace>>,
    pub(super) frames: watch::Sender<Option<Bytes>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScreencastFrame<'a> {
    data: &'a str,
    /// Number for the acknowledgement of the frame.
    session_id: i64,
}

/// Next step, unless an event comes first.
enum Due {
    /// Acknowledge the frame with this number, so that Chromium sends another.
    Acknowledge(i64),
    /// Restart the capture. Chromium drops frames while one is unacknowledged, and the dropped one may be the final
    /// state of the page.
    Refresh,
    Nothing,
}

impl Capture {
    /// Runs until the browser ends or all handles are dropped.
    pub(super) async fn run(mut self) {
        let mut changes = self.active.changes();
        loop {
            // Later viewers must not receive an outdated frame.
            self.frames.send_if_modified(|frame| frame.take().is_some());
            if self.demand.wait_for(Option::is_some).await.is_err() {
                return;
            }
            changes.mark_unchanged();
            if self.connection.is_ended() {
                return;
            }
            if let Some(tab) = self.active.get() {
                self.capture(&tab, &mut changes).await;
            } else if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Captures a tab while it is active and has viewers.
    async fn capture(&mut self, tab: &Tab, changes: &mut watch::Receiver<u64>) {
        let session = tab.main_session();
        let mut events = self.connection.subscribe(Some(session.clone()), &["Page.screencastFrame"], 4);
        let Some(mut pace) = *self.demand.borrow_and_update() else { return };
        if let Err(error) = self.start(&session, pace).await {
            tracing::debug!(%error, "failed to capture tab");
            tokio::time::sleep(RETRY_DELAY).await;
            return;
        }
        // Chromium sends one frame after a start, and others when the page draws.
        let mut is_requested = true;
        let mut refresh_interval = pace.between_frames();
        let (mut due, mut due_at) = (Due::Nothing, Instant::now());
        loop {
            tokio::select! {
                frame = next_frame(&mut events) => {
                    let Some((number, jpeg)) = frame else { break };
                    let is_requested = std::mem::take(&mut is_requested);
                    let is_new = tab.check_address().is_ok() && self.publish(jpeg);
                    refresh_interval = if is_new {
                        pace.between_frames()
                    } else {
                        (refresh_interval * 2).min(MAX_REFRESH_INTERVAL)
                    };
                    let delay_fraction = if is_requested { 0.0 } else { ACK_DELAY_FRACTION };
                    due = Due::Acknowledge(number);
                    due_at = Instant::now() + pace.between_frames().mul_f64(delay_fraction);
                }
                () = sleep_until(due_at), if !matches!(due, Due::Nothing) => match due {
                    Due::Acknowledge(number) => {
                        let _ = self.send(&session, "Page.screencastFrameAck", json!({"sessionId": number})).await;
                        (due, due_at) = (Due::Refresh, Instant::now() + refresh_interval);
                    }
                    Due::Refresh | Due::Nothing => {
                        if self.start(&session, pace).await.is_err() {
                            break;
                        }
                        is_requested = true;
                        // Ask again if no frame arrives.
                        (due, due_at) = (Due::Refresh, Instant::now() + MAX_REFRESH_INTERVAL);
                    }
                },
                changed = self.demand.changed() => {
                    let Some(demand) = changed.ok().and_then(|()| *self.demand.borrow()) else { break };
                    let has_quality_changed = demand.quality != pace.quality;
                    pace = demand;
                    if has_quality_changed && self.start(&session, pace).await.is_err() {
                        break;
                    }
                    is_requested |= has_quality_changed;
                }
                _ = changes.changed() => {
                    if self.connection.is_ended() || self.active.get().is_none_or(|active| active.id() != tab.id()) {
                        break;
                    }
                }
            }
        }
        // Fails if the tab is gone.
        let _ = self.send(&session, "Page.stopScreencast", json!({})).await;
    }

    /// Publishes a frame. Returns whether it differs from the last one.
    fn publish(&self, jpeg: Bytes) -> bool {
        self.frames.send_if_modified(|shown| {
            let is_new = shown.as_ref() != Some(&jpeg);
            *shown = Some(jpeg);
            is_new
        })
    }

    /// Starts or restarts the screencast, which produces a frame of the current state.
    async fn start(&self, session: &SessionId, pace: Pace) -> Result<(), CdpError> {
        self.send(session, "Page.stopScreencast", json!({})).await?;
        let parameters = json!({
            "format": "jpeg", "quality": pace.quality.clamp(1, 100),
            "maxWidth": MAX_SIDE_PIXELS, "maxHeight": MAX_SIDE_PIXELS, "maxFramesInFlight": 1,
        });
        self.send(session, "Page.startScreencast", parameters).await
    }

    /// Sends a command to the page; none of those used here is blocked by an open dialog.
    async fn send(&self, session: &SessionId, method: &'static str, parameters: Value) -> Result<(), CdpError> {
        self.connection.call::<IgnoredAny>(Some(session), method, parameters, COMMAND_TIMEOUT).await.map(|_| ())
    }
}

/// Returns the next frame with its number, or `None` after the connection has ended.
async fn next_frame(events: &mut Subscription) -> Option<(i64, Bytes)> {
    loop {
        if let Delivery::Event(event) = events.next().await?
            && let Some(frame) = read(&event)
        {
            return Some(frame);
        }
    }
}

fn read(event: &Event) -> Option<(i64, Bytes)> {
    let frame: ScreencastFrame<'_> = event.read()?;
    let jpeg =
        STANDARD.decode(frame.data).inspect_err(|error| tracing::warn!(%error, "failed to decode screencast frame"));
    Some((frame.session_id, jpeg.ok()?.into()))
}
