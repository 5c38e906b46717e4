//! Writes an archive.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::contents::{ContentsWriter, Hashing};
use super::walk::{Found, log_skipped, walk};
use crate::backup::model::{CONTENTS, DATABASE, Entry, FOLDERS, MANIFEST, Manifest, SECRETS, fault_of_link, shown};

/// What goes into an archive.
#[derive(Debug)]
pub(in crate::backup) struct Source {
    pub(in crate::backup) manifest: Manifest,
    /// The dump, at its beginning.
    pub(in crate::backup) database: File,
    pub(in crate::backup) secrets: Option<Vec<u8>>,
    /// Where the folders are.
    pub(in crate::backup) root: PathBuf,
    /// An empty file for the list of contents.
    pub(in crate::backup) contents: File,
}

/// Writes the whole archive. Blocks.
pub(in crate::backup) fn write(source: Source, sink: impl Write) -> io::Result<()> {
    let Source { manifest, database, secrets, root, contents } = source;
    let mut archive = Archive {
        tar: Builder::new(GzEncoder::new(sink, Compression::fast())),
        contents: ContentsWriter::new(contents),
        seconds: u64::try_from(manifest.created_at.as_millis() / 1000).unwrap_or(0),
    };
    let manifest = serde_json::to_vec_pretty(&manifest)?;
    archive.file(Path::new(MANIFEST), &mut manifest.as_slice(), manifest.len() as u64, 0o600, archive.seconds)?;
    let size = database.metadata()?.len();
    archive.file(Path::new(DATABASE), database, size, 0o600, archive.seconds)?;
    if let Some(secrets) = secrets {
        archive.file(Path::new(SECRETS), &mut secrets.as_slice(), secrets.len() as u64, 0o600, archive.seconds)?;
    }
    for folder in FOLDERS {
        let base = PathBuf::from(folder);
        if root.join(folder).symlink_metadata().is_ok_and(|found| found.is_dir()) {
            archive.folder(&base)?;
            walk(&root.join(folder), &mut |path, found| archive.found(&base.join(path), found))?;
        }
    }
    archive.finish()
}

struct Archive<W: Write> {
    tar: Builder<GzEncoder<W>>,
    contents: ContentsWriter,
    seconds: u64,
}

impl<W: Write> Archive<W> {
    fn found(&mut self, path: &Path, found: Found) -> io::Result<()> {
        match found {
            Found::Folder => self.folder(path),
            Found::Link(target) => match fault_of_link(path, Path::new(&target)) {
                // No restore would take it.
                Some(fault) => {
                    log_skipped(path, fault);
                    Ok(())
                }
                None => self.link(path, Path::new(&target)),
            },
            Found::Skipped(reason) => {
                log_skipped(path, reason);
                Ok(())
            }
            Found::File(file) => {
                let metadata = file.metadata()?;
                if !metadata.is_file() {
                    log_skipped(path, "is no file any more");
                    return Ok(());
                }
                let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
                self.file(path, file, metadata.len(), metadata.mode() & 0o777, seconds)
            }
        }
    }

    /// Writes exactly `size` bytes: a file that grows is cut, one that shrinks is filled up with
    /// zeros, as it was promised to be that long.
    fn file(&mut self, path: &Path, content: impl Read, size: u64, mode: u32, seconds: u64) -> io::Result<()> {
        let mut content = Hashing::new(content.take(size).chain(io::repeat(0)).take(size));
        let mut header = header(EntryType::Regular, size, mode, seconds);
        self.tar.append_data(&mut header, path, &mut content)?;
        let (size, sha256) = content.finish();
        self.contents.add(&Entry::File { path: shown(path), size, sha256 })
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut header = header(EntryType::Directory, 0, 0o700, self.seconds);
        self.tar.append_data(&mut header, path, io::empty())?;
        self.contents.add(&Entry::Folder { path: shown(path) })
    }

    fn link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        let mut header = header(EntryType::Symlink, 0, 0o777, self.seconds);
        self.tar.append_link(&mut header, path, target)?;
        self.contents.add(&Entry::Link { path: shown(path), target: shown(target) })
    }

    fn finish(mut self) -> io::Result<()> {
        let (contents, length) = self.contents.finish()?;
        let mut header = header(EntryType::Regular, length, 0o600, self.seconds);
        self.tar.append_data(&mut header, CONTENTS, contents.take(length))?;
        self.tar.into_inner()?.finish()?.flush()
    }
}

fn header(kind: EntryType, size: u64, mode: u32, seconds: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(seconds);
    header
}
