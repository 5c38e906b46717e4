//! Descriptors: adopted from the daemon, and withheld from the program.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

/// Adopts a descriptor that the daemon passed, and prevents its inheritance.
#[allow(unsafe_code, reason = "a number becomes an owned descriptor")]
pub(super) fn adopt(descriptor: i32) -> io::Result<OwnedFd> {
    if descriptor <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number was passed for this purpose, and each is adopted once.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned)
}

pub(super) fn release_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(null.as_fd())?;
    rustix::stdio::dup2_stdout(null.as_fd())?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    Ok(())
}

/// Marks all other open descriptors to be closed on exec.
#[allow(unsafe_code, reason = "a system call without a safe name")]
pub(super) fn close_on_exec() -> io::Result<()> {
    let flag = libc::c_uint::try_from(libc::CLOSE_RANGE_CLOEXEC).unwrap_or(4);
    // SAFETY: marks descriptors without closing any.
    match unsafe { libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, flag) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
