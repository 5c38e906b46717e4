//! What the proxy refused lately, so that whoever went there is told.

use std::collections::VecDeque;

use agentd_net::{NetError, ProxyObserver};
use parking_lot::Mutex;
use url::Url;

const KEPT: usize = 64;

#[derive(Debug)]
struct Refusal {
    number: u64,
    host: String,
    port: u16,
    reason: NetError,
}

/// The last refusals of a proxy.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    last: VecDeque<Refusal>,
}

impl Refusals {
    /// How many there were so far.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// Why the server of `url` was refused, if that came after the first `count` refusals.
    pub(super) fn since(&self, count: u64, url: &str) -> Option<NetError> {
        let url = Url::parse(url).ok()?;
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let kept = self.0.lock();
        let is_meant = |refusal: &&Refusal| {
            refusal.number > count && refusal.port == port && (refusal.host == host || refusal.host == bare)
        };
        kept.last.iter().rev().find(is_meant).map(|refusal| refusal.reason.clone())
    }
}

impl ProxyObserver for Refusals {
    fn refused(&self, host: &str, port: u16, reason: &NetError) {
        let mut kept = self.0.lock();
        kept.count += 1;
        if kept.last.len() == KEPT {
            kept.last.pop_front();
        }
        let refusal = Refusal { number: kept.count, host: host.to_owned(), port, reason: reason.clone() };
        kept.last.push_back(refusal);
    }
}
