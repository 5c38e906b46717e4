//! Takes spans out of the queue in batches and sends each until it is through or given up.

use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_net::GuardedClient;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::delivery::{Answer, deliver};
use crate::encoding::encode;
use crate::span::{Attribute, Span};
use crate::tracer::Shared;

/// A batch waits no longer for company.
const LINGER: Duration = Duration::from_secs(1);
const MAX_BATCH: usize = 512;
const MAX_BATCH_BYTES: usize = 1 << 20;
/// After so long a batch is given up: newer spans are worth more.
const GIVE_UP: Duration = Duration::from_secs(60);
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), multiplier: 2.0, cap: Duration::from_secs(30), jitter: 0.2 };

pub(crate) async fn run(
    shared: &Shared,
    client: &GuardedClient,
    entropy: &Entropy,
    resource: &[(&'static str, Attribute)],
) {
    let mut waiting = shared.waiting.lock().await;
    let mut stops = shared.stops();
    let mut is_failing = false;
    loop {
        let batch = next_batch(shared, &mut waiting, &mut stops).await;
        if batch.is_empty() {
            break;
        }
        let is_sent = send(shared, client, entropy, resource, &batch, &mut stops, is_failing).await;
        if is_failing && is_sent {
            tracing::info!("the collector takes spans again");
        }
        is_failing = !is_sent;
    }
    shared.note_over();
}

/// What is sent together; empty when nothing more comes.
async fn next_batch(
    shared: &Shared,
    waiting: &mut mpsc::Receiver<Span>,
    stops: &mut watch::Receiver<bool>,
) -> Vec<Span> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut until: Option<Instant> = None;
    while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
        let is_stopped = *stops.borrow();
        let linger = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            span = waiting.recv() => span,
            () = std::future::ready(()), if is_stopped => None,
            () = linger => None,
            // Looks again at what waits, and then ends.
            _ = stops.changed(), if !is_stopped => continue,
        };
        let Some(span) = next else { break };
        let weight = span.weight();
        shared.note_taken(weight);
        bytes += weight;
        batch.push(span);
        until.get_or_insert_with(|| Instant::now() + LINGER);
    }
    batch
}

/// Whether the collector has them. What fails is said once, until something gets through again.
async fn send(
    shared: &Shared,
    client: &GuardedClient,
    entropy: &Entropy,
    resource: &[(&'static str, Attribute)],
    batch: &[Span],
    stops: &mut watch::Receiver<bool>,
    is_known_to_fail: bool,
) -> bool {
    let body = match encode(resource, batch) {
        // Sent again and again without a copy.
        Ok(body) => Bytes::from(body),
        Err(error) => {
            tracing::error!(%error, "spans cannot be written and are dropped");
            shared.note_dropped(batch.len());
            return false;
        }
    };
    let begun = Instant::now();
    let mut attempt = 1;
    let mut is_told = is_known_to_fail;
    loop {
        let (problem, pause) = match deliver(client, &shared.collector, body.clone()).await {
            Answer::Taken { rejected, problem } => {
                let rejected = rejected.min(batch.len());
                shared.note_sent(batch.len() - rejected);
                shared.note_dropped(rejected);
                if rejected > 0 && !is_told {
                    tracing::warn!(rejected, problem, "the collector refuses some spans");
                }
                return rejected == 0;
            }
            Answer::Refused(problem) => (problem, None),
            Answer::Later { problem, after } => {
                (problem, Some(after.unwrap_or_else(|| BACKOFF.delay(attempt, entropy.unit()))))
            }
        };
        if !is_told {
            tracing::warn!(
                problem,
                "spans cannot be delivered to the collector; what does not fit into the queue is dropped"
            );
            is_told = true;
        }
        // A daemon that goes down tries each batch once more.
        let pause = pause.filter(|pause| !*stops.borrow() && begun.elapsed() + *pause <= GIVE_UP);
        let Some(pause) = pause else {
            shared.note_dropped(batch.len());
            return false;
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stops.wait_for(|is_stopped| *is_stopped) => {}
        }
        attempt += 1;
    }
}
