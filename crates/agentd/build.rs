//! Packs the page that shows the API's document, and asks the linker for a small program.

use std::io::{Cursor, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

/// Of the archive's files those that a browser is sent; `web_ui` has the page itself.
const FILES: [&str; 3] = ["swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-standalone-preset.js"];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    println!("cargo::rerun-if-changed=build.rs");
    pack_swagger_ui()?;
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        link_small();
    }
    Ok(())
}

fn pack_swagger_ui() -> Outcome<()> {
    let folder = std::env::var("OUT_DIR")?;
    let mut archive = zip::ZipArchive::new(Cursor::new(SWAGGER_UI_VENDORED))?;
    let names: Vec<_> = archive.file_names().flatten().map(|name| name.into_owned()).collect();
    for file in FILES {
        let suffix = format!("/dist/{file}");
        let name = names.iter().find(|name| name.ends_with(&suffix)).ok_or("the archive lacks a file")?;
        let mut content = Vec::new();
        archive.by_name(name)?.read_to_end(&mut content)?;
        let packed = std::fs::File::create(Path::new(&folder).join(format!("{file}.gz")))?;
        let mut packer = GzEncoder::new(packed, Compression::best());
        packer.write_all(&content)?;
        packer.finish()?;
    }
    Ok(())
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
