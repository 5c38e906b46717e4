//! What the program is left with: bounds, no rights, a view of the files, and fewer system calls.
//! Everything is prepared before the fork and applied between fork and exec.

use std::io;

use landlock::RulesetCreated;
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::BpfProgram;

use super::descriptors::close_on_exec;
use super::group::Entrances;
use super::syscalls::{self, Strictness};
use super::{landlocked, tree};
use crate::Tier;
use crate::host::landlock_version;
use crate::plan::Plan;

/// What interpreters need to start.
const FEWEST_OPEN_FILES: u64 = 64;

pub(crate) struct Confinement {
    entrances: Entrances,
    bounds: Vec<(Resource, u64)>,
    /// Whether this process still has rights that the program must not have.
    drops_capabilities: bool,
    /// Where there is no box, programs that gain rights when they start still do so.
    locks: bool,
    ruleset: Option<RulesetCreated>,
    filters: Vec<BpfProgram>,
}

impl Confinement {
    pub(crate) fn prepare(plan: &Plan, entrances: Entrances) -> io::Result<Self> {
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

    /// In the new process. The order matters: each step needs what a later one takes away.
    pub(crate) fn apply(&mut self) -> io::Result<()> {
        match self.entrances.enter() {
            // Without a box what cannot be had is done without.
            Err(error) if self.locks => return Err(error),
            _ => {}
        }
        rustix::process::setsid()?;
        // Code that runs for others yields to the daemon; a refusal costs only politeness.
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

/// `counts`: the init counts what descriptors hold. Sockets on the way between processes are nobody's, and
/// the kernel lets a user have as many of them on the way as a process may have open.
fn bounds(plan: &Plan, counts: bool) -> Vec<(Resource, u64)> {
    let wanted = &plan.bounds;
    let full_sockets = (wanted.memory_bytes / plan.socket_bytes.max(1)).max(FEWEST_OPEN_FILES);
    let mut bounds = vec![
        (Resource::Core, 0),
        (Resource::Data, wanted.memory_bytes),
        (Resource::Nofile, if counts { wanted.open_files.min(full_sockets) } else { wanted.open_files }),
        (Resource::Fsize, wanted.file_bytes),
        (Resource::Memlock, 64 << 10),
        (Resource::Msgqueue, 0),
        (Resource::Rtprio, 0),
    ];
    // The kernel counts the processes of a user. Where others share the user, what they have is
    // added; where those cannot even be seen, the supervisor counts alone.
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

/// Never above what is already in force.
fn lower(resource: Resource, bound: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let bound = now.maximum.map_or(bound, |maximum| maximum.min(bound));
    Ok(setrlimit(resource, Rlimit { current: Some(bound), maximum: Some(bound) })?)
}

/// For user 0 where the user cannot be changed: a root without any of root's rights.
fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitiesSecureBits as Bits, CapabilitySet, CapabilitySets};
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The kernel knows no capability with this number.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            // Without the right to do so, no-new-privileges keeps the set from mattering.
            Err(rustix::io::Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    // Refused to a root that lacks the right; then it gains nothing on exec either.
    let _ = rustix::thread::set_capabilities_secure_bits(
        Bits::NO_ROOT | Bits::NO_ROOT_LOCKED | Bits::NO_SETUID_FIXUP | Bits::NO_SETUID_FIXUP_LOCKED,
    );
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
