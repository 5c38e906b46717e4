//! Environment variables of the program.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::policy::is_reserved_variable;
use crate::{Policy, RunRequest, SandboxError};

/// Search path inside, also used to find the program.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(super) fn environment(
    policy: &Policy,
    request: &RunRequest,
    temporary: &Path,
) -> Result<Vec<(OsString, OsString)>, SandboxError> {
    let mut variables: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), PATH.into()),
        ("HOME".into(), temporary.into()),
        ("TMPDIR".into(), temporary.into()),
        ("LANG".into(), "C.UTF-8".into()),
    ];
    // A policy stored by an earlier version may name variables that are now reserved.
    let allowed = policy.env_allowlist.iter().filter(|name| !is_reserved_variable(name));
    let inherited = allowed.filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    for (name, value) in inherited.chain(request.environment.iter().cloned()) {
        if name.is_empty() || has_byte(&name, b'=') || has_byte(&name, 0) || has_byte(&value, 0) {
            return Err(SandboxError::Variable { name: name.to_string_lossy().into_owned() });
        }
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value));
    }
    Ok(variables)
}

fn has_byte(text: &OsStr, byte: u8) -> bool {
    text.as_encoded_bytes().contains(&byte)
}
