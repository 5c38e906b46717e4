//! Running recording: every action of any actor is added to it before it is answered.

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_browser::{Action, ActionOutcome, ActionRequest, Context, Recorded, Recorder, Tab};
use parking_lot::Mutex;

use crate::browser::error::BrowserError;
use crate::browser::files::{RecordingFiles, RecordingWriter};
use crate::browser::model::{BrowserAction, MAX_RECORDINGS, RecordingHeader, RecordingState, RecordingSummary};

/// State of recordings.
#[derive(Debug)]
pub(super) struct Recordings {
    pub(super) files: RecordingFiles,
    running: Mutex<Option<Arc<Running>>>,
    /// Serializes starts and stops.
    change_lock: tokio::sync::Mutex<()>,
    /// Held by the running replay.
    pub(super) replaying: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Running {
    recorder: Recorder,
    active: Arc<tokio::sync::Mutex<ActiveRecording>>,
}

#[derive(Debug)]
struct ActiveRecording {
    summary: RecordingSummary,
    /// `None` once it has ended.
    writer: Option<RecordingWriter>,
}

impl Recordings {
    pub(super) fn new(files: RecordingFiles) -> Self {
        let (running, change_lock, replaying) = Default::default();
        Self { files, running, change_lock, replaying }
    }

    fn running(&self) -> Option<Arc<Running>> {
        self.running.lock().clone()
    }

    /// Returns the summary of the running recording.
    pub(super) async fn running_summary(&self) -> Option<RecordingSummary> {
        Some(self.running()?.active.lock().await.summary.clone())
    }
    /// Starts a recording.
    ///
    /// # Errors
    /// A recording is running, there are too many, or the disk fails.
    pub(super) async fn start(
        &self,
        header: RecordingHeader,
        recorder: Recorder,
    ) -> Result<RecordingSummary, BrowserError> {
        let _guard = self.change_lock.lock().await;
        if self.running().is_some() {
            return Err(BrowserError::RecordingRunning);
        }
        let (summary, files) = (RecordingSummary::new(header), self.files.clone());
        let header = summary.header.clone();
        let writer = blocking(move || {
            let count = files.count()?;
            if count >= MAX_RECORDINGS { Ok(None) } else { files.create(&header).map(Some) }
        })
        .await?
        .ok_or(BrowserError::TooManyRecordings)?;
        let active = ActiveRecording { summary: summary.clone(), writer: Some(writer) };
        let running = Running { recorder, active: Arc::new(tokio::sync::Mutex::new(active)) };
        *self.running.lock() = Some(Arc::new(running));
        Ok(summary)
    }

    /// Stops the recording. Actions in progress are not included.
    ///
    /// # Errors
    /// No recording is running.
    pub(super) async fn stop(&self, now: Timestamp) -> Result<RecordingSummary, BrowserError> {
        let _guard = self.change_lock.lock().await;
        let running = self.running().ok_or(BrowserError::NotRecording)?;
        let mut active = Arc::clone(&running.active).lock_owned().await;
        let summary = blocking(move || {
            let elapsed = now.since(active.summary.header.started_at).as_millis();
            if active.writer.is_some() {
                active.summary.duration_ms = active.summary.duration_ms.max(u64::try_from(elapsed).unwrap_or(u64::MAX));
            }
            active.end(RecordingState::Complete);
            Ok(active.summary.clone())
        })
        .await?;
        *self.running.lock() = None;
        Ok(summary)
    }

    /// Performs `request`, the request of `action`, and adds it to the running recording.
    pub(super) async fn act(
        &self,
        context: &Context,
        tab: &Arc<Tab>,
        action: &BrowserAction,
        request: ActionRequest,
    ) -> Result<ActionOutcome, agentd_browser::BrowserError> {
        let Some(running) = self.running() else { return tab.act(request).await };
        // Another action may wait for this answer to a dialog.
        let is_answer = matches!(action.action, Action::HandleDialog { .. });
        let _turn = if is_answer { None } else { Some(running.recorder.turn().await) };
        if running.active.lock().await.writer.is_none() {
            return tab.act(request).await;
        }
        let recorded = running.recorder.act(context, tab, request, action.to_fields()).await?;
        let outcome = recorded.outcome.clone();
        let mut active = Arc::clone(&running.active).lock_owned().await;
        // Completes even if the caller is dropped, so that the action is recorded.
        if let Err(error) = tokio::task::spawn_blocking(move || active.add(recorded)).await {
            tracing::error!(%error, "failed to add action to recording");
        }
        Ok(outcome)
    }
}

impl ActiveRecording {
    /// Appends a step. A write error ends the recording; earlier steps are retained.
    fn add(&mut self, recorded: Recorded) {
        let Some(writer) = &mut self.writer else { return };
        let written = writer.append(self.summary.action_count, recorded.step, recorded.picture.as_deref());
        match written {
            Ok((active, size_bytes)) => self.summary.add(&active.step, size_bytes),
            Err(error) => {
                tracing::warn!(%error, "recording ended early; failed to write action");
                self.end(RecordingState::Cut);
            }
        }
        if self.summary.is_full() {
            self.end(RecordingState::Cut);
        }
    }

    fn end(&mut self, state: RecordingState) {
        let Some(writer) = self.writer.take() else { return };
        self.summary.state = state;
        if let Err(error) = writer.finish(&self.summary) {
            tracing::warn!(%error, "failed to write recording summary");
        }
    }
}

/// Runs file operations on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, BrowserError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(std::io::Error::other).flatten().map_err(BrowserError::Recording)
}
