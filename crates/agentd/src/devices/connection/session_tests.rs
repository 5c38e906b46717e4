//! What a connection does by the clock.
