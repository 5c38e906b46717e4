//! Embeds the muxer library for videos, if `make ui` has built it.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let ui = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../../ui");
    let library = ui.join("muxer/mp4-muxer.js");
    let value = if library.is_file() {
        println!("cargo::rerun-if-changed={}", library.display());
        format!("Some(include_str!({:?}))", library.canonicalize()?)
    } else {
        // A missing path would always count as changed.
        if ui.is_dir() {
            println!("cargo::rerun-if-changed={}", ui.display());
        }
        "None".to_owned()
    };
    let constant = format!("/// Source of mp4-muxer.\nconst MUXER: Option<&str> = {value};\n");
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("muxer.rs"), constant)?;
    Ok(())
}
