//! Text generation process: one model at a time, selected by the requests.

use std::path::Path;
use std::process::ExitCode;

use agentd_base::Clock;

use crate::protocol::{FromWorker, ToWorker, WorkerConfiguration, WorkerUsage};
use crate::worker::inbox::{Cancelled, Inbox, QueuedRequest};
use crate::worker::pipes::{LoadingReporter, Outbox, UnexpectedFrame, loading_reporter};
use crate::worker::scheduler;
#[cfg(feature = "local-model")]
use crate::worker::{llama, missing_cpu_features};
use crate::{FinishReason, LocalError, LocalErrorCode};

/// Handles a frame of the text generation process.
pub(super) fn handle_frame(frame: ToWorker, inbox: &Inbox, outbox: &Outbox) -> Result<(), UnexpectedFrame> {
    match frame {
        ToWorker::Generate { id, request } => {
            if inbox.push(QueuedRequest { id, request }).is_err() {
                outbox.send(&FromWorker::Failed {
                    id,
                    code: LocalErrorCode::Overloaded,
                    message: "too many requests are waiting for the built-in model; retry later".to_owned(),
                });
            }
            Ok(())
        }
        ToWorker::Cancel { id } => {
            if inbox.cancel(id) == Cancelled::Queued {
                let (usage, calls) = (WorkerUsage::default(), Vec::new());
                outbox.send(&FromWorker::Finished { id, reason: FinishReason::Cancelled, usage, calls });
            }
            Ok(())
        }
        ToWorker::Configure(_) | ToWorker::ConfigureEmbedder(_) => {
            Err(UnexpectedFrame("the configuration was sent twice"))
        }
        ToWorker::Embed { .. } => Err(UnexpectedFrame("this process does not embed texts")),
    }
}

/// Serves requests until the process ends.
#[cfg(feature = "local-model")]
pub(super) fn run(clock: &Clock, configuration: &WorkerConfiguration, inbox: &Inbox, outbox: &Outbox) -> ExitCode {
    if let Some(missing) = missing_cpu_features() {
        return refuse_all(inbox, outbox, LocalErrorCode::UnsupportedCpu, &missing);
    }
    let engine = match llama::Engine::new() {
        Ok(engine) => engine,
        Err(error) => return refuse_all(inbox, outbox, error.code, &error.message),
    };
    serve_models(configuration, inbox, outbox, |path, reporter| {
        engine.load(path, configuration.context_length, clock.now(), reporter)
    })
}

#[cfg(not(feature = "local-model"))]
pub(super) fn run(_: &Clock, _: &WorkerConfiguration, inbox: &Inbox, outbox: &Outbox) -> ExitCode {
    refuse_all(inbox, outbox, LocalErrorCode::Unavailable, crate::NOT_BUILT_IN)
}

/// Loads the requested models, and serves the requests for each.
pub(super) fn serve_models<M: scheduler::Model>(
    configuration: &WorkerConfiguration,
    inbox: &Inbox,
    outbox: &Outbox,
    load: impl Fn(&Path, LoadingReporter) -> Result<M, LocalError>,
) -> ExitCode {
    loop {
        let model_path = inbox.wait();
        match load(&model_path, loading_reporter(outbox, &model_path)) {
            Ok(model) => {
                let context_length = model.context_length();
                outbox.send(&FromWorker::Loaded { model_path: model_path.clone(), context_length });
                scheduler::serve(&model, &model_path, inbox, configuration, &|frame| outbox.send(frame));
            }
            Err(error) => {
                while let Some(waiting) = inbox.take(&model_path) {
                    inbox.done(waiting.id);
                    let (code, message) = (error.code, error.message.clone());
                    outbox.send(&FromWorker::Failed { id: waiting.id, code, message });
                }
            }
        }
    }
}

/// Rejects every request with the same error until the process ends.
fn refuse_all(inbox: &Inbox, outbox: &Outbox, code: LocalErrorCode, message: &str) -> ExitCode {
    loop {
        let model_path = inbox.wait();
        while let Some(waiting) = inbox.take(&model_path) {
            inbox.done(waiting.id);
            outbox.send(&FromWorker::Failed { id: waiting.id, code, message: message.to_owned() });
        }
    }
}
