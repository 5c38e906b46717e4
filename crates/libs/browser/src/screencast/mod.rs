//! What the active tab shows, as it changes, for any number of viewers.
//!
//! Invariants
//! - There is one capture, at the pace of the viewer that wants the most, and none while nobody looks.
//! - Only the newest picture is kept: a viewer that is slow misses older ones and holds nobody up.
//! - Who joins has a picture at once, also of a page that stands still.
//! - What a page came to is shown in the end, even where it came to it between two pictures.

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
use demand::{Demand, Wish};
pub use demand::{MAX_FRAMES_PER_SECOND, Pace};

/// The capture of a context, started by the first viewer.
#[derive(Debug, Default)]
pub(crate) struct Screencast(OnceLock<Running>);

#[derive(Debug)]
struct Running {
    demand: Arc<Demand>,
    frames: watch::Receiver<Option<Bytes>>,
    /// Ends with the context.
    _task: JoinSet<()>,
}

/// Somebody who looks at the active tab.
#[derive(Debug)]
pub struct Viewer {
    wish: Wish,
    pace: Pace,
    frames: watch::Receiver<Option<Bytes>>,
    not_before: Instant,
}

impl Screencast {
    /// Looks at the active tab, whichever it is, until the viewer is dropped. Must be called within a runtime.
    pub(crate) fn watch(&self, active: &ActiveTab, connection: &Connection, pace: Pace) -> Viewer {
        let running = self.0.get_or_init(|| {
            let (demand, wanted) = Demand::new();
            let (frames, receiver) = watch::channel(None);
            let (active, connection) = (active.clone(), connection.clone());
            let mut task = JoinSet::new();
            task.spawn(Capture { active, connection, wanted, frames }.run());
            Running { demand, frames: receiver, _task: task }
        });
        Viewer {
            wish: Demand::join(&running.demand, pace),
            pace,
            // This one has seen nothing: a picture that is there is given at once.
            frames: running.frames.clone(),
            not_before: Instant::now(),
        }
    }
}

impl Viewer {
    /// The newest JPEG that this viewer has not seen, not sooner after the one before than it wanted. `None` after the
    /// end of the browser. May be dropped while it waits.
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

    /// From now on.
    pub fn set_pace(&mut self, pace: Pace) {
        if pace != self.pace {
            self.pace = pace;
            self.not_before = self.not_before.min(Instant::now() + pace.between_frames());
            self.wish.change(pace);
        }
    }
}
