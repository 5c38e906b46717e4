use super::*;

#[test]
fn filters_compile_within_kernel_limits() {
    let shared = |landlock_version, own_user| Strictness::Shared { landlock_version, own_user };
    for strictness in [Strictness::Namespaced, shared(1, false), shared(1, true), shared(6, false), shared(7, true)] {
        for program in [true, false].map(|fixes| filters(strictness, fixes).unwrap()).into_iter().flatten() {
            assert!(!program.is_empty() && program.len() <= 4096, "{strictness:?}: {}", program.len());
        }
    }
}

/// Operations that an old kernel's Landlock permits are blocked by the filter. Tested in a separate thread, because
/// filters are permanent.
#[test]
#[allow(unsafe_code)]
fn signals_and_truncation_are_refused_without_landlock_support() {
    let refused = |result: i64| result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    let directory = tempfile::tempdir().unwrap();
    let path = std::ffi::CString::new(directory.path().join("file").to_str().unwrap()).unwrap();
    std::fs::write(directory.path().join("file"), "text").unwrap();
    let programs = filters(Strictness::Shared { landlock_version: 1, own_user: false }, true).unwrap();
    let tried = std::thread::spawn(move || {
        rustix::thread::set_no_new_privs(true).unwrap();
        for program in &programs {
            seccompiler::apply_filter(program).unwrap();
        }
        let own = libc::c_long::from(std::process::id());
        // SAFETY: numbers, and a text that lives through the calls. Signal 0 only checks for existence.
        unsafe {
            [
                ("kill", refused(libc::kill(own as i32, 0).into())),
                ("kill of the own group", libc::kill(0, 0) == 0),
                ("tgkill", refused(libc::syscall(libc::SYS_tgkill, own, own, 0))),
                ("truncate", refused(libc::truncate(path.as_ptr(), 0).into())),
                ("open that cuts", refused(libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_TRUNC).into())),
                ("open that reads", libc::open(path.as_ptr(), libc::O_RDONLY) >= 0),
                ("open that writes", libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_TRUNC) >= 0),
                ("owner of a file's signals", refused(libc::fcntl(0, libc::F_SETOWN, 1).into())),
                ("chmod", refused(libc::chmod(path.as_ptr(), 0o600).into())),
                ("socket", refused(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).into())),
            ]
        }
    });
    for (what, holds) in tried.join().unwrap() {
        assert!(holds, "{what}");
    }
}
