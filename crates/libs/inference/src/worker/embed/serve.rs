//! The threads that embed.

use std::time::{Duration, Instant};

use crate::LocalError;
use crate::protocol::FromWorker;
use crate::worker::embed::open::{Encoder, Open, Progress};
use crate::worker::embed::{Queue, QueueKind};

/// Longest silence while there is work.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// How much less urgent texts are, in the system's steps of "niceness"; see sched(7).
const TEXT_NICENESS: i32 = 5;

/// Works on both queues until the queue is closed. `open_encoder` makes what one thread works with.
pub(crate) fn serve_all<E: Encoder>(
    open_encoder: &(impl Fn() -> Result<E, LocalError> + Sync),
    queue: &Queue,
    text_threads: usize,
    send: &(impl Fn(&FromWorker) + Sync),
) {
    std::thread::scope(|scope| {
        for _ in 0..text_threads {
            scope.spawn(|| {
                // Refused only if it is lower already.
                let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), TEXT_NICENESS);
                serve(open_encoder, queue, QueueKind::Texts, send);
            });
        }
        serve(open_encoder, queue, QueueKind::Queries, send);
    });
}

/// Works on one queue. The encoder is made when there is something to do: it takes memory.
fn serve<E: Encoder>(
    open_encoder: &impl Fn() -> Result<E, LocalError>,
    queue: &Queue,
    kind: QueueKind,
    send: &impl Fn(&FromWorker),
) {
    let mut encoder: Option<E> = None;
    let mut last_sign = Instant::now();
    while let Some(mut text) = queue.take(kind) {
        match advance(&mut encoder, open_encoder, &mut text) {
            Ok(Progress::Complete(embedded, usage)) => {
                send(&FromWorker::Embedded { id: text.id, embedded, usage });
                last_sign = Instant::now();
            }
            Ok(Progress::More) => queue.put_back(text, kind),
            Err(error) => send(&FromWorker::Failed { id: text.id, code: error.code, message: error.message }),
        }
        if last_sign.elapsed() >= SIGN_OF_LIFE {
            send(&FromWorker::Working);
            last_sign = Instant::now();
        }
    }
}

fn advance<E: Encoder>(
    encoder: &mut Option<E>,
    open_encoder: &impl Fn() -> Result<E, LocalError>,
    text: &mut Open,
) -> Result<Progress, LocalError> {
    let ready = match encoder {
        Some(ready) => ready,
        None => encoder.insert(open_encoder()?),
    };
    text.advance(ready)
}
