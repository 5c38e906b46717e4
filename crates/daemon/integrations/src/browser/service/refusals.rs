//! Requests that the proxy refused or could not deliver, so that a navigation that ends there fails with the reason.

use std::collections::VecDeque;

use agentd_net::{NetError, ProxyObserver};
use parking_lot::Mutex;
use url::Url;

const MAX_ENTRIES: usize = 64;

#[derive(Debug)]
struct Entry {
    number: u64,
    host: String,
    port: u16,
    error: NetError,
}

/// The last requests that the proxy answered by itself. Refusals and failures have a list each, so that one kind
/// does not push out the other.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    count: u64,
    refused: VecDeque<Entry>,
    failed: VecDeque<Entry>,
}

impl Refusals {
    /// Number of entries so far.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// Returns why the server of `url` was refused, if that came after the first `count` entries.
    pub(super) fn refused_since(&self, count: u64, url: &str) -> Option<NetError> {
        find(&self.0.lock().refused, count, url)
    }

    /// Returns why the server of `url` could not be reached, if that came after the first `count` entries.
    pub(super) fn failed_since(&self, count: u64, url: &str) -> Option<NetError> {
        find(&self.0.lock().failed, count, url)
    }
}

fn find(entries: &VecDeque<Entry>, count: u64, url: &str) -> Option<NetError> {
    let url = Url::parse(url).ok()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_match =
        |entry: &&Entry| entry.number > count && entry.port == port && (entry.host == host || entry.host == bare);
    entries.iter().rev().find(is_match).map(|entry| entry.error.clone())
}

impl Entries {
    fn next(&mut self, host: &str, port: u16, error: &NetError) -> Entry {
        self.count += 1;
        Entry { number: self.count, host: host.to_owned(), port, error: error.clone() }
    }
}

fn push(entries: &mut VecDeque<Entry>, entry: Entry) {
    if entries.len() == MAX_ENTRIES {
        entries.pop_front();
    }
    entries.push_back(entry);
}

impl ProxyObserver for Refusals {
    fn refused(&self, host: &str, port: u16, reason: &NetError) {
        let mut entries = self.0.lock();
        let entry = entries.next(host, port, reason);
        push(&mut entries.refused, entry);
    }

    fn failed(&self, host: &str, port: u16, error: &NetError) {
        let mut entries = self.0.lock();
        let entry = entries.next(host, port, error);
        push(&mut entries.failed, entry);
    }
}
