//! Evaluation of the tiers on this machine, and remedies for a better one.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::canary::{self, CanaryFailure};
use super::groups::{self, Groups, GroupsUnavailable};
use super::launch::{Entry, Host, Identity};
use super::users::Users;
use super::{bubblewrap, etc, has_capability, is_initial_user_namespace, landlock_version};
use crate::{Backend, SandboxError, Tier};

/// CAP_SYS_ADMIN of linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
/// CAP_SETUID of linux/capability.h.
const CAP_SETUID: u32 = 7;
const NO_MOUNTS: &str =
    "the daemon runs as root without the permission to mount, so it cannot run programs as an unprivileged user";

/// Result of evaluating one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    pub tier: Tier,
    pub available: bool,
    /// Result as a sentence.
    pub detail: String,
    /// Action that would make the tier available.
    pub remedy: Option<String>,
}

/// Whether the kernel accounts for and limits the memory of each run, including kernel memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlGroups {
    pub is_active: bool,
    /// Location of the groups, or the reason why there are none.
    pub detail: String,
    /// Action that would make groups available.
    pub remedy: Option<String>,
}

/// Active protection against code that agents run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Backend of the policy.
    pub backend: Backend,
    /// Active tier; `None` if code is refused.
    pub tier: Option<Tier>,
    /// Reason for the active tier.
    pub reason: String,
    /// Action that would make a tier, or a better one, available.
    pub remedy: Option<String>,
    /// Evaluated tiers, in order.
    pub attempts: Vec<Attempt>,
    pub control_groups: ControlGroups,
}

#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) entry: Option<Entry>,
    pub(crate) status: Status,
}

impl Evaluation {
    /// Returns the active tier.
    ///
    /// # Errors
    /// Returns an error if no tier is active.
    pub(crate) fn entry(&self) -> Result<&Entry, SandboxError> {
        self.entry.as_ref().ok_or_else(|| SandboxError::Unavailable {
            reason: self.status.reason.clone(),
            remedy: self.status.remedy.clone().unwrap_or_else(|| "run the daemon on Linux 5.13 or newer".to_owned()),
        })
    }
}

type Found = Result<Arc<Groups>, GroupsUnavailable>;

impl From<Found> for ControlGroups {
    fn from(found: Found) -> Self {
        match found {
            Ok(groups) => Self { is_active: true, detail: groups.to_string(), remedy: None },
            Err(GroupsUnavailable { reason, remedy }) => Self { is_active: false, detail: reason, remedy },
        }
    }
}

pub(crate) async fn evaluate(host: &Host, users: &Arc<Users>, backend: Backend) -> Evaluation {
    let mut groups = if host.uses_groups { groups::find() } else { Err(GroupsUnavailable::unwanted()) };
    let tiers: &[Tier] = match backend {
        Backend::None => {
            let entry = Entry { tier: Tier::None, identity: Identity::Daemon, etc: None, groups: groups.clone().ok() };
            let reason = "configured by the owner: code runs without a sandbox".to_owned();
            let control_groups = groups.into();
            let status =
                Status { backend, tier: Some(Tier::None), reason, remedy: None, attempts: Vec::new(), control_groups };
            return Evaluation { entry: Some(entry), status };
        }
        Backend::Auto => &[Tier::Bubblewrap, Tier::Landlock],
        Backend::Bubblewrap => &[Tier::Bubblewrap],
        Backend::Landlock => &[Tier::Landlock],
    };
    let mut attempts: Vec<Attempt> = Vec::new();
    for tier in tiers {
        let (entry, attempt) = attempt(host, users, *tier, &mut groups).await;
        attempts.push(attempt);
        if entry.is_some() {
            let reason = match attempts.as_slice() {
                [only] => only.detail.clone(),
                [.., last] => format!("{}; tested first: {}", last.detail, attempts[0].detail),
                [] => String::new(),
            };
            let remedy = attempts.iter().find_map(|attempt| attempt.remedy.clone());
            let status = Status { backend, tier: Some(*tier), reason, remedy, attempts, control_groups: groups.into() };
            return Evaluation { entry, status };
        }
    }
    let reason =
        attempts.iter().map(|attempt| format!("{}: {}", attempt.tier, attempt.detail)).collect::<Vec<_>>().join("; ");
    let mut remedies: Vec<String> = attempts.iter().filter_map(|attempt| attempt.remedy.clone()).collect();
    remedies.dedup();
    let remedy = (!remedies.is_empty()).then(|| remedies.join("; or "));
    let status = Status { backend, tier: None, reason, remedy, attempts, control_groups: groups.into() };
    Evaluation { entry: None, status }
}

async fn attempt(host: &Host, users: &Arc<Users>, tier: Tier, groups: &mut Found) -> (Option<Entry>, Attempt) {
    let unavailable =
        |detail: String, remedy: Option<String>| (None, Attempt { tier, available: false, detail, remedy });
    if tier == Tier::Bubblewrap && bubblewrap::find().is_none() {
        let remedy = "install bubblewrap (Debian, Ubuntu: apt install bubblewrap)".to_owned();
        return unavailable("bubblewrap is not installed".to_owned(), Some(remedy));
    }
    let landlock = landlock_version();
    if tier == Tier::Landlock && landlock == 0 {
        let remedy = "boot Linux 5.13 or newer with `landlock` among the security modules (boot parameter lsm=)";
        return unavailable("this kernel does not enforce Landlock".to_owned(), Some(remedy.to_owned()));
    }
    let identities = identities(users);
    if identities.is_empty() {
        return unavailable(NO_MOUNTS.to_owned(), Some(namespace_remedy()));
    }
    let etc = match tier {
        Tier::Bubblewrap => match etc::create(&host.state_directory) {
            Ok(etc) => Some(Arc::new(etc)),
            Err(error) => return unavailable(format!("failed to create its /etc: {error}"), None),
        },
        Tier::Landlock | Tier::None => None,
    };
    let mut failures = Vec::new();
    for identity in identities {
        let mut entry = Entry { tier, identity, etc: etc.clone(), groups: groups.clone().ok() };
        match prove(host, &mut entry, groups).await {
            Ok(()) => {
                let user = match entry.identity {
                    Identity::Own(_) => "each run has its own user",
                    Identity::Daemon => "runs use the daemon's user",
                };
                let mut detail = format!("a test run could not escape; {user}");
                if tier == Tier::Landlock && landlock < 6 {
                    detail.push_str("; programs cannot send signals, because the kernel is older than 6.12");
                }
                if !failures.is_empty() {
                    detail = format!("{detail}, because otherwise {}", failures.join("; "));
                }
                return (Some(entry), Attempt { tier, available: true, detail, remedy: None });
            }
            Err(failure) => {
                tracing::info!(%tier, reason = %failure, "sandbox tier failed its canary");
                failures.push(failure.to_string());
                // A tier that failed as one user is not tried as another.
                if matches!(failure, CanaryFailure::Open(_)) {
                    break;
                }
            }
        }
    }
    let remedy = match tier {
        Tier::Bubblewrap => Some(namespace_remedy()),
        Tier::Landlock if rustix::process::geteuid().is_root() => Some(namespace_remedy()),
        Tier::Landlock | Tier::None => None,
    };
    unavailable(failures.join("; "), remedy)
}

/// Runs the canary with a control group, or without one if only the group fails.
async fn prove(host: &Host, entry: &mut Entry, groups: &mut Found) -> Result<(), CanaryFailure> {
    let proven = canary::prove(host, entry).await;
    let Err(failure @ (CanaryFailure::Unusable(_) | CanaryFailure::Failed(_))) = &proven else { return proven };
    if entry.groups.take().is_none() {
        return proven;
    }
    canary::prove(host, entry).await?;
    tracing::warn!(reason = %failure, "sandbox runs without a control group");
    *groups = Err(GroupsUnavailable::failed(failure));
    Ok(())
}

/// Returns the identities as which programs can run, best first.
fn identities(users: &Arc<Users>) -> Vec<Identity> {
    if !rustix::process::geteuid().is_root() {
        return vec![Identity::Daemon];
    }
    let mut identities = Vec::new();
    if has_capability(CAP_SYS_ADMIN) && has_capability(CAP_SETUID) {
        identities.push(Identity::Own(Arc::clone(users)));
    }
    // The root of a container's user namespace is an ordinary user of the machine. The machine's own root is not: the
    // kernel does not limit its number of processes.
    if !is_initial_user_namespace() {
        identities.push(Identity::Daemon);
    }
    identities
}

/// Returns the usual remedy if user namespaces or mounts are unavailable to an ordinary process.
fn namespace_remedy() -> String {
    let setting = |name: &str| std::fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
    if setting("kernel/unprivileged_userns_clone").trim() == "0" {
        return "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1".to_owned();
    }
    if setting("user/max_user_namespaces").trim() == "0" {
        return "allow user namespaces: sysctl -w user.max_user_namespaces=15000".to_owned();
    }
    if setting("kernel/apparmor_restrict_unprivileged_userns").trim() == "1" {
        return "allow user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or load an AppArmor \
                profile for bwrap that allows them"
            .to_owned();
    }
    if is_container() {
        return "permit the container to create namespaces and to mount (docker run --cap-add SYS_ADMIN --security-opt \
                seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined), or run the \
                daemon in it as an unprivileged user (docker run --user 1000) with Landlock"
            .to_owned();
    }
    "run the daemon as an unprivileged user, or store its data on a file system that supports id-mapped mounts \
     (ext4, xfs, btrfs; Linux 5.12 or newer)"
        .to_owned()
}

fn is_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
        || std::env::var_os("container").is_some()
        || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}
