//! Which files can be reached in the Landlock tier. What no rule opens stays shut, whoever owns it.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

/// The newest version whose rights are known here; older kernels enforce what they know, and the
/// seccomp filter makes up for what they lack.
const KNOWN: ABI = ABI::V6;
/// Devices without state.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

pub(crate) fn ruleset(readable: &[PathBuf], writable: &[PathBuf]) -> io::Result<RulesetCreated> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))
        .map_err(io::Error::other)?
        // No port is opened by any rule, so TCP is shut twice.
        .handle_access(AccessNet::from_all(KNOWN))
        .map_err(io::Error::other)?
        .scope(Scope::from_all(KNOWN))
        .map_err(io::Error::other)?
        .create()
        .map_err(io::Error::other)?;
    for path in readable {
        ruleset = open(ruleset, path, AccessFs::from_read(KNOWN))?;
    }
    for path in writable {
        ruleset = open(ruleset, path, AccessFs::from_all(KNOWN))?;
    }
    for device in DEVICES {
        ruleset = open(ruleset, device.as_ref(), AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    Ok(ruleset)
}

fn open(ruleset: RulesetCreated, path: &std::path::Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let is_directory = std::fs::metadata(path)?.is_dir();
    let access = if is_directory { access } else { access & AccessFs::from_file(KNOWN) };
    let handle = PathFd::new(path).map_err(io::Error::other)?;
    ruleset.add_rule(PathBeneath::new(handle, access)).map_err(io::Error::other)
}
