//! Sending to the outside.
