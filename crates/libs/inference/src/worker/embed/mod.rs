//! Embedding process: one model, texts in, vectors out.
//!
//! One thread embeds queries and some others texts, each with its own context of the engine and without
//! synchronization. Threads that share a context would meet at the engine's barriers hundreds of times per chunk, and
//! be many times slower than a single thread as soon as another process uses a core. Threads for texts have a lower
//! priority than queries and the daemon.
//!
//! Out of scope: selection of models. The configuration names the only one.

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
pub(crate) use open::OpenText;
pub(crate) use queue::{Queue, QueueKind};

use crate::LocalErrorCode;
use crate::embedder::EmbedderLimits;
use crate::protocol::{EmbedderConfiguration, FromWorker, ToWorker};
use crate::worker::pipes::{Outbox, UnexpectedFrame};

/// Handles a frame of the embedding process.
pub(super) fn handle_frame(
    frame: ToWorker,
    limits: &EmbedderLimits,
    queue: &Queue,
    outbox: &Outbox,
) -> Result<(), UnexpectedFrame> {
    match frame {
        ToWorker::Embed { id, is_query, text } => {
            let kind = if is_query { QueueKind::Queries } else { QueueKind::Texts };
            if !queue.push(OpenText::new(id, text, is_query, limits), kind) {
                outbox.send(&FromWorker::Failed {
                    id,
                    code: LocalErrorCode::Overloaded,
                    message: "too many texts are waiting for the embedder; retry later".to_owned(),
                });
            }
            Ok(())
        }
        // Not cancelled, since the embedding takes little time.
        ToWorker::Cancel { .. } => Ok(()),
        ToWorker::Configure(_) | ToWorker::ConfigureEmbedder(_) => {
            Err(UnexpectedFrame("the configuration was sent twice"))
        }
        ToWorker::Generate { .. } => Err(UnexpectedFrame("this process writes no replies")),
    }
}

/// Serves requests until the process ends.
#[cfg(feature = "local-model")]
pub(super) fn run(configuration: &EmbedderConfiguration, queue: &Queue, outbox: &Outbox) -> ExitCode {
    use crate::worker::pipes::loading_reporter;
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
        match engine.load_encoder(configuration, loading_reporter(outbox, path)) {
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

/// Returns the number of threads for texts. On a small machine all cores may be used, since these threads have a low
/// priority.
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

/// Rejects every request with the same error.
fn refuse_all(queue: &Queue, outbox: &Outbox, code: LocalErrorCode, message: &str) -> ExitCode {
    while queue.wait() {
        while let Some(waiting) = queue.take_any() {
            outbox.send(&FromWorker::Failed { id: waiting.id, code, message: message.to_owned() });
        }
    }
    ExitCode::SUCCESS
}
