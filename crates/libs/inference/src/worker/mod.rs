//! Inference process: receives requests on standard input and sends frames on its original standard output.
//!
//! The first frame determines its task, text generation or embedding. One thread reads, so that cancellations and
//! queries are seen immediately; the main thread loads models and works. The process ends as soon as its standard input
//! closes, so it never outlives the daemon.
//!
//! Invariant: only frames are written to the pipe. Before native code runs, standard output is redirected to standard
//! error.

mod cpu;
mod embed;
pub mod engine;
mod generate;
mod inbox;
#[cfg(feature = "local-model")]
mod llama;
mod pipes;
mod scheduler;
#[cfg(test)]
mod scheduler_tests;
mod template;
mod text;
mod tool_calls;

use std::process::ExitCode;
use std::sync::Arc;

use agentd_base::{Clock, Timestamp};

pub use cpu::missing_cpu_features;

use crate::protocol::{self, ToWorker, WorkerConfiguration};
use crate::worker::inbox::Inbox;
use crate::worker::pipes::{Outbox, fail_with_message, start_reading, take_over_pipes};

/// Runs the inference process until its standard input closes. `clock` is used by templates that print the date.
#[must_use]
pub fn run(clock: &Clock) -> ExitCode {
    run_as(|configuration, inbox, outbox| generate::run(clock, configuration, inbox, outbox))
}

/// Runs the process with `serve` for text generation requests.
fn run_as(serve: impl Fn(&WorkerConfiguration, &Inbox, &Outbox) -> ExitCode) -> ExitCode {
    let (mut input, outbox) = match take_over_pipes() {
        Ok(pipes) => pipes,
        Err(error) => return fail_with_message(&format!("the inference process has no pipes to the daemon: {error}")),
    };
    match protocol::read_frame::<ToWorker>(&mut input) {
        Ok(Some(ToWorker::Configure(configuration))) => {
            let inbox = Arc::new(Inbox::new(configuration.max_parallel));
            let on_request = {
                let (inbox, outbox) = (Arc::clone(&inbox), outbox.clone());
                move |frame| generate::handle_frame(frame, &inbox, &outbox)
            };
            match start_reading(input, on_request) {
                Ok(()) => serve(&configuration, &inbox, &outbox),
                Err(error) => fail_with_message(&format!("no thread could be started: {error}")),
            }
        }
        Ok(Some(ToWorker::ConfigureEmbedder(configuration))) => {
            let queue = Arc::new(embed::Queue::new(configuration.max_queue));
            let on_request = {
                let (limits, queue, outbox) = (configuration.limits, Arc::clone(&queue), outbox.clone());
                move |frame| embed::handle_frame(frame, &limits, &queue, &outbox)
            };
            match start_reading(input, on_request) {
                Ok(()) => embed::run(&configuration, &queue, &outbox),
                Err(error) => fail_with_message(&format!("no thread could be started: {error}")),
            }
        }
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(_)) => fail_with_message("the first frame was not the configuration"),
        Err(error) => fail_with_message(&error.to_string()),
    }
}

/// Whether a chat template supports tools, with calls in a format that can be parsed.
pub(crate) fn has_tools(template: String) -> bool {
    let (none, tokens) = (String::new(), template::SpecialTokens::default());
    template::ChatTemplate::new(Some(template), none.clone(), none, tokens, Timestamp::default())
        .is_ok_and(|template| template.tool_format().is_some())
}
