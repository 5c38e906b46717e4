//! SQL of the domain. Hashes go in and out as 32 bytes; no plaintext reaches this module.

pub(super) mod accounts;
pub(super) mod bootstrap;
pub(super) mod failures;
pub(super) mod keys;
pub(super) mod sessions;
pub(super) mod tickets;

/// SHA-256 of a key, token or ticket.
pub(super) type Hash = [u8; 32];
