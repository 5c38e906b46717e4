//! Slots for upward calls, from a service to one that is constructed later.
//!
//! Domains depend downward only. A lower domain calls upward through a trait that it defines; the implementation is put
//! into a [`Slot`] once, after both services exist. [`Filler::fill`] takes the filler by value, so no slot is filled
//! twice. [`Slots::check`] refuses the start if a slot is empty.

use std::sync::{Arc, OnceLock};

/// A value that is set once, when the daemon is composed. Cheap to clone.
pub struct Slot<T>(Arc<OnceLock<T>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> std::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("is_filled", &self.0.get().is_some()).finish()
    }
}

impl<T> Slot<T> {
    /// The value, or `None` before the slot is filled.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }
}

impl<T> Slot<Vec<T>> {
    /// The values; empty before the slot is filled.
    #[must_use]
    pub fn all(&self) -> &[T] {
        self.0.get().map_or(&[], Vec::as_slice)
    }
}

/// Fills one slot.
#[must_use = "a slot that is not filled refuses the start"]
pub struct Filler<T>(Slot<T>);

impl<T> std::fmt::Debug for Filler<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filler")
    }
}

impl<T> Filler<T> {
    pub fn fill(self, value: T) {
        // This is the only filler of the slot, and it is used up.
        let _ = self.0.0.set(value);
    }
}

/// The slots of one daemon.
#[derive(Default)]
pub struct Slots(Vec<(&'static str, IsFilled)>);

type IsFilled = Box<dyn Fn() -> bool + Send>;

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Slots {
    /// Creates an empty slot and its filler. The error of [`check`](Self::check) contains `name`.
    pub fn create<T: Send + Sync + 'static>(&mut self, name: &'static str) -> (Slot<T>, Filler<T>) {
        let slot = Slot(Arc::default());
        let checked = slot.clone();
        self.0.push((name, Box::new(move || checked.0.get().is_some())));
        (slot.clone(), Filler(slot))
    }

    /// # Errors
    /// At least one slot is empty; the message lists all of them.
    pub fn check(&self) -> Result<(), EmptySlots> {
        let empty: Vec<&str> = self.0.iter().filter(|(_, is_filled)| !is_filled()).map(|(name, _)| *name).collect();
        if empty.is_empty() { Ok(()) } else { Err(EmptySlots(empty.join(", "))) }
    }
}

/// Slots that `compose` did not fill. This is a bug.
#[derive(Debug, thiserror::Error)]
#[error("the daemon is not composed completely: nothing fills the slots {0}; this is a bug, please report it")]
pub struct EmptySlots(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_slot_refuses_the_start_by_its_name() {
        let mut slots = Slots::default();
        let (kept, fill_kept) = slots.create::<u8>("kept");
        let (listed, fill_listed) = slots.create::<Vec<u8>>("listed");
        let (_, forgotten) = slots.create::<u8>("forgotten");
        assert!(kept.get().is_none() && listed.all().is_empty());
        fill_kept.fill(1);
        fill_listed.fill(vec![2]);
        drop(forgotten);
        assert_eq!((kept.get(), listed.all()), (Some(&1), &[2][..]));
        let refusal = slots.check().unwrap_err().to_string();
        assert!(refusal.contains("slots forgotten;"), "{refusal}");
    }
}
