//! User ids for programs, if the daemon is root.
//!
//! Every run gets a user id that is not used by any other at that time. Signals, the kernel's process count and other
//! users' files are thereby out of reach without further rules. The daemon's files are mapped to that user by an
//! id-mapped mount, so on the disk they still belong to the daemon.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_process::{SpawnRequest, Spawner, Stream};
use tokio::io::AsyncReadExt;
use tokio::sync::OnceCell;

use crate::SandboxError;
use crate::init::HOLD_USER_NAMESPACE;

/// Maximum number of concurrent runs.
pub(crate) const MAX_RUNS: usize = 128;
/// First id, above the ranges of distributions, systemd and container engines (systemd.io/UIDS-GIDS).
const FIRST_ID: u32 = 0x7100_0000;
/// First id in a container with only the usual 65,536 ids.
const FIRST_SMALL_ID: u32 = 62_000;

#[derive(Debug)]
struct Slot {
    taken: AtomicBool,
    /// User namespace whose user 0 is this slot's user, as required by an id-mapped mount.
    namespace: OnceCell<Arc<OwnedFd>>,
}

#[derive(Debug)]
pub(crate) struct Users {
    first: u32,
    slots: Vec<Slot>,
    spawner: Spawner,
    /// Daemon's binary and the arguments of its hidden subcommand.
    init: (PathBuf, Vec<std::ffi::OsString>),
}

/// User that is reserved until this is dropped.
#[derive(Debug)]
pub(crate) struct UserLease {
    users: Arc<Users>,
    slot: usize,
    pub(crate) namespace: Arc<OwnedFd>,
}

impl Users {
    pub(crate) fn new(spawner: Spawner, program: PathBuf, arguments: Vec<std::ffi::OsString>) -> Self {
        // Two daemons on one machine get different ids, as far as their process ids differ.
        let first = FIRST_ID + (std::process::id() & 0xffff) * MAX_RUNS as u32;
        let first = if is_mapped(first) { first } else { FIRST_SMALL_ID };
        let slots = (0..MAX_RUNS).map(|_| Slot { taken: AtomicBool::new(false), namespace: OnceCell::new() });
        Self { first, slots: slots.collect(), spawner, init: (program, arguments) }
    }

    pub(crate) async fn lease(self: &Arc<Self>) -> Result<UserLease, SandboxError> {
        let free = |slot: &Slot| slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // The lowest first, so that few namespaces are created.
        let slot = self.slots.iter().position(free).ok_or(SandboxError::Busy { limit: MAX_RUNS })?;
        let guard = SlotGuard { users: self, slot: Some(slot) };
        let namespace = self.slots[slot]
            .namespace
            .get_or_try_init(|| self.user_namespace(self.first + slot as u32))
            .await
            .cloned()
            .map_err(SandboxError::prepare("a user namespace for id-mapped mounts"))?;
        guard.disarm();
        Ok(UserLease { users: Arc::clone(self), slot, namespace })
    }

    /// Creates a user namespace: a helper process enters a new namespace, the daemon maps its users, opens the
    /// namespace and ends the process.
    async fn user_namespace(&self, user: u32) -> io::Result<Arc<OwnedFd>> {
        let mut request = SpawnRequest::new(self.init.0.clone());
        request.arguments = self.init.1.clone();
        request.arguments.push(HOLD_USER_NAMESPACE.into());
        request.stdin = Stream::Pipe;
        request.stdout = Stream::Pipe;
        let mut child = self.spawner.spawn(request).await.map_err(io::Error::other)?;
        if let Some(stdout) = &mut child.stdout {
            stdout.read_exact(&mut [0; 1]).await?;
        }
        let process = format!("/proc/{}", child.pid());
        std::fs::write(format!("{process}/uid_map"), format!("0 {user} 1"))?;
        std::fs::write(format!("{process}/gid_map"), format!("0 {user} 1"))?;
        Ok(Arc::new(File::open(format!("{process}/ns/user"))?.into()))
    }
}

struct SlotGuard<'a> {
    users: &'a Users,
    slot: Option<usize>,
}

impl SlotGuard<'_> {
    fn disarm(mut self) {
        self.slot = None;
    }
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.users.slots[slot].taken.store(false, Ordering::Release);
        }
    }
}

impl UserLease {
    pub(crate) fn id(&self) -> u32 {
        self.users.first + self.slot as u32
    }
}

impl Drop for UserLease {
    fn drop(&mut self) {
        drop(SlotGuard { users: &self.users, slot: Some(self.slot) });
    }
}

/// Whether this id exists in the daemon's user namespace.
fn is_mapped(id: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else { return false };
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers.as_slice(), [first, _, count] if (*first..first + count).contains(&u64::from(id)))
    })
}
