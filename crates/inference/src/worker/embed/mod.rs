//! The process that embeds: one model, texts in, vectors out.
//!
//! Deliberately absent: choosing among models. The configuration names the only one.

mod queue;
#[cfg(any(feature = "local-model", test))]
pub(crate) mod schedule;
#[cfg(test)]
mod schedule_tests;

use std::process::ExitCode;

pub(crate) use queue::{Queue, Waiting};

use crate::LocalErrorCode;
use crate::protocol::{EmbedderConfiguration, FromWorker, ToWorker};
use crate::worker::{Misplaced, Outbox};

/// A request to the process that embeds.
pub(super) fn take_in(frame: ToWorker, queue: &Queue, outbox: &Outbox) -> Result<(), Misplaced> {
    match frame {
        ToWorker::Embed { id, is_query, text } => {
            if !queue.push(Waiting { id, text }, is_query) {
                outbox.send(&FromWorker::Failed {
                    id,
                    code: LocalErrorCode::Overloaded,
                    message: "too many texts wait for the embedder; try again later".to_owned(),
                });
            }
            Ok(())
        }
        // What is embedded soon anyway is not cancelled.
        ToWorker::Cancel { .. } => Ok(()),
        ToWorker::Configure(_) | ToWorker::ConfigureEmbedder(_) => Err(Misplaced("the configuration came twice")),
        ToWorker::Generate { .. } => Err(Misplaced("this process writes no replies")),
    }
}

/// Answers requests for as long as the daemon asks.
#[cfg(feature = "local-model")]
pub(super) fn run(configuration: &EmbedderConfiguration, queue: &Queue, outbox: &Outbox) -> ExitCode {
    use crate::worker::{llama, loading_sign, missing_cpu_features};

    if let Some(missing) = missing_cpu_features() {
        return refuse_all(queue, outbox, LocalErrorCode::UnsupportedCpu, &missing);
    }
    let engine = match llama::Engine::new() {
        Ok(engine) => engine,
        Err(error) => return refuse_all(queue, outbox, error.code, &error.message),
    };
    let path = &configuration.model_path;
    while queue.wait() {
        let loaded = engine.load_encoder(configuration, loading_sign(outbox, path));
        match loaded.as_ref().map_err(Clone::clone).and_then(|model| model.encoder(configuration)) {
            Ok(mut encoder) => {
                let context_length = encoder.context_length();
                outbox.send(&FromWorker::Loaded { model_path: path.clone(), context_length });
                schedule::serve(&mut encoder, queue, &configuration.limits, &|frame| outbox.send(frame));
                return ExitCode::SUCCESS;
            }
            Err(error) => {
                while let Some(waiting) = queue.take_any() {
                    let (code, message) = (error.code, error.message.clone());
                    outbox.send(&FromWorker::Failed { id: waiting.id, code, message });
                }
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(not(feature = "local-model"))]
pub(super) fn run(_: &EmbedderConfiguration, queue: &Queue, outbox: &Outbox) -> ExitCode {
    refuse_all(queue, outbox, LocalErrorCode::Unavailable, crate::NOT_BUILT_IN)
}

/// Answers every request with the same error.
fn refuse_all(queue: &Queue, outbox: &Outbox, code: LocalErrorCode, message: &str) -> ExitCode {
    while queue.wait() {
        while let Some(waiting) = queue.take_any() {
            outbox.send(&FromWorker::Failed { id: waiting.id, code, message: message.to_owned() });
        }
    }
    ExitCode::SUCCESS
}
