//! Archive writer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::contents::{ContentsWriter, Hashing};
use super::sparse::{self, Extent, ExtentReader, SparseHeader};
use super::walk::{WalkEntry, log_skipped, walk};
use crate::backup::model::{
    CONTENTS, DATABASE, Entry, FOLDERS, MANIFEST, Manifest, SECRETS, display_path, hard_link_fault, link_fault,
};

/// Contents of an archive to be written.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) manifest: Manifest,
    /// Database dump, rewound to its beginning.
    pub(crate) database: File,
    pub(crate) secrets: Option<Vec<u8>>,
    /// Parent of the archived folders.
    pub(crate) root: PathBuf,
    /// Empty file for the table of contents.
    pub(crate) contents: File,
    /// Whether files that became unreadable since the survey are omitted as well.
    pub(crate) may_be_incomplete: bool,
}

/// Writes the complete archive. Blocks.
pub(crate) fn write(source: Source, sink: impl Write) -> io::Result<()> {
    let Source { manifest, database, secrets, root, contents, may_be_incomplete } = source;
    let mut archive = Archive {
        tar: Builder::new(GzEncoder::new(sink, Compression::fast())),
        contents: ContentsWriter::new(contents),
        first_names: HashMap::new(),
        may_be_incomplete,
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
    /// First path written of each file with several names.
    first_names: HashMap<(u64, u64), PathBuf>,
    may_be_incomplete: bool,
    seconds: u64,
}

impl<W: Write> Archive<W> {
    fn found(&mut self, path: &Path, found: WalkEntry) -> io::Result<()> {
        match found {
            WalkEntry::Folder => self.folder(path),
            WalkEntry::Link(target) => match link_fault(path, Path::new(&target)) {
                // A restore would reject it.
                Some(fault) => {
                    log_skipped(path, fault);
                    Ok(())
                }
                None => self.link(path, Path::new(&target)),
            },
            WalkEntry::Excluded(reason) => {
                log_skipped(path, reason);
                Ok(())
            }
            WalkEntry::Unreadable(reason) if self.may_be_incomplete => {
                log_skipped(path, reason);
                Ok(())
            }
            WalkEntry::Unreadable(reason) => Err(io::Error::other(format!("`{}` {reason}", display_path(path)))),
            WalkEntry::File(file) => self.workspace_file(path, file),
        }
    }

    fn workspace_file(&mut self, path: &Path, file: File) -> io::Result<()> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            log_skipped(path, "is no longer a file");
            return Ok(());
        }
        if metadata.nlink() > 1 {
            let first = self.first_names.entry((metadata.dev(), metadata.ino())).or_insert_with(|| path.to_path_buf());
            if first != path && hard_link_fault(path, first).is_none() {
                let first = first.clone();
                return self.hard_link(path, &first);
            }
        }
        let (size, mode) = (metadata.len(), metadata.mode() & 0o777);
        let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
        match sparse::extents(&file, size, metadata.blocks()) {
            Some(extents) => self.sparse_file(path, &file, size, extents, mode, seconds),
            None => self.file(path, file, size, mode, seconds),
        }
    }

    /// Writes a sparse file like GNU tar and Python (PAX format 1.0): a map of the extents, then their data.
    fn sparse_file(
        &mut self,
        path: &Path,
        file: &File,
        size: u64,
        extents: Vec<Extent>,
        mode: u32,
        seconds: u64,
    ) -> io::Result<()> {
        let map = sparse::map(&extents, size);
        let stored = map.len() as u64 + extents.iter().map(|extent| extent.length).sum::<u64>();
        SparseHeader { name: path.as_os_str().as_bytes().to_vec(), size }.write(&mut self.tar)?;
        // Other programs only recognize the extended header if this header uses the same standard.
        let mut header = fill(Header::new_ustar(), EntryType::Regular, stored, mode, seconds);
        let mut content = Hashing::new(map.as_slice().chain(ExtentReader::new(file, extents)));
        self.tar.append_data(&mut header, sparse::PLACEHOLDER, &mut content)?;
        let (_, sha256) = content.finish();
        self.contents.add(&Entry::SparseFile { path: display_path(path), size, sha256 })
    }

    fn hard_link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        let mut header = header(EntryType::Link, 0, 0o600, self.seconds);
        self.append_link(&mut header, path, target)?;
        self.contents.add(&Entry::HardLink { path: display_path(path), target: display_path(target) })
    }

    /// Writes exactly `size` bytes, because the size was announced: a growing file is truncated, a shrinking one is
    /// padded with zeros.
    fn file(&mut self, path: &Path, content: impl Read, size: u64, mode: u32, seconds: u64) -> io::Result<()> {
        let mut content = Hashing::new(content.take(size).chain(io::repeat(0)).take(size));
        let mut header = header(EntryType::Regular, size, mode, seconds);
        self.tar.append_data(&mut header, path, &mut content)?;
        let (size, sha256) = content.finish();
        self.contents.add(&Entry::File { path: display_path(path), size, sha256 })
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut header = header(EntryType::Directory, 0, 0o700, self.seconds);
        self.tar.append_data(&mut header, path, io::empty())?;
        self.contents.add(&Entry::Folder { path: display_path(path) })
    }

    fn link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        let mut header = header(EntryType::Symlink, 0, 0o777, self.seconds);
        self.append_link(&mut header, path, target)?;
        self.contents.add(&Entry::Link { path: display_path(path), target: display_path(target) })
    }

    /// Writes the target unchanged; the library would normalize `a//b` to `a/b`, which is a different target.
    fn append_link(&mut self, header: &mut Header, path: &Path, target: &Path) -> io::Result<()> {
        let target = target.as_os_str().as_bytes();
        if header.set_link_name_literal(target).is_err() {
            let mut long = self::header(EntryType::GNULongLink, target.len() as u64 + 1, 0o600, 0);
            long.set_path("././@LongLink")?;
            long.set_cksum();
            self.tar.append(&long, target.chain([0].as_slice()))?;
        }
        self.tar.append_data(header, path, io::empty())
    }

    fn finish(mut self) -> io::Result<()> {
        let (contents, length) = self.contents.finish()?;
        let mut header = header(EntryType::Regular, length, 0o600, self.seconds);
        self.tar.append_data(&mut header, CONTENTS, contents.take(length))?;
        self.tar.into_inner()?.finish()?.flush()
    }
}

fn header(kind: EntryType, size: u64, mode: u32, seconds: u64) -> Header {
    fill(Header::new_gnu(), kind, size, mode, seconds)
}

fn fill(mut header: Header, kind: EntryType, size: u64, mode: u32, seconds: u64) -> Header {
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(seconds);
    header
}
