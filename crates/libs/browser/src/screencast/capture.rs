//! The capture: Chromium's screencast of one tab after the other.

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
use crate::cdp::{CdpError, Connection, Event, Heard, SessionId, Subscription};
use crate::shared::QUICK;
use crate::tab::Tab;

/// A screen of many dots a point is drawn smaller.
const MAX_SIDE: u32 = 1_920;
/// A tab that cannot be captured is tried again after so long.
const PAUSE: Duration = Duration::from_secs(1);
/// Of the time between two pictures, how much passes before the next one is asked for. The rest is Chromium's, to draw.
const PATIENCE: f64 = 0.8;
/// A page that stands still is looked at again after twice as long each time, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

pub(super) struct Capture {
    pub(super) active: ActiveTab,
    pub(super) connection: Connection,
    /// What viewers want; nothing while there is none.
    pub(super) wanted: watch::Receiver<Option<Pace>>,
    pub(super) frames: watch::Sender<Option<Bytes>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScreencastFrame<'a> {
    data: &'a str,
    /// The number of the picture, to acknowledge it by.
    session_id: i64,
}

/// What is to be done next, if nothing happens before.
enum Due {
    /// Tell Chromium that the picture of this number is taken: only then it sends another one.
    Acknowledge(i64),
    /// Chromium drops what a page draws while a picture is not acknowledged. Where nothing came since, what was dropped
    /// may be how the page stays.
    LookAgain,
    Nothing,
}

impl Capture {
    /// Until the end of the browser or of its users.
    pub(super) async fn run(mut self) {
        let mut changes = self.active.changes();
        loop {
            // An old picture is none for whoever comes next.
            self.frames.send_if_modified(|frame| frame.take().is_some());
            if self.wanted.wait_for(Option::is_some).await.is_err() {
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

    /// Captures a tab while it is the active one and somebody looks.
    async fn capture(&mut self, tab: &Tab, changes: &mut watch::Receiver<u64>) {
        let session = tab.main_session();
        let mut events = self.connection.subscribe(Some(session.clone()), &["Page.screencastFrame"], 4);
        let Some(mut pace) = *self.wanted.borrow_and_update() else { return };
        if let Err(error) = self.start(&session, pace).await {
            tracing::debug!(%error, "a tab could not be captured");
            tokio::time::sleep(PAUSE).await;
            return;
        }
        // Chromium sends a picture of its own after a start, and others when the page has drawn.
        let mut is_asked_for = true;
        let mut pause = pace.between_frames();
        let (mut due, mut due_at) = (Due::Nothing, Instant::now());
        loop {
            tokio::select! {
                frame = next_frame(&mut events) => {
                    let Some((number, jpeg)) = frame else { break };
                    let is_asked_for = std::mem::take(&mut is_asked_for);
                    let is_new = tab.check_address().is_ok() && self.show(jpeg);
                    pause = if is_new { pace.between_frames() } else { (pause * 2).min(LONGEST_PAUSE) };
                    let patience = if is_asked_for { 0.0 } else { PATIENCE };
                    (due, due_at) = (Due::Acknowledge(number), Instant::now() + pace.between_frames().mul_f64(patience));
                }
                () = sleep_until(due_at), if !matches!(due, Due::Nothing) => match due {
                    Due::Acknowledge(number) => {
                        let _ = self.tell(&session, "Page.screencastFrameAck", json!({"sessionId": number})).await;
                        (due, due_at) = (Due::LookAgain, Instant::now() + pause);
                    }
                    Due::LookAgain | Due::Nothing => {
                        if self.start(&session, pace).await.is_err() {
                            break;
                        }
                        is_asked_for = true;
                        // Should no picture come, it is asked for again.
                        (due, due_at) = (Due::LookAgain, Instant::now() + LONGEST_PAUSE);
                    }
                },
                changed = self.wanted.changed() => {
                    let Some(wanted) = changed.ok().and_then(|()| *self.wanted.borrow()) else { break };
                    let is_other = wanted.quality != pace.quality;
                    pace = wanted;
                    if is_other && self.start(&session, pace).await.is_err() {
                        break;
                    }
                    is_asked_for |= is_other;
                }
                _ = changes.changed() => {
                    if self.connection.is_ended() || self.active.get().is_none_or(|active| active.id() != tab.id()) {
                        break;
                    }
                }
            }
        }
        // It fails where the tab is gone.
        let _ = self.tell(&session, "Page.stopScreencast", json!({})).await;
    }

    /// Answers whether the picture is another one than the last.
    fn show(&self, jpeg: Bytes) -> bool {
        self.frames.send_if_modified(|shown| {
            let is_new = shown.as_ref() != Some(&jpeg);
            *shown = Some(jpeg);
            is_new
        })
    }

    /// Starts, or starts again: then there is a picture of what is shown now.
    async fn start(&self, session: &SessionId, pace: Pace) -> Result<(), CdpError> {
        self.tell(session, "Page.stopScreencast", json!({})).await?;
        let parameters = json!({
            "format": "jpeg", "quality": pace.quality.clamp(1, 100),
            "maxWidth": MAX_SIDE, "maxHeight": MAX_SIDE, "maxFramesInFlight": 1,
        });
        self.tell(session, "Page.startScreencast", parameters).await
    }

    /// An open dialog of the page keeps none of this from being answered.
    async fn tell(&self, session: &SessionId, method: &'static str, parameters: Value) -> Result<(), CdpError> {
        self.connection.call::<IgnoredAny>(Some(session), method, parameters, QUICK).await.map(|_| ())
    }
}

/// The next picture with its number; `None` at the end of the connection.
async fn next_frame(events: &mut Subscription) -> Option<(i64, Bytes)> {
    loop {
        if let Heard::Event(event) = events.next().await?
            && let Some(frame) = read(&event)
        {
            return Some(frame);
        }
    }
}

fn read(event: &Event) -> Option<(i64, Bytes)> {
    let frame: ScreencastFrame<'_> = event.read()?;
    let jpeg = STANDARD.decode(frame.data).inspect_err(|error| tracing::warn!(%error, "a picture could not be read"));
    Some((frame.session_id, jpeg.ok()?.into()))
}
