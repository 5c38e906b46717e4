//! A test that hangs would hang the whole run without a word: after [`LIMIT`] the run ends and says
//! which test it was. The test harness knows no time limits itself.

#![allow(clippy::disallowed_methods, reason = "hanging is measured in real time")]

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Many times what the slowest test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
const PERIOD: Duration = Duration::from_secs(5);

static UNDER_WAY: LazyLock<Mutex<HashMap<ThreadId, (String, Instant)>>> = LazyLock::new(|| {
    thread::spawn(watch);
    Mutex::default()
});

thread_local! {
    // Dropped when the thread ends, thus after the test's runtime is gone: that can hang, too.
    static WATCHED: Watched = Watched::here();
}

struct Watched;

impl Watched {
    fn here() -> Self {
        let name = thread::current().name().unwrap_or("a thread without a name").to_owned();
        UNDER_WAY.lock().unwrap().insert(thread::current().id(), (name, Instant::now()));
        Self
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        UNDER_WAY.lock().unwrap().remove(&thread::current().id());
    }
}

/// From here on, the test that this thread runs may not take longer than the limit. (A run with one
/// thread has all tests on the main thread, where nobody can tell one from the next.)
pub fn watch_this_test() {
    if thread::current().name() != Some("main") {
        WATCHED.with(|_| ());
    }
}

fn watch() {
    loop {
        thread::sleep(PERIOD);
        let under_way = UNDER_WAY.lock().unwrap();
        if under_way.values().any(|(_, since)| since.elapsed() > LIMIT) {
            // Not by a macro: what those print is kept from sight until a test ends.
            let mut out = std::io::stderr().lock();
            for (name, since) in under_way.values() {
                let _ = writeln!(out, "HANGS? {name} has been under way for {} s", since.elapsed().as_secs());
            }
            std::process::abort();
        }
    }
}
