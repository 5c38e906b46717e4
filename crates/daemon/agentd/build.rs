//! Asks the linker for a small program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        link_small();
    }
}

/// Functions that came out the same are one, and relocations take a bit each: a tenth of the program. Only where the
/// linker is known to be LLVM's, and the system's loader to read such relocations.
fn link_small() {
    let is = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|value| value == wanted);
    if !(is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu"))
    {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    #[allow(clippy::disallowed_methods, reason = "the build has no daemon that could outlive it")]
    let library = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = library.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
    let minor = version.trim().rsplit('.').next().and_then(|minor| minor.parse::<u32>().ok());
    if version.starts_with("glibc 2.") && minor.is_some_and(|minor| minor >= 36) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
