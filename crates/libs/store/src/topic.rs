//! Topics: names that notify cached values and waiting tasks of changes.
//!
//! A generation is a counter in memory that increases after a change was committed and before its caller is answered.
//! On PostgreSQL, changes by other replicas arrive as notifications, late or duplicated but not lost. Where exactness
//! matters, [`crate::Snapshot`] compares the `topics` table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::watch;

/// Name of a topic: `const AGENTS: Topic = Topic::new("agents");`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(&'static str);

impl Topic {
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Represents all topics: a whole database was loaded.
pub(crate) const EVERYTHING: Topic = Topic::new("store.everything");
/// Bumped when events are committed.
pub(crate) const OUTBOX: Topic = Topic::new("store.outbox");

/// Generation of a topic and its watchers.
#[derive(Debug)]
pub(crate) struct Signal {
    generation: AtomicU64,
    watchers: watch::Sender<u64>,
}

impl Signal {
    fn new() -> Self {
        Self { generation: AtomicU64::new(0), watchers: watch::Sender::new(0) }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn bump(&self) {
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        self.watchers.send_if_modified(|seen| {
            let is_newer = generation > *seen;
            *seen = generation.max(*seen);
            is_newer
        });
    }
}

/// Topics and wake-up signals of one open database. Bounded by the names in the program.
#[derive(Debug, Default)]
pub(crate) struct Signals(RwLock<HashMap<Cow<'static, str>, Arc<Signal>>>);

impl Signals {
    pub(crate) fn signal(&self, name: impl Into<Cow<'static, str>>) -> Arc<Signal> {
        let name = name.into();
        if let Some(signal) = self.0.read().get(&name) {
            return Arc::clone(signal);
        }
        Arc::clone(self.0.write().entry(name).or_insert_with(|| Arc::new(Signal::new())))
    }

    /// Bumps a name known to this process; unknown names have no watchers.
    pub(crate) fn bump(&self, name: &str) {
        if name == EVERYTHING.name() {
            self.bump_all();
        } else if let Some(signal) = self.0.read().get(name) {
            signal.bump();
        }
    }

    pub(crate) fn bump_all(&self) {
        for signal in self.0.read().values() {
            signal.bump();
        }
    }

    pub(crate) fn watch(&self, name: impl Into<Cow<'static, str>>) -> watch::Receiver<u64> {
        self.signal(name).watchers.subscribe()
    }
}
