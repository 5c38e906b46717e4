//! The recording that runs: what is done in the browser, by whomever, is added to it before it is answered.

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_browser::{Action, ActionOutcome, ActionRequest, Context, Recorded, Recorder, Tab};
use parking_lot::Mutex;

use crate::browser::error::BrowserError;
use crate::browser::files::{RecordingFiles, RecordingWriter};
use crate::browser::model::{BrowserAction, MAX_RECORDINGS, RecordingHeader, RecordingState, RecordingSummary};

/// What recordings are made with.
#[derive(Debug)]
pub(super) struct Recordings {
    pub(super) files: RecordingFiles,
    running: Mutex<Option<Arc<Running>>>,
    /// One start or stop at a time.
    changing: tokio::sync::Mutex<()>,
    /// Held by the replay that runs.
    pub(super) replaying: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Running {
    recorder: Recorder,
    kept: Arc<tokio::sync::Mutex<Kept>>,
}

#[derive(Debug)]
struct Kept {
    summary: RecordingSummary,
    /// None once it has ended.
    writer: Option<RecordingWriter>,
}

impl Recordings {
    pub(super) fn new(files: RecordingFiles) -> Self {
        let (running, changing, replaying) = Default::default();
        Self { files, running, changing, replaying }
    }

    fn running(&self) -> Option<Arc<Running>> {
        self.running.lock().clone()
    }

    /// Of the recording that runs.
    pub(super) async fn present(&self) -> Option<RecordingSummary> {
        Some(self.running()?.kept.lock().await.summary.clone())
    }
    /// Begins a recording.
    ///
    /// # Errors
    /// One runs, there are too many, or the disk does not take it.
    pub(super) async fn start(
        &self,
        header: RecordingHeader,
        recorder: Recorder,
    ) -> Result<RecordingSummary, BrowserError> {
        let _one = self.changing.lock().await;
        if self.running().is_some() {
            return Err(BrowserError::RecordingRuns);
        }
        let (summary, files) = (RecordingSummary::new(header), self.files.clone());
        let header = summary.header.clone();
        let writer = blocking(move || {
            let count = files.count()?;
            if count >= MAX_RECORDINGS { Ok(None) } else { files.create(&header).map(Some) }
        })
        .await?
        .ok_or(BrowserError::TooManyRecordings)?;
        let kept = Kept { summary: summary.clone(), writer: Some(writer) };
        let running = Running { recorder, kept: Arc::new(tokio::sync::Mutex::new(kept)) };
        *self.running.lock() = Some(Arc::new(running));
        Ok(summary)
    }

    /// Ends the recording. What is under way is not in it.
    ///
    /// # Errors
    /// None runs.
    pub(super) async fn stop(&self, now: Timestamp) -> Result<RecordingSummary, BrowserError> {
        let _one = self.changing.lock().await;
        let running = self.running().ok_or(BrowserError::NotRecording)?;
        let mut kept = Arc::clone(&running.kept).lock_owned().await;
        let summary = blocking(move || {
            let passed = now.since(kept.summary.header.started_at).as_millis();
            if kept.writer.is_some() {
                kept.summary.duration_ms = kept.summary.duration_ms.max(u64::try_from(passed).unwrap_or(u64::MAX));
            }
            kept.end(RecordingState::Complete);
            Ok(kept.summary.clone())
        })
        .await?;
        *self.running.lock() = None;
        Ok(summary)
    }

    /// Does `request`, which is that of `action`, and adds it to the recording that runs.
    pub(super) async fn act(
        &self,
        context: &Context,
        tab: &Arc<Tab>,
        action: &BrowserAction,
        request: ActionRequest,
    ) -> Result<ActionOutcome, agentd_browser::BrowserError> {
        let Some(running) = self.running() else { return tab.act(request).await };
        // An action may be waiting for the answer to a dialog.
        let is_answer = matches!(action.action, Action::HandleDialog { .. });
        let _turn = if is_answer { None } else { Some(running.recorder.turn().await) };
        if running.kept.lock().await.writer.is_none() {
            return tab.act(request).await;
        }
        let recorded = running.recorder.act(context, tab, request, action.to_fields()).await?;
        let outcome = recorded.outcome.clone();
        let mut kept = Arc::clone(&running.kept).lock_owned().await;
        // It goes on without whoever asked: what was done is kept.
        if let Err(error) = tokio::task::spawn_blocking(move || kept.add(recorded)).await {
            tracing::error!(%error, "an action could not be added to a recording");
        }
        Ok(outcome)
    }
}

impl Kept {
    /// What cannot be kept any more ends it; what was kept stays.
    fn add(&mut self, recorded: Recorded) {
        let Some(writer) = &mut self.writer else { return };
        let written = writer.append(self.summary.action_count, recorded.step, recorded.picture.as_deref());
        match written {
            Ok((kept, size_bytes)) => self.summary.add(&kept.step, size_bytes),
            Err(error) => {
                tracing::warn!(%error, "a recording ends here: an action could not be written to it");
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
            tracing::warn!(%error, "how a recording ended could not be written; its steps are there");
        }
    }
}

/// Work with files, where it holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, BrowserError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(std::io::Error::other).flatten().map_err(BrowserError::Recording)
}
