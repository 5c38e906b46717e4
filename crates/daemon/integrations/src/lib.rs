//! Chat platforms, remote devices, and the browser domain.

pub mod browser;
pub mod channels;
pub mod devices;
