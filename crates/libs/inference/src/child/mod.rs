//! What every inference process has in common, whatever it is for: being started, restarted after a
//! pause, ended when it hangs or idles, and explained when it fails.
//!
//! Deliberately absent: requests and their answers. Each kind has a supervisor of its own for those.

mod keeper;
mod process;

pub(crate) use keeper::{Happened, Keeper, KeeperOptions};
pub(crate) use process::resident_bytes;
