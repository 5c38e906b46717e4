//! Landlock rules for files. Everything without a rule is inaccessible, regardless of its owner.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

/// Newest supported ABI. Older kernels enforce the rights they know, and the seccomp filter compensates for the rest.
const LANDLOCK_ABI: ABI = ABI::V6;
/// Stateless devices.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

pub(crate) fn ruleset(readable: &[PathBuf], writable: &[PathBuf]) -> io::Result<RulesetCreated> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))
        .map_err(io::Error::other)?
        // No rule permits a port, so TCP is blocked twice.
        .handle_access(AccessNet::from_all(LANDLOCK_ABI))
        .map_err(io::Error::other)?
        .scope(Scope::from_all(LANDLOCK_ABI))
        .map_err(io::Error::other)?
        .create()
        .map_err(io::Error::other)?;
    for path in readable {
        ruleset = allow(ruleset, path, AccessFs::from_read(LANDLOCK_ABI))?;
    }
    for path in writable {
        ruleset = allow(ruleset, path, AccessFs::from_all(LANDLOCK_ABI))?;
    }
    for device in DEVICES {
        ruleset = allow(ruleset, device.as_ref(), AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    Ok(ruleset)
}

fn allow(ruleset: RulesetCreated, path: &std::path::Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let is_directory = std::fs::metadata(path)?.is_dir();
    let access = if is_directory { access } else { access & AccessFs::from_file(LANDLOCK_ABI) };
    let handle = PathFd::new(path).map_err(io::Error::other)?;
    ruleset.add_rule(PathBeneath::new(handle, access)).map_err(io::Error::other)
}
