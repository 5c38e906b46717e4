//! Start of a sandbox for a request.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_process::{BeforeExec, Child, SpawnRequest, Spawner, Stream};
use rustix::fs::{CWD, MemfdFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;

use super::bubblewrap;
use super::directories;
use super::environment::environment;
use super::groups::{Group, Groups};
use super::paths::{self, Exposure};
use super::stage::{MAX_EXPOSURES, Stage};
use super::users::{UserLease, Users};
use crate::folder::{FolderAccess, open_folder};
use crate::init::RUN;
use crate::plan::{Bounds, GroupDescriptors, Plan, Probe};
use crate::{Policy, RunRequest, SandboxError, Tier};

/// Identity as which programs run.
#[derive(Debug, Clone)]
pub(crate) enum Identity {
    /// The daemon's own user.
    Daemon,
    /// A separate user for each run; requires root.
    Own(Arc<Users>),
}

/// Tier, with its configuration on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) tier: Tier,
    pub(crate) identity: Identity,
    /// Private `/etc`, if the tier uses one.
    pub(crate) etc: Option<Arc<tempfile::TempDir>>,
    /// Control groups for runs, if available.
    pub(crate) groups: Option<Arc<Groups>>,
}

/// Configuration shared by all runs.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) spawner: Spawner,
    /// Daemon's binary, opened once, so that an upgrade that replaces the file has no effect.
    pub(crate) init: Arc<OwnedFd>,
    pub(crate) init_arguments: Vec<OsString>,
    /// Directory for the temporary data of runs, mode 0700.
    pub(crate) state_directory: PathBuf,
    /// Paths that are never opened to a program.
    pub(crate) guarded: Vec<PathBuf>,
    /// Whether control groups are used.
    pub(crate) uses_groups: bool,
}

/// Resources released when the run has ended.
#[derive(Debug)]
pub(crate) struct Resources {
    _user: Option<UserLease>,
    directory: Option<tempfile::TempDir>,
    _etc: Option<Arc<tempfile::TempDir>>,
    _group: Option<Group>,
}

impl Drop for Resources {
    fn drop(&mut self) {
        // A failed removal, caused by closed folders in it, would keep the directory.
        let removed = self.directory.take().map(|directory| crate::folder::remove_path(&directory.keep()));
        if let Some(Err(error)) = removed {
            tracing::warn!(%error, "failed to remove temporary directory of run");
        }
    }
}

#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) child: Child,
    pub(crate) report: pipe::Receiver,
    /// Open as long as the run may continue.
    pub(crate) control: OwnedFd,
    pub(crate) resources: Resources,
}

impl Host {
    /// Whether a writable folder of the policy can currently be opened.
    ///
    /// # Errors
    /// Returns the reason if it cannot.
    pub(crate) fn check_writable(&self, path: &Path) -> Result<(), SandboxError> {
        paths::resolve(&[], &[path.to_path_buf()], &self.guarded)?;
        if paths::is_own(path, &self.guarded) {
            return Err(SandboxError::PathRefused { path: path.to_path_buf(), reason: "it is the daemon's own data" });
        }
        Ok(())
    }

    /// Starts the sandbox. With `probe`, it is a canary.
    pub(crate) async fn launch(
        &self,
        entry: &Entry,
        policy: &Policy,
        request: &RunRequest,
        probe: Option<Probe>,
    ) -> Result<Launched, SandboxError> {
        let tier = entry.tier;
        if request.proxy_socket.is_some() {
            if !policy.network && !request.network_allowed {
                return Err(SandboxError::NetworkForbidden);
            }
            if tier == Tier::Landlock {
                return Err(SandboxError::NetworkUnsupported { tier });
            }
        }
        for path in &request.writable_paths {
            // An earlier run may have closed it. If that cannot be undone, the run reports the error.
            drop(open_folder(CWD, path.as_path(), FolderAccess::Modify));
        }
        // A removed folder of the policy must not prevent all runs; one of the request is required.
        let opened = policy.writable_paths.iter().filter(|path| self.check_writable(path).is_ok());
        let writable: Vec<PathBuf> = opened.chain(&request.writable_paths).cloned().collect();
        let mut exposures = paths::resolve(&request.readable_paths, &writable, &self.guarded)?;
        // Two further mounts are the sandbox's own `/etc` and a socket.
        if exposures.len() > MAX_EXPOSURES - 2 {
            let path = exposures.swap_remove(0).path;
            return Err(SandboxError::PathRefused { path, reason: "a run can have at most 254 paths" });
        }
        let bounds = bounds(policy, request);
        if let Some(groups) = entry.groups.clone() {
            tokio::task::spawn_blocking(move || groups.warm_up());
        }
        let mut prepared = Preparation::new(self, entry, exposures, bounds).await?;
        if let (Some(socket), Tier::Bubblewrap) = (&request.proxy_socket, tier) {
            prepared.proxy_socket = Some(prepared.expose_socket(socket)?);
        }
        let (report, report_writer) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(io::Error::from)
            .map_err(SandboxError::prepare("a pipe for the report"))?;
        let (control_reader, control) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(io::Error::from)
            .map_err(SandboxError::prepare("a pipe for control"))?;
        rustix::io::ioctl_fionbio(&report, true)
            .map_err(io::Error::from)
            .map_err(SandboxError::prepare("a pipe for the report"))?;
        let report = pipe::Receiver::from_owned_fd(report).map_err(SandboxError::prepare("a pipe for the report"))?;
        let plan = Plan {
            tier,
            program: request.program.clone(),
            arguments: request.arguments.clone(),
            environment: environment(policy, request, &prepared.temporary)?,
            directory: match &request.working_directory {
                Some(directory) => resolve_directory(directory, &prepared)?,
                None => prepared.temporary.clone(),
            },
            own_user: prepared.own_user,
            bounds,
            readable: prepared.landlocked(false),
            writable: prepared.landlocked(true),
            watched: prepared.watched(),
            workspace: request.bounded_workspace(policy)?,
            memory_backed: prepared.memory_backed.clone(),
            group: prepared.pass_group(),
            socket_bytes: socket_bytes(),
            proxy_socket: match tier {
                Tier::Bubblewrap => prepared.proxy_socket.as_ref().map(|_| PathBuf::from(bubblewrap::PROXY_SOCKET)),
                Tier::Landlock => None,
                Tier::None => request.proxy_socket.clone(),
            },
            probe,
            report_descriptor: report_writer.as_raw_fd(),
            control_descriptor: control_reader.as_raw_fd(),
        };
        prepared.descriptors.push(Arc::new(report_writer));
        prepared.descriptors.push(Arc::new(control_reader));
        let (spawn, resources) = prepared.into_spawn_request(self, &plan)?;
        let child = self.spawner.spawn(spawn).await?;
        Ok(Launched { child, report, control, resources })
    }
}

/// Sandbox under construction.
struct Preparation {
    tier: Tier,
    exposures: Vec<Exposure>,
    user: Option<UserLease>,
    directory: Option<tempfile::TempDir>,
    etc: Option<Arc<tempfile::TempDir>>,
    group: Option<Group>,
    /// `/tmp` as seen by the program.
    temporary: PathBuf,
    own_user: bool,
    memory_backed: Vec<PathBuf>,
    proxy_socket: Option<PathBuf>,
    descriptors: Vec<Arc<OwnedFd>>,
    tmp_bytes: u64,
    shared_memory_bytes: u64,
}

impl Preparation {
    async fn new(host: &Host, entry: &Entry, exposures: Vec<Exposure>, bounds: Bounds) -> Result<Self, SandboxError> {
        let user = match (&entry.identity, entry.tier) {
            (Identity::Own(users), Tier::Bubblewrap | Tier::Landlock) => Some(users.lease().await?),
            (Identity::Own(_), Tier::None) | (Identity::Daemon, _) => None,
        };
        let mut prepared = Self {
            tier: entry.tier,
            exposures,
            own_user: user.is_some() || (entry.tier == Tier::Bubblewrap && counts_processes_per_namespace()),
            user,
            directory: None,
            etc: entry.etc.clone(),
            group: None,
            temporary: PathBuf::from("/tmp"),
            memory_backed: Vec::new(),
            proxy_socket: None,
            descriptors: vec![Arc::clone(&host.init)],
            // Files in memory count as memory: up to half of the limit may be files.
            tmp_bytes: bounds.disk_bytes.min(bounds.memory_bytes / 2),
            shared_memory_bytes: bounds.memory_bytes / 4,
        };
        let group = entry.groups.as_ref().map(|groups| groups.create(&bounds)).transpose();
        prepared.group = group.map_err(SandboxError::prepare("a control group"))?;
        match (entry.tier, &prepared.user) {
            (Tier::Bubblewrap, _) => prepared.memory_backed = vec!["/tmp".into(), "/dev/shm".into()],
            (Tier::Landlock, Some(_)) => prepared.memory_backed = vec!["/tmp".into()],
            (Tier::Landlock, None) | (Tier::None, _) => {
                let directory = directories::create("run", &host.state_directory)
                    .map_err(SandboxError::prepare("a temporary directory"))?;
                prepared.temporary = directory.path().to_owned();
                prepared.directory = Some(directory);
            }
        }
        Ok(prepared)
    }

    /// Makes the socket visible inside, even if its directory belongs to the daemon.
    fn expose_socket(&mut self, socket: &Path) -> Result<PathBuf, SandboxError> {
        let fault = |source| SandboxError::Path { path: socket.to_owned(), source };
        let path = socket.canonicalize().map_err(fault)?;
        let kind = path.metadata().map_err(fault)?.file_type();
        if !std::os::unix::fs::FileTypeExt::is_socket(&kind) {
            return Err(SandboxError::PathRefused { path, reason: "it is not a socket" });
        }
        Ok(path)
    }

    fn pass_group(&mut self) -> Option<GroupDescriptors> {
        let group = self.group.as_ref()?;
        self.descriptors.extend(group.entrances.iter().chain([&group.events]).chain(&group.tcp).cloned());
        let entrances = group.entrances.iter().map(|entrance| entrance.as_raw_fd()).collect();
        let tcp = group.tcp.as_ref().map(|tcp| tcp.as_raw_fd());
        Some(GroupDescriptors { entrances, events: group.events.as_raw_fd(), tcp })
    }

    /// Returns the paths that Landlock must permit.
    fn landlocked(&self, writable: bool) -> Vec<PathBuf> {
        if self.tier != Tier::Landlock {
            return Vec::new();
        }
        let opened = self.exposures.iter().filter(|exposure| exposure.writable == writable);
        let mut opened: Vec<PathBuf> = opened.map(|exposure| exposure.path.clone()).collect();
        if writable {
            opened.push(self.temporary.clone());
        } else {
            opened.extend(paths::system_directories().map(Path::to_path_buf));
            opened.extend(paths::configuration());
            opened.extend(paths::harmless_kernel_files());
        }
        opened
    }

    fn watched(&self) -> Vec<PathBuf> {
        let mut watched: Vec<PathBuf> =
            self.exposures.iter().filter(|exposure| exposure.writable).map(|exposure| exposure.path.clone()).collect();
        if self.directory.is_some() {
            watched.push(self.temporary.clone());
        }
        watched
    }

    fn into_spawn_request(mut self, host: &Host, plan: &Plan) -> Result<(SpawnRequest, Resources), SandboxError> {
        let text = serde_json::to_vec(plan).map_err(io::Error::other).map_err(SandboxError::prepare("the plan"))?;
        let plan_descriptor = self.pass_text("plan", &text)?;
        let init = format!("/proc/self/fd/{}", host.init.as_raw_fd());
        let mut init_arguments = host.init_arguments.clone();
        init_arguments.extend([OsString::from(RUN), OsString::from(plan_descriptor.to_string())]);
        let before_exec = self.stage()?;
        let (program, arguments) = match self.tier {
            Tier::Bubblewrap => {
                let mut arguments = self.bubblewrap()?;
                arguments.push(init.into());
                arguments.extend(init_arguments);
                let program = bubblewrap::find()
                    .ok_or_else(|| SandboxError::prepare("bubblewrap")(io::ErrorKind::NotFound.into()))?;
                (program, arguments)
            }
            Tier::Landlock | Tier::None => (PathBuf::from(init), init_arguments),
        };
        let request = SpawnRequest {
            program,
            arguments,
            current_directory: Some("/".into()),
            stdin: Stream::Pipe,
            stdout: Stream::Pipe,
            stderr: Stream::Pipe,
            descriptors: self.descriptors,
            before_exec,
            ..SpawnRequest::default()
        };
        Ok((request, Resources { _user: self.user, directory: self.directory, _etc: self.etc, _group: self.group }))
    }

    fn stage(&self) -> Result<Option<BeforeExec>, SandboxError> {
        let Some(user) = &self.user else { return Ok(None) };
        let own_tmp_bytes = (self.tier == Tier::Landlock).then_some(self.tmp_bytes);
        let mut exposures = self.exposures.clone();
        let socket = self.proxy_socket.iter().cloned();
        exposures.extend(socket.map(|path| Exposure { path, is_directory: false, writable: true }));
        let etc = self.etc.iter().map(|etc| etc.path().to_owned());
        exposures.extend(etc.map(|path| Exposure { path, is_directory: true, writable: false }));
        exposures.sort_by(|one, other| one.path.cmp(&other.path));
        let stage =
            Stage::new(user, &exposures, own_tmp_bytes).map_err(SandboxError::prepare("the view of the files"))?;
        Ok(Some(stage.before_exec()))
    }

    fn bubblewrap(&self) -> Result<Vec<OsString>, SandboxError> {
        let missing = || SandboxError::prepare("its /etc")(io::ErrorKind::NotFound.into());
        let etc = self.etc.as_ref().ok_or_else(missing)?;
        Ok(bubblewrap::arguments(&bubblewrap::Root {
            exposures: &self.exposures,
            etc: etc.path(),
            proxy_socket: self.proxy_socket.as_deref(),
            tmp_bytes: self.tmp_bytes,
            shared_memory_bytes: self.shared_memory_bytes,
        }))
    }

    /// Passes a file in memory that the child inherits, positioned at its start. Returns the descriptor number.
    fn pass_text(&mut self, name: &str, text: &[u8]) -> Result<i32, SandboxError> {
        let pass = || {
            let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
            file.write_all(text)?;
            io::Seek::rewind(&mut file)?;
            Ok(OwnedFd::from(file))
        };
        let descriptor: OwnedFd = pass().map_err(SandboxError::prepare("a file in memory"))?;
        let number = descriptor.as_raw_fd();
        self.descriptors.push(Arc::new(descriptor));
        Ok(number)
    }
}

/// Returns the stricter of the limits in the policy and the request.
fn bounds(policy: &Policy, request: &RunRequest) -> Bounds {
    let allowed = policy.memory_limit_mb.saturating_mul(1 << 20);
    let limits = &request.limits;
    Bounds {
        memory_bytes: limits.memory_bytes.map_or(allowed, |wanted| wanted.min(allowed)),
        processes: u64::from(limits.processes),
        open_files: u64::from(limits.open_files),
        file_bytes: limits.file_bytes,
        disk_bytes: limits.disk_bytes,
        files: limits.files,
    }
}

fn resolve_directory(directory: &Path, prepared: &Preparation) -> Result<PathBuf, SandboxError> {
    let fault = |source| SandboxError::Path { path: directory.to_owned(), source };
    let path = directory.canonicalize().map_err(fault)?;
    if prepared.tier != Tier::None && !prepared.exposures.iter().any(|exposure| path.starts_with(&exposure.path)) {
        let reason = "a working directory must lie in a readable or writable path";
        return Err(SandboxError::PathRefused { path, reason });
    }
    Ok(path)
}

/// Returns the initial buffer size of sockets, which the system call filter makes permanent.
fn socket_bytes() -> u64 {
    /// A message that has been started may exceed the limit.
    const ONE_MESSAGE: u64 = 64 << 10;
    let setting = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).ok()?.trim().parse().ok();
    let buffers = ["wmem_default", "rmem_default"].map(|name| setting(name).unwrap_or(212_992));
    buffers.into_iter().max().unwrap_or(0) + ONE_MESSAGE
}

/// Whether the processes of a user are counted per user namespace, as since Linux 5.14.
fn counts_processes_per_namespace() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 14)
}
