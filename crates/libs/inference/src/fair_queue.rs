//! Bounded queue that is fair by client: round-robin over the waiting clients, oldest item first for each.
//!
//! Invariants: no client is overtaken twice by another. A full queue evicts an item of the client with the most items,
//! so no client can lock out another.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Fair queue. Clients are searched linearly, so it is meant for hundreds of clients, not thousands.
pub struct FairQueue<T> {
    /// Clients in order of their turns; each has at least one item.
    clients: VecDeque<(Arc<str>, VecDeque<T>)>,
    length: usize,
    capacity: usize,
}

impl<T> FairQueue<T> {
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { clients: VecDeque::new(), length: 0, capacity }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds an item and returns the evicted one, if any. In a full queue, that is the newest item of the client with
    /// the most items, or the new item if no client would have more than its own.
    pub fn push(&mut self, client: &Arc<str>, item: T) -> Option<T> {
        let mut evicted = None;
        if self.length >= self.capacity {
            let own = self.clients.iter().find(|(other, _)| other == client).map_or(0, |(_, items)| items.len());
            let Some((_, longest)) = self.clients.iter_mut().max_by_key(|(_, items)| items.len()) else {
                return Some(item);
            };
            if longest.len() <= own + 1 {
                return Some(item);
            }
            evicted = longest.pop_back();
            self.length -= 1;
        }
        self.length += 1;
        match self.clients.iter_mut().find(|(other, _)| other == client) {
            Some((_, items)) => items.push_back(item),
            None => self.clients.push_back((Arc::clone(client), VecDeque::from([item]))),
        }
        evicted
    }

    /// Removes the next item of the next client for which `is_eligible` returns true.
    pub fn pop(&mut self, is_eligible: impl Fn(&Arc<str>) -> bool) -> Option<(Arc<str>, T)> {
        let at = self.clients.iter().position(|(client, _)| is_eligible(client))?;
        let (client, mut items) = self.clients.remove(at)?;
        let item = items.pop_front()?;
        self.length -= 1;
        if !items.is_empty() {
            self.clients.push_back((Arc::clone(&client), items));
        }
        Some((client, item))
    }

    /// Retains only the items for which `is_wanted` returns true.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&T) -> bool) {
        self.clients.retain_mut(|(_, items)| {
            items.retain(&mut is_wanted);
            !items.is_empty()
        });
        self.length = self.clients.iter().map(|(_, items)| items.len()).sum();
    }

    pub fn clear(&mut self) {
        self.clients.clear();
        self.length = 0;
    }
}

impl<T> fmt::Debug for FairQueue<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FairQueue").field("clients", &self.clients.len()).field("length", &self.length).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 12;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8),
        Pop,
        /// Only of clients below this number.
        PopOf(u8),
        /// A client leaves.
        Leave(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u8..6).prop_map(Step::Push),
            2 => Just(Step::Pop),
            1 => (0u8..6).prop_map(Step::PopOf),
            1 => (0u8..6).prop_map(Step::Leave),
        ]
    }

    fn client(number: u8) -> Arc<str> {
        number.to_string().into()
    }

    fn number(client: &str) -> u8 {
        client.parse().unwrap()
    }

    proptest! {
        #[test]
        fn clients_take_turns_and_keep_their_order(steps in prop::collection::vec(step(), 0..200)) {
            let mut queue = FairQueue::new(CAPACITY);
            let mut model: HashMap<u8, VecDeque<(u8, usize)>> = HashMap::new();
            // Number of times each other client was served since a client began to wait or was last served.
            let mut passed: HashMap<u8, HashMap<u8, u32>> = HashMap::new();
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(own) => {
                        let waiting: usize = model.values().map(VecDeque::len).sum();
                        let most = model.values().map(VecDeque::len).max().unwrap_or(0);
                        let had = model.get(&own).map_or(0, VecDeque::len);
                        if had == 0 {
                            passed.remove(&own);
                        }
                        let evicted = queue.push(&client(own), (own, at));
                        model.entry(own).or_default().push_back((own, at));
                        prop_assert_eq!(evicted.is_some(), waiting == CAPACITY);
                        if let Some((loser, item)) = evicted {
                            // The newest item of the client with the most, and never of one with fewer than the new
                            // client.
                            let items = model.get_mut(&loser).unwrap();
                            prop_assert_eq!(items.pop_back(), Some((loser, item)));
                            prop_assert!(items.len() + 1 >= most.max(had));
                        }
                    }
                    Step::Pop | Step::PopOf(_) => {
                        let below = if let Step::PopOf(below) = step { below } else { u8::MAX };
                        let popped = queue.pop(|client| number(client) < below);
                        let may = model.iter().any(|(&own, items)| own < below && !items.is_empty());
                        prop_assert_eq!(popped.is_some(), may);
                        if let Some((served, item)) = popped {
                            let served = number(&served);
                            prop_assert_eq!(model.get_mut(&served).unwrap().pop_front(), Some(item));
                            passed.remove(&served);
                            for (&other, items) in &model {
                                if other != served && other < below && !items.is_empty() {
                                    let times = passed.entry(other).or_default().entry(served).or_default();
                                    *times += 1;
                                    prop_assert!(*times <= 1, "{served} went before {other} twice");
                                }
                            }
                        }
                    }
                    Step::Leave(own) => {
                        queue.retain(|(owner, _)| *owner != own);
                        model.remove(&own);
                        passed.remove(&own);
                    }
                }
                prop_assert_eq!(queue.len(), model.values().map(VecDeque::len).sum::<usize>());
                prop_assert!(queue.len() <= CAPACITY);
            }
        }
    }

    #[test]
    fn full_queue_does_not_lock_out_other_clients() {
        let (crowd, one) = (client(1), client(2));
        let mut queue = FairQueue::new(100);
        for item in 0..100 {
            assert_eq!(queue.push(&crowd, item), None);
        }
        assert_eq!(queue.push(&crowd, 100), Some(100));
        assert_eq!(queue.push(&one, 1_000), Some(99));
        assert_eq!(queue.pop(|_| true), Some((Arc::clone(&crowd), 0)));
        assert_eq!(queue.pop(|_| true), Some((one, 1_000)));
        assert_eq!((queue.pop(|client| *client != crowd), queue.len()), (None, 98));
    }
}
