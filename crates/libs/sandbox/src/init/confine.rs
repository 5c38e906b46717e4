//! Confinement of the program: limits, no capabilities, a restricted view of the files, and fewer system calls.
//! Everything is prepared before the fork and applied between fork and exec.

use std::io;

use landlock::RulesetCreated;
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::BpfProgram;

use super::descriptors::close_on_exec;
use super::group::GroupEntry;
use super::syscalls::{self, Strictness};
use super::{landlocked, tree};
use crate::Tier;
use crate::host::landlock_version;
use crate::plan::Plan;

/// Minimum number of open files that interpreters need to start.
const MIN_OPEN_FILES: u64 = 64;

pub(crate) struct Confinement {
    entrances: GroupEntry,
    bounds: Vec<(Resource, u64)>,
    /// Whether this process still has capabilities that the program must not have.
    drops_capabilities: bool,
    /// Whether privileges must be locked; without a sandbox, set-user-ID programs still work.
    locks: bool,
    ruleset: Option<RulesetCreated>,
    filters: Vec<BpfProgram>,
}

impl Confinement {
    pub(crate) fn prepare(plan: &Plan, entrances: GroupEntry) -> io::Result<Self> {
        let ruleset = match plan.tier {
            Tier::Landlock => Some(landlocked::ruleset(&plan.readable, &plan.writable)?),
            Tier::Bubblewrap | Tier::None => None,
        };
        let strictness = match plan.tier {
            Tier::Bubblewrap => Some(Strictness::Namespaced),
            Tier::Landlock => {
                Some(Strictness::Shared { landlock_version: landlock_version(), own_user: plan.own_user })
            }
            Tier::None => None,
        };
        let filters = strictness.map(|strictness| syscalls::filters(strictness, entrances.is_empty())).transpose()?;
        Ok(Self {
            bounds: bounds(plan, entrances.is_empty()),
            entrances,
            drops_capabilities: plan.tier == Tier::Landlock && rustix::process::getuid().is_root(),
            locks: plan.tier != Tier::None,
            ruleset,
            filters: filters.unwrap_or_default(),
        })
    }

    /// Applies the confinement in the new process. The order matters: each step needs rights that a later one removes.
    pub(crate) fn apply(&mut self) -> io::Result<()> {
        match self.entrances.enter() {
            // Without a sandbox, unavailable measures are skipped.
            Err(error) if self.locks => return Err(error),
            _ => {}
        }
        rustix::process::setsid()?;
        // Agent code has a lower priority than the daemon; a failure is harmless.
        let _ = rustix::process::nice(5);
        for (resource, bound) in &self.bounds {
            lower(*resource, *bound)?;
        }
        if self.drops_capabilities {
            drop_capabilities()?;
        }
        close_on_exec()?;
        if self.locks {
            rustix::thread::set_no_new_privs(true)?;
        }
        if let Some(ruleset) = self.ruleset.take() {
            ruleset.restrict_self().map_err(io::Error::other)?;
        }
        for filter in &self.filters {
            seccompiler::apply_filter(filter).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Returns the resource limits. `counts`: the init counts what descriptors hold. Sockets in transit between processes
/// belong to no process, and the kernel allows a user as many of them as a process may have open files.
fn bounds(plan: &Plan, counts: bool) -> Vec<(Resource, u64)> {
    let wanted = &plan.bounds;
    let full_sockets = (wanted.memory_bytes / plan.socket_bytes.max(1)).max(MIN_OPEN_FILES);
    let mut bounds = vec![
        (Resource::Core, 0),
        (Resource::Data, wanted.memory_bytes),
        (Resource::Nofile, if counts { wanted.open_files.min(full_sockets) } else { wanted.open_files }),
        (Resource::Fsize, wanted.file_bytes),
        (Resource::Memlock, 64 << 10),
        (Resource::Msgqueue, 0),
        (Resource::Rtprio, 0),
    ];
    // The kernel counts the processes of a user. If other processes share the user, their number is added; if they are
    // not visible, only the supervisor counts.
    match (plan.own_user, plan.tier) {
        // The init's own processes and threads count too.
        (true, _) => bounds.push((Resource::Nproc, wanted.processes + 4)),
        (false, Tier::Landlock | Tier::None) => {
            bounds.push((Resource::Nproc, wanted.processes.saturating_add(tree::count_of_user())));
        }
        (false, Tier::Bubblewrap) => {}
    }
    bounds
}

/// Lowers a limit; never raises the current one.
fn lower(resource: Resource, bound: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let bound = now.maximum.map_or(bound, |maximum| maximum.min(bound));
    Ok(setrlimit(resource, Rlimit { current: Some(bound), maximum: Some(bound) })?)
}

/// Drops all capabilities of user 0, if the user cannot be changed.
fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitiesSecureBits as Bits, CapabilitySet, CapabilitySets};
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The kernel does not know a capability with this number.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            // Without permission to do so, no-new-privileges makes the set irrelevant.
            Err(rustix::io::Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    // Fails for a root without the capability, which then gains nothing on exec either.
    let _ = rustix::thread::set_capabilities_secure_bits(
        Bits::NO_ROOT | Bits::NO_ROOT_LOCKED | Bits::NO_SETUID_FIXUP | Bits::NO_SETUID_FIXUP_LOCKED,
    );
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
