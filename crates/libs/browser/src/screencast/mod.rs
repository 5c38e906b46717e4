//! Live view of the active tab for any number of viewers.
//!
//! Invariants
//! - One capture runs at the highest pace requested, and none without viewers.
//! - Only the latest frame is retained: a slow viewer misses older frames and does not delay others.
//! - A new viewer receives a frame immediately, even of a static page.
//! - The final state of a page is always shown, even if it was reached between two frames.

mod capture;
mod demand;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::active::ActiveTab;
use crate::cdp::Connection;
use capture::Capture;
use demand::{Demand, PaceRequest};
pub use demand::{MAX_FRAMES_PER_SECOND, Pace};

/// Screencast of a context, started by the first viewer.
#[derive(Debug, Default)]
pub(crate) struct Screencast(OnceLock<Running>);

#[derive(Debug)]
struct Running {
    demand: Arc<Demand>,
    frames: watch::Receiver<Option<Bytes>>,
    /// Capture task, which ends with the context.
    _task: JoinSet<()>,
}

/// Viewer of the active tab.
#[derive(Debug)]
pub struct Viewer {
    request: PaceRequest,
    pace: Pace,
    frames: watch::Receiver<Option<Bytes>>,
    not_before: Instant,
}

impl Screencast {
    /// Streams the active tab until the viewer is dropped. Must be called within a runtime.
    pub(crate) fn watch(&self, active: &ActiveTab, connection: &Connection, pace: Pace) -> Viewer {
        let running = self.0.get_or_init(|| {
            let (demand, total) = Demand::new();
            let (frames, receiver) = watch::channel(None);
            let (active, connection) = (active.clone(), connection.clone());
            let mut task = JoinSet::new();
            task.spawn(Capture { active, connection, demand: total, frames }.run());
            Running { demand, frames: receiver, _task: task }
        });
        Viewer {
            request: Demand::request(&running.demand, pace),
            pace,
            // A cloned receiver treats the existing frame as new.
            frames: running.frames.clone(),
            not_before: Instant::now(),
        }
    }
}

impl Viewer {
    /// Returns the latest unseen JPEG, not before the frame interval has passed. Returns `None` after the browser has
    /// ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        tokio::time::sleep_until(self.not_before).await;
        loop {
            self.frames.changed().await.ok()?;
            let frame = self.frames.borrow_and_update().clone();
            if let Some(frame) = frame {
                self.not_before = Instant::now() + self.pace.between_frames();
                return Some(frame);
            }
        }
    }

    /// Changes the pace from now on.
    pub fn set_pace(&mut self, pace: Pace) {
        if pace != self.pace {
            self.pace = pace;
            self.not_before = self.not_before.min(Instant::now() + pace.between_frames());
            self.request.change(pace);
        }
    }
}
