//! Canary: attempts forbidden operations from inside the confinement, and reports on standard output those that
//! succeeded.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::plan::Probe;

/// Prefix of the line for a successful forbidden operation.
pub(crate) const REACHED: &str = "reached: ";
/// Last line of a complete probe.
pub(crate) const DONE: &str = "probe done";

/// Makes every attempt, so that the report names all gaps.
pub(crate) fn run(probe: &Probe) -> io::Result<()> {
    let mut reached: Vec<&str> = Vec::new();
    let mut attempt = |what: &'static str, open: bool| {
        if open {
            reached.push(what);
        }
    };
    attempt("reading a file outside", std::fs::read(&probe.outside_file).is_ok());
    attempt("writing to a file outside", std::fs::OpenOptions::new().append(true).open(&probe.outside_file).is_ok());
    attempt("making a file outside", std::fs::write(probe.outside_directory.join("escaped"), "x").is_ok());
    attempt("cutting a file outside", truncate(&probe.outside_file));
    attempt("changing the mode of a file outside", change_mode(&probe.outside_file));
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, probe.tcp_port));
    attempt("the network of the machine", TcpStream::connect_timeout(&loopback, Duration::from_secs(2)).is_ok());
    let abstract_name = std::os::unix::net::SocketAddr::from_abstract_name(&probe.abstract_socket);
    attempt(
        "an abstract socket of the machine",
        abstract_name.is_ok_and(|address| UnixStream::connect_addr(&address).is_ok()),
    );
    let process = format!("/proc/{}", probe.daemon_process);
    attempt(
        "the environment of the daemon",
        std::fs::read(format!("{process}/environ")).is_ok_and(|text| is_foreign(&text)),
    );
    attempt(
        "the command line of the daemon",
        std::fs::read(format!("{process}/cmdline")).is_ok_and(|text| is_foreign(&text)),
    );
    attempt("a new user namespace", new_user_namespace());
    let mut text = String::new();
    for what in reached {
        text.push_str(REACHED);
        text.push_str(what);
        text.push('\n');
    }
    let inside = probe.inside_directory.join("written");
    if let Err(error) = std::fs::write(&inside, "x").and_then(|()| std::fs::read(&inside).map(drop)) {
        text.push_str(&format!("a directory that was opened cannot be used: {error}\n"));
    }
    text.push_str(DONE);
    text.push('\n');
    io::stdout().write_all(text.as_bytes())?;
    io::stdout().flush()
}

/// Whether a text came from outside. In a process namespace, the daemon's number may refer to another process or even
/// this one, so the text must differ from this process's own.
fn is_foreign(text: &[u8]) -> bool {
    let own = |name: &str| std::fs::read(format!("/proc/1/{name}")).is_ok_and(|own| own == text);
    !text.is_empty() && !own("cmdline") && !own("environ")
}

fn truncate(path: &std::path::Path) -> bool {
    rustix::fs::open(path, rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::TRUNC, rustix::fs::Mode::empty()).is_ok()
        || truncate_by_name(path)
}

#[allow(unsafe_code, reason = "no safe call truncates by name")]
fn truncate_by_name(path: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the text is zero-terminated and lives through the call.
    unsafe { libc::truncate(path.as_ptr(), 0) == 0 }
}

fn change_mode(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).is_ok()
}

#[allow(unsafe_code, reason = "leaving a namespace is unsafe for processes with threads")]
fn new_user_namespace() -> bool {
    // SAFETY: this process has one thread; if the call succeeds, the canary has failed anyway.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER).is_ok() }
}
