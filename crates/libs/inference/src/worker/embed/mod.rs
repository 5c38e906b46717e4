//! The process that embeds: one model, texts in, vectors out.
//!
//! One thread embeds queries, some others texts, each with a context of the engine of its own and
//! nothing to wait for. Threads that share a context would meet at the engine's barriers hundreds of
//! times a chunk, and be many times slower than one as soon as a neighbour is busy. Those for texts
//! are less urgent to the system than queries and the daemon.
//!
//! Deliberately absent: choosing among models. The configuration names the only one.

#[cfg_attr(not(any(feature = "local-model", test)), allow(dead_code, reason = "without an engine nothing is embedded"))]
mod open;
mod queue;
#[cfg(any(feature = "local-model", test))]
mod serve;
#[cfg(test)]
mod serve_tests;

use std::process::ExitCode;

#[cfg(feature = "local-model")]
pub(crate) use open::Encoder;
pub(crate) use open::Open;
pub(crate) use queue::{Queue, QueueKind};

use crate::LocalErrorCode;
use crate::embedder::EmbedderLimits;
use crate::protocol::{EmbedderConfiguration, FromWorker, ToWorker};
use crate::worker::pipes::{Misplaced, Outbox};

/// A request to the process that embeds.
pub(super) fn take_in(
    frame: ToWorker,
    limits: &EmbedderLimits,
    queue: &Queue,
    outbox: &Outbox,
) -> Result<(), Misplaced> {
    match frame {
        ToWorker::Embed { id, is_query, text } => {
            let kind = if is_query { QueueKind::Queries } else { QueueKind::Texts };
            if !queue.push(Open::new(id, text, is_query, limits), kind) {
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
    use crate::worker::pipes::loading_sign;
    use crate::worker::{llama, missing_cpu_features};

    if let Some(missing) = missing_cpu_features() {
        let message = format!("no text can be embedded: {missing}");
        return refuse_all(queue, outbox, LocalErrorCode::UnsupportedCpu, &message);
    }
    let engine = match llama::Engine::new() {
        Ok(engine) => engine,
        Err(error) => return refuse_all(queue, outbox, error.code, &error.message),
    };
    let path = &configuration.model_path;
    while queue.wait() {
        match engine.load_encoder(configuration, loading_sign(outbox, path)) {
            Ok(model) => {
                let context_length = u32::try_from(configuration.limits.max_chunk_tokens).unwrap_or(u32::MAX);
                outbox.send(&FromWorker::Loaded { model_path: path.clone(), context_length });
                let send = |frame: &FromWorker| outbox.send(frame);
                serve::serve_all(&|| model.encoder(configuration), queue, text_threads(configuration), &send);
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

/// Threads for texts. Those of a small machine may all be busy: they give way to what is urgent.
#[cfg(feature = "local-model")]
fn text_threads(configuration: &EmbedderConfiguration) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let suitable = match cores {
        1 => 1,
        2..8 => 2,
        _ => 4,
    };
    configuration.text_threads.unwrap_or(suitable).max(1)
}

#[cfg(not(feature = "local-model"))]
pub(super) fn run(_: &EmbedderConfiguration, queue: &Queue, outbox: &Outbox) -> ExitCode {
    const NOT_BUILT_IN: &str = "this binary was built without the models inside; build it with the feature \
                                `local-model` to find texts by their meaning";
    refuse_all(queue, outbox, LocalErrorCode::Unavailable, NOT_BUILT_IN)
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
