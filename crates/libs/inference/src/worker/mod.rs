//! The inference process: requests in on standard input, frames out on what was standard output.
//!
//! What it is for, writing replies or embedding texts, is said by the first frame. One thread
//! reads, so that a cancellation or a query is seen at once; the main one loads models and works. The process ends as soon as its standard input closes, whatever it is doing, so it
//! never outlives the daemon.
//!
//! Invariant: nothing but frames goes over the pipe. Before native code runs, standard output is
//! made the same as standard error.

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
use crate::worker::pipes::{Outbox, complain, start_reading, take_over_pipes};

/// Runs the inference process until its standard input closes. `clock` is for templates that print the date.
#[must_use]
pub fn run(clock: &Clock) -> ExitCode {
    run_as(|configuration, inbox, outbox| generate::run(clock, configuration, inbox, outbox))
}

/// Runs the process; `serve` answers requests for replies.
fn run_as(serve: impl Fn(&WorkerConfiguration, &Inbox, &Outbox) -> ExitCode) -> ExitCode {
    let (mut input, outbox) = match take_over_pipes() {
        Ok(pipes) => pipes,
        Err(error) => return complain(&format!("the inference process has no pipes to the daemon: {error}")),
    };
    match protocol::read_frame::<ToWorker>(&mut input) {
        Ok(Some(ToWorker::Configure(configuration))) => {
            let inbox = Arc::new(Inbox::new(configuration.max_parallel));
            let on_request = {
                let (inbox, outbox) = (Arc::clone(&inbox), outbox.clone());
                move |frame| generate::take_in(frame, &inbox, &outbox)
            };
            match start_reading(input, on_request) {
                Ok(()) => serve(&configuration, &inbox, &outbox),
                Err(error) => complain(&format!("no thread could be started: {error}")),
            }
        }
        Ok(Some(ToWorker::ConfigureEmbedder(configuration))) => {
            let queue = Arc::new(embed::Queue::new(configuration.max_queue));
            let on_request = {
                let (limits, queue, outbox) = (configuration.limits, Arc::clone(&queue), outbox.clone());
                move |frame| embed::take_in(frame, &limits, &queue, &outbox)
            };
            match start_reading(input, on_request) {
                Ok(()) => embed::run(&configuration, &queue, &outbox),
                Err(error) => complain(&format!("no thread could be started: {error}")),
            }
        }
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(_)) => complain("the first frame was not the configuration"),
        Err(error) => complain(&error.to_string()),
    }
}

/// Whether a chat template puts tools into the prompt, and calls in a form that can be read back.
pub(crate) fn has_tools(template: String) -> bool {
    let (none, tokens) = (String::new(), template::SpecialTokens::default());
    template::ChatTemplate::new(Some(template), none.clone(), none, tokens, Timestamp::default())
        .is_ok_and(|template| template.tool_format().is_some())
}
