//! Aborts the test run when a test exceeds [`LIMIT`] and names the test. The test harness has no time limits.

#![allow(clippy::disallowed_methods, reason = "hangs are measured in real time")]

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Many times the duration of the slowest test on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

static RUNNING: LazyLock<Mutex<HashMap<ThreadId, (String, Instant)>>> = LazyLock::new(|| {
    thread::spawn(watch);
    Mutex::default()
});

thread_local! {
    // Dropped when the thread ends, after the runtime of the test, which may hang too.
    static WATCHED: Watched = Watched::here();
}

struct Watched;

impl Watched {
    fn here() -> Self {
        let name = thread::current().name().unwrap_or("unnamed thread").to_owned();
        RUNNING.lock().unwrap().insert(thread::current().id(), (name, Instant::now()));
        Self
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        RUNNING.lock().unwrap().remove(&thread::current().id());
    }
}

/// Starts the time limit for the test on this thread. With one test thread all tests run on the main thread and
/// cannot be
/// distinguished, so none is watched.
pub fn watch_this_test() {
    if thread::current().name() != Some("main") {
        WATCHED.with(|_| ());
    }
}

fn watch() {
    loop {
        thread::sleep(CHECK_INTERVAL);
        let running = RUNNING.lock().unwrap();
        if running.values().any(|(_, since)| since.elapsed() > LIMIT) {
            // Not a macro, because the output of macros is captured until the test ends.
            let mut out = std::io::stderr().lock();
            for (name, since) in running.values() {
                let _ = writeln!(out, "HANGS? {name} has been running for {} s", since.elapsed().as_secs());
            }
            std::process::abort();
        }
    }
}
