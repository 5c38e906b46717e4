//! Chat platforms, remote devices, and the browser as a domain.

pub mod browser;
pub mod channels;
pub mod devices;
