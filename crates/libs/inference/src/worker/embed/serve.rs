//! Embedding threads.

use std::time::{Duration, Instant};

use crate::LocalError;
use crate::protocol::FromWorker;
use crate::worker::embed::open::{Encoder, OpenText, Progress};
use crate::worker::embed::{Queue, QueueKind};

/// Maximum time between frames while there is work.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Niceness of the threads for texts, which have a lower priority than queries; see sched(7).
const TEXT_NICENESS: i32 = 5;

/// Processes both queues until they are closed. `open_encoder` creates the encoder of one thread.
pub(crate) fn serve_all<E: Encoder>(
    open_encoder: &(impl Fn() -> Result<E, LocalError> + Sync),
    queue: &Queue,
    text_threads: usize,
    send: &(impl Fn(&FromWorker) + Sync),
) {
    std::thread::scope(|scope| {
        for _ in 0..text_threads {
            scope.spawn(|| {
                // Fails only if the priority is already lower.
                let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), TEXT_NICENESS);
                serve(open_encoder, queue, QueueKind::Texts, send);
            });
        }
        serve(open_encoder, queue, QueueKind::Queries, send);
    });
}

/// Processes one queue. The encoder is created on demand, since it uses memory.
fn serve<E: Encoder>(
    open_encoder: &impl Fn() -> Result<E, LocalError>,
    queue: &Queue,
    kind: QueueKind,
    send: &impl Fn(&FromWorker),
) {
    let mut encoder: Option<E> = None;
    let mut last_frame_at = Instant::now();
    while let Some(mut text) = queue.take(kind) {
        match advance(&mut encoder, open_encoder, &mut text) {
            Ok(Progress::Complete(embedded, usage)) => {
                send(&FromWorker::Embedded { id: text.id, embedded, usage });
                last_frame_at = Instant::now();
            }
            Ok(Progress::More) => queue.put_back(text, kind),
            Err(error) => send(&FromWorker::Failed { id: text.id, code: error.code, message: error.message }),
        }
        if last_frame_at.elapsed() >= KEEP_ALIVE_INTERVAL {
            send(&FromWorker::Working);
            last_frame_at = Instant::now();
        }
    }
}

fn advance<E: Encoder>(
    encoder: &mut Option<E>,
    open_encoder: &impl Fn() -> Result<E, LocalError>,
    text: &mut OpenText,
) -> Result<Progress, LocalError> {
    let ready = match encoder {
        Some(ready) => ready,
        None => encoder.insert(open_encoder()?),
    };
    text.advance(ready)
}
