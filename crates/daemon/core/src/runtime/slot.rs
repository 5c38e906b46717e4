//! Slots for upward calls, from a service to one that is constructed later.
//!
//! Domains depend downward only. A lower domain calls upward through a trait that it defines: its constructor takes a
//! [`Slot`] of that trait, and domains that are composed later bring implementations as [`Binding`]s. [`Slots::fill`]
//! connects both once, when all services exist. The start fails if a slot has no implementation, or an implementation
//! has no slot.

use std::any::{Any, type_name};
use std::sync::{Arc, OnceLock};

/// Implementations of one trait, in the order of composition. Cheap to clone.
pub struct Slot<T: ?Sized>(Arc<OnceLock<Vec<Arc<T>>>>);

impl<T: ?Sized> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> std::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("trait", &type_name::<T>()).field("implementations", &self.all().len()).finish()
    }
}

impl<T: ?Sized> Slot<T> {
    /// All implementations; empty before the slot is filled.
    #[must_use]
    pub fn all(&self) -> &[Arc<T>] {
        self.0.get().map_or(&[], Vec::as_slice)
    }

    /// First implementation, for a trait with exactly one; `None` before the slot is filled.
    #[must_use]
    pub fn get(&self) -> Option<&Arc<T>> {
        self.all().first()
    }
}

/// Implementation of a trait that a lower domain calls.
pub struct Binding {
    name: &'static str,
    /// An `Arc<T>`, where `T` is the trait.
    implementation: Box<dyn Any + Send>,
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Binding").field(&self.name).finish()
    }
}

impl Binding {
    /// Binds an implementation to the slot of its trait: `Binding::new::<dyn TurnSink>(Arc::new(chat))`.
    #[must_use]
    pub fn new<T: ?Sized + Send + Sync + 'static>(implementation: Arc<T>) -> Self {
        Self { name: type_name::<T>(), implementation: Box::new(implementation) }
    }
}

/// Moves the bindings of a slot from the list into the slot. Returns whether there were any.
type FillSlot = Box<dyn FnOnce(&mut Vec<Binding>) -> bool + Send>;

/// Slots of a daemon during its composition.
#[derive(Default)]
pub struct Slots(Vec<(&'static str, FillSlot)>);

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Slots {
    /// Creates the empty slot of a trait. Each trait has one slot.
    pub fn create<T: ?Sized + Send + Sync + 'static>(&mut self) -> Slot<T> {
        let slot = Slot(Arc::default());
        let filled = slot.clone();
        let fill = move |bindings: &mut Vec<Binding>| {
            let (mut own, mut others) = (Vec::new(), Vec::new());
            for Binding { name, implementation } in std::mem::take(bindings) {
                match implementation.downcast::<Arc<T>>() {
                    Ok(implementation) => own.push(*implementation),
                    Err(implementation) => others.push(Binding { name, implementation }),
                }
            }
            *bindings = others;
            let is_filled = !own.is_empty();
            // The only call that sets it: the closure is `FnOnce`.
            let _ = filled.0.set(own);
            is_filled
        };
        self.0.push((type_name::<T>(), Box::new(fill)));
        slot
    }

    /// Fills every slot with the implementations of its trait, in their order.
    ///
    /// # Errors
    /// `SlotError` if a slot has no implementation or an implementation has no slot; the message lists all of them.
    pub fn fill(self, mut bindings: Vec<Binding>) -> Result<(), SlotError> {
        let mut empty: Vec<&str> = Vec::new();
        for (name, fill) in self.0 {
            if !fill(&mut bindings) {
                empty.push(name);
            }
        }
        if !empty.is_empty() {
            return Err(SlotError::Empty(empty.join(", ")));
        }
        let unused: Vec<&str> = bindings.iter().map(|binding| binding.name).collect();
        if unused.is_empty() { Ok(()) } else { Err(SlotError::Unused(unused.join(", "))) }
    }
}

/// Error in the composition of the daemon.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    #[error("composition error: no implementation is bound to the slots {0}; this is a bug, please report it")]
    Empty(String),
    #[error("composition error: no slot accepts {0}; this is a bug, please report it")]
    Unused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    trait Listens: Send + Sync {
        fn name(&self) -> &'static str;
    }
    trait Forgotten: Send + Sync {}

    impl Listens for &'static str {
        fn name(&self) -> &'static str {
            self
        }
    }
    impl Forgotten for &'static str {}

    #[test]
    fn slot_contains_implementations_of_its_trait_in_order() {
        let mut slots = Slots::default();
        let (listeners, numbers): (Slot<dyn Listens>, Slot<u8>) = (slots.create(), slots.create());
        assert!(listeners.get().is_none() && numbers.all().is_empty());
        let bound = [Binding::new::<dyn Listens>(Arc::new("a")), Binding::new(Arc::new(1_u8))];
        slots.fill(bound.into_iter().chain([Binding::new::<dyn Listens>(Arc::new("b"))]).collect()).unwrap();
        let names: Vec<_> = listeners.all().iter().map(|listener| listener.name()).collect();
        assert_eq!((names, numbers.get().map(|number| **number)), (vec!["a", "b"], Some(1)));
    }

    #[test]
    fn fill_fails_with_name_of_empty_slot() {
        let mut slots = Slots::default();
        let _: (Slot<dyn Listens>, Slot<dyn Forgotten>) = (slots.create(), slots.create());
        let refusal = slots.fill(vec![Binding::new::<dyn Listens>(Arc::new("a"))]).unwrap_err().to_string();
        assert!(
            refusal.contains("no implementation is bound to the slots dyn ") && refusal.contains("::Forgotten;"),
            "{refusal}"
        );
    }

    #[test]
    fn fill_fails_with_name_of_implementation_without_slot() {
        let refusal =
            Slots::default().fill(vec![Binding::new::<dyn Forgotten>(Arc::new("a"))]).unwrap_err().to_string();
        assert!(refusal.contains("no slot accepts dyn ") && refusal.contains("::Forgotten;"), "{refusal}");
    }
}
