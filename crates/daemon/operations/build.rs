//! Compresses the web UI, if it was built, and Swagger UI.

use std::io::{Cursor, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;

/// Files of the Swagger UI archive that are served; `web_ui` contains the page itself.
const FILES: [&str; 2] = ["swagger-ui.css", "swagger-ui-bundle.js"];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    println!("cargo::rerun-if-changed=build.rs");
    pack_swagger_ui()?;
    pack_page()?;
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
        std::fs::write(Path::new(&folder).join(format!("{file}.gz")), pack(&content)?)?;
    }
    Ok(())
}

fn pack(content: &[u8]) -> Outcome<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(content)?;
    Ok(packer.finish()?)
}

/// Generates `page.rs` for `web_ui` from the output of `make ui`; without it the table is empty. Nothing is built here,
/// so the daemon can be built without Node.
fn pack_page() -> Outcome<()> {
    let ui = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../../ui");
    let (dist, out) = (ui.join("dist"), std::env::var("OUT_DIR")?);
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        println!("cargo::rerun-if-changed={}", dist.display());
        collect(&dist, "", &mut files)?;
        files.sort();
    } else if ui.is_dir() {
        // A path that does not exist would always count as changed.
        println!("cargo::rerun-if-changed={}", ui.display());
    }
    let mut table = String::from("const FILES: &[PageFile] = &[");
    for (number, name) in files.iter().enumerate() {
        let packed = Path::new(&out).join(format!("page-{number}.gz"));
        std::fs::write(&packed, pack(&std::fs::read(dist.join(name))?)?)?;
        table += &format!("PageFile {{ name: {name:?}, packed: include_bytes!({packed:?}) }},");
    }
    table += "];";
    std::fs::write(Path::new(&out).join("page.rs"), table)?;
    Ok(())
}

/// Collects the names of all files, with slashes. Hidden files belong to the build tool.
fn collect(folder: &Path, under: &str, names: &mut Vec<String>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name =
            entry.file_name().into_string().map_err(|_| "a file of the page has a name that is not valid UTF-8")?;
        if name.starts_with('.') {
            continue;
        }
        let name = format!("{under}{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}
