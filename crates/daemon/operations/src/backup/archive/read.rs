//! Archive reader: unpacks an archive into a separate folder and verifies every hash. Archive contents are untrusted;
//! see [`safe_path`](crate::backup::model::safe_path).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flate2::read::GzDecoder;
use tar::EntryType;

use super::contents::{ContentsWriter, Hashing, has_same_bytes};
use super::entry::{UNPACKED, archive_error, read_long_text, read_text, unpack_error};
use super::sparse::{self, Extent, SparseHeader};
use super::unpacked::{Attributes, DiskGuard, Unpacking};
use crate::backup::error::BackupError;
use crate::backup::model::{
    CONTENTS, DATABASE, Entry, FORMAT, FORMAT_VERSION, MANIFEST, Manifest, SECRETS, display_path, hard_link_fault,
    link_fault, safe_path,
};
use crate::backup::sealing::MAX_SEALED_BYTES;

const MAX_MANIFEST_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum length of a symlink target that the kernel accepts.
const MAX_LINK_BYTES: usize = 4095;

/// Contents of a verified archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveSummary {
    pub manifest: Manifest,
    pub files: u64,
    pub links: u64,
    pub bytes: u64,
}

/// Unpacked archive.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) summary: ArchiveSummary,
    pub(crate) secrets: Option<Vec<u8>>,
}

/// Reads and verifies an archive without unpacking it. Blocks.
///
/// # Errors
/// The archive is incomplete, damaged or not an archive.
pub fn verify(source: impl Read) -> Result<ArchiveSummary, BackupError> {
    let folder = std::env::temp_dir();
    let lists = [tempfile_in(&folder)?, tempfile_in(&folder)?];
    read(source, lists, None, disk_guard(&folder)?).map(|unpacked| unpacked.summary)
}

/// Unpacks an archive into `folder`, which must be empty and used by no one else. Blocks.
pub(crate) fn unpack(source: impl Read, folder: &Path) -> Result<Unpacked, BackupError> {
    let unpack_error = Unpacking::open(folder).map_err(BackupError::files("the folder of the restore"))?;
    read(source, [tempfile_in(folder)?, tempfile_in(folder)?], Some(unpack_error), disk_guard(folder)?)
}

/// Reads the manifest at the beginning of an archive. Blocks.
pub(crate) fn read_manifest(source: impl Read) -> Result<Manifest, BackupError> {
    let mut archive = tar::Archive::new(GzDecoder::new(source));
    let first = archive.entries().map_err(archive_error)?.raw(true).next();
    let mut entry = first.ok_or_else(|| BackupError::archive("it is empty"))?.map_err(archive_error)?;
    if *entry.path_bytes() != *MANIFEST.as_bytes() {
        return Err(BackupError::archive("it does not start with a manifest"));
    }
    let mut bytes = Vec::new();
    entry.by_ref().take(MAX_MANIFEST_BYTES).read_to_end(&mut bytes).map_err(archive_error)?;
    parse_manifest(&bytes)
}

fn disk_guard(folder: &Path) -> Result<DiskGuard, BackupError> {
    DiskGuard::of(folder).map_err(BackupError::files("the folder of the restore"))
}

/// Creates an anonymous file, which is deleted when it is closed.
pub(crate) fn tempfile_in(folder: &Path) -> Result<File, BackupError> {
    tempfile::tempfile_in(folder).map_err(BackupError::files("a temporary file"))
}

fn read(
    source: impl Read,
    [contents, links]: [File; 2],
    unpack_error: Option<Unpacking>,
    disk_guard: DiskGuard,
) -> Result<Unpacked, BackupError> {
    let mut archive = tar::Archive::new(GzDecoder::new(source));
    let mut reader = Reader {
        unpack_error,
        disk_guard,
        contents: Some(ContentsWriter::new(contents)),
        links: BufWriter::new(links),
        manifest: None,
        secrets: None,
        has_database: false,
        files: 0,
        link_count: 0,
        bytes: 0,
    };
    let (mut long_name, mut long_target, mut holes) = (None, None, None);
    let entries = archive.entries().map_err(archive_error)?;
    // Raw mode yields long names as separate entries, so their length can be limited.
    let mut entries = entries.raw(true);
    loop {
        let mut entry = match entries.next() {
            Some(entry) => entry.map_err(archive_error)?,
            None => return Err(BackupError::archive("it is truncated: the list of contents is missing")),
        };
        match entry.header().entry_type() {
            EntryType::GNULongName => long_name = Some(read_long_text(&mut entry)?),
            EntryType::GNULongLink => long_target = Some(read_long_text(&mut entry)?),
            // Extended headers are only used for sparse files.
            EntryType::XHeader => {
                let header = SparseHeader::read(&read_text(&mut entry)?);
                let unknown = || BackupError::archive("a file is stored in an unsupported format");
                holes = Some(header.ok_or_else(unknown)?);
            }
            kind => {
                if let Some(SparseHeader { name, size }) = holes.take() {
                    let path = safe_path(&name).map_err(BackupError::archive)?;
                    reader.sparse_file(kind, &path, size, &mut entry)?;
                    continue;
                }
                let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
                let target = long_target.take().or_else(|| entry.link_name_bytes().map(std::borrow::Cow::into_owned));
                let path = safe_path(&name).map_err(BackupError::archive)?;
                if path == Path::new(CONTENTS) {
                    reader.compare(&mut entry)?;
                    break;
                }
                reader.entry(kind, &path, target, &mut entry)?;
            }
        }
    }
    if entries.next().is_some() {
        return Err(BackupError::archive("data follows the list of contents"));
    }
    // The checksum of the compression is at the very end.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(archive_error)?;
    reader.finish()
}

fn parse_manifest(bytes: &[u8]) -> Result<Manifest, BackupError> {
    let unreadable = || BackupError::archive("the manifest is not valid");
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| unreadable())?;
    if value.get("format").and_then(serde_json::Value::as_str) != Some(FORMAT) {
        return Err(BackupError::archive("it was not created by agentd"));
    }
    let version = value.get("format_version").and_then(serde_json::Value::as_u64).ok_or_else(unreadable)?;
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    if version > FORMAT_VERSION {
        return Err(BackupError::NewerFormat { found: version, known: FORMAT_VERSION });
    }
    serde_json::from_value(value).map_err(|_| unreadable())
}

struct Reader {
    /// `None` if the archive is only verified.
    unpack_error: Option<Unpacking>,
    disk_guard: DiskGuard,
    /// Actual contents, compared with the table of contents at the end.
    contents: Option<ContentsWriter>,
    /// Paths and targets of symlinks, each terminated by a zero byte. Links are created last, so that nothing can be
    /// written through one.
    links: BufWriter<File>,
    manifest: Option<Manifest>,
    secrets: Option<Vec<u8>>,
    has_database: bool,
    files: u64,
    link_count: u64,
    bytes: u64,
}

impl Reader {
    fn entry(
        &mut self,
        kind: EntryType,
        path: &Path,
        target: Option<Vec<u8>>,
        entry: &mut tar::Entry<'_, impl Read>,
    ) -> Result<(), BackupError> {
        let is_first = self.manifest.is_none();
        if is_first && path != Path::new(MANIFEST) {
            return Err(BackupError::archive("it does not start with a manifest"));
        }
        let is_at_top = path.components().count() == 1;
        match (path.to_str(), kind) {
            (Some(MANIFEST), EntryType::Regular) if is_first => self.manifest(entry),
            (Some(DATABASE), EntryType::Regular) if !self.has_database => {
                self.has_database = true;
                self.file(path, entry)
            }
            (Some(SECRETS), EntryType::Regular) if self.secrets.is_none() => {
                let bytes = self.small_file(path, entry, MAX_SEALED_BYTES)?;
                self.secrets = Some(bytes);
                Ok(())
            }
            (_, EntryType::Directory) => self.new_folder(path),
            (_, EntryType::Regular) if !is_at_top => {
                self.files += 1;
                self.file(path, entry)
            }
            (_, EntryType::Link) => self.hard_link(path, target),
            (_, EntryType::Symlink) => {
                let fits = |target: &Vec<u8>| (1..=MAX_LINK_BYTES).contains(&target.len()) && !target.contains(&0);
                let target = target.filter(fits);
                let target = target.ok_or_else(|| BackupError::archive("a link has no valid target"))?;
                if let Some(fault) = link_fault(path, Path::new(OsStr::from_bytes(&target))) {
                    return Err(BackupError::archive(format!("`{}` {fault}", display_path(path))));
                }
                self.list(&Entry::Link {
                    path: display_path(path),
                    target: display_path(Path::new(OsStr::from_bytes(&target))),
                })?;
                self.link_count += 1;
                for text in [path.as_os_str().as_bytes(), &[0], &target, &[0]] {
                    self.links.write_all(text).map_err(BackupError::files("the list of links"))?;
                }
                Ok(())
            }
            _ => Err(BackupError::archive(format!("`{}` has an unsupported file type", display_path(path)))),
        }
    }

    fn manifest(&mut self, entry: &mut impl Read) -> Result<(), BackupError> {
        let bytes = self.small_file(Path::new(MANIFEST), entry, MAX_MANIFEST_BYTES)?;
        self.manifest = Some(parse_manifest(&bytes)?);
        Ok(())
    }

    fn small_file(&mut self, path: &Path, entry: &mut impl Read, limit: u64) -> Result<Vec<u8>, BackupError> {
        let mut hashing = Hashing::new(entry.take(limit + 1));
        let mut bytes = Vec::new();
        hashing.read_to_end(&mut bytes).map_err(archive_error)?;
        if hashing.length() > limit {
            return Err(BackupError::archive(format!("`{}` is too large", display_path(path))));
        }
        self.list_file(path, hashing)?;
        Ok(bytes)
    }

    fn file(&mut self, path: &Path, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), BackupError> {
        let attributes = Attributes::of(entry).map_err(archive_error)?;
        let mut hashing = Hashing::new(entry);
        let mut file = self.new_file(path)?;
        self.copy(&mut hashing, u64::MAX, file.as_mut())?;
        attributes.apply_to(file).map_err(|error| unpack_error(path, error))?;
        self.bytes += hashing.length();
        self.list_file(path, hashing)
    }

    fn sparse_file(
        &mut self,
        kind: EntryType,
        path: &Path,
        size: u64,
        entry: &mut tar::Entry<'_, impl Read>,
    ) -> Result<(), BackupError> {
        let damaged =
            || BackupError::archive(format!("the map of the sparse file `{}` is not valid", display_path(path)));
        if kind != EntryType::Regular || path.components().count() < 2 {
            return Err(damaged());
        }
        let attributes = Attributes::of(entry).map_err(archive_error)?;
        let mut hashing = Hashing::new(entry);
        let extents = sparse::read_map(&mut hashing, size).map_err(archive_error)?.ok_or_else(damaged)?;
        let mut file = self.new_file(path)?;
        let failed = |error| unpack_error(path, error);
        if let Some(file) = &file {
            file.set_len(size).map_err(failed)?;
        }
        for Extent { offset, length } in extents {
            if let Some(file) = &mut file {
                file.seek(SeekFrom::Start(offset)).map_err(failed)?;
            }
            if self.copy(&mut hashing, length, file.as_mut())? != length {
                return Err(damaged());
            }
        }
        if hashing.read(&mut [0]).map_err(archive_error)? != 0 {
            return Err(damaged());
        }
        attributes.apply_to(file).map_err(failed)?;
        self.files += 1;
        self.bytes += hashing.length();
        let (_, sha256) = hashing.finish();
        self.list(&Entry::SparseFile { path: display_path(path), size, sha256 })
    }

    fn hard_link(&mut self, path: &Path, target: Option<Vec<u8>>) -> Result<(), BackupError> {
        let target = safe_path(&target.unwrap_or_default()).map_err(BackupError::archive)?;
        if let Some(fault) = hard_link_fault(path, &target) {
            return Err(BackupError::archive(format!("`{}` {fault}", display_path(path))));
        }
        if let Some(unpacking_to) = &mut self.unpack_error {
            unpacking_to.make_hard_link(path, &target).map_err(|error| unpack_error(path, error))?;
        }
        self.files += 1;
        self.list(&Entry::HardLink { path: display_path(path), target: display_path(&target) })
    }

    fn new_file(&mut self, path: &Path) -> Result<Option<File>, BackupError> {
        let made = self.unpack_error.as_mut().map(|unpack_error| unpack_error.make_file(path)).transpose();
        made.map_err(|error| unpack_error(path, error))
    }

    /// Copies up to `most` bytes; discards them without a file.
    fn copy(&mut self, from: &mut impl Read, most: u64, mut file: Option<&mut File>) -> Result<u64, BackupError> {
        let mut buffer = vec![0; 64 << 10];
        let mut copied = 0;
        // Never reads into an empty buffer, because the library treats an empty read as the end.
        while copied < most {
            let wanted = buffer.len().min(usize::try_from(most - copied).unwrap_or(usize::MAX));
            let length = from.read(buffer.get_mut(..wanted).unwrap_or_default()).map_err(archive_error)?;
            if length == 0 {
                break;
            }
            copied += length as u64;
            if let (Some(file), Some(bytes)) = (&mut file, buffer.get(..length)) {
                self.disk_guard.take(length as u64).map_err(BackupError::files(UNPACKED))?;
                file.write_all(bytes).map_err(BackupError::files(UNPACKED))?;
            }
        }
        Ok(copied)
    }

    fn new_folder(&mut self, path: &Path) -> Result<(), BackupError> {
        if let Some(unpacking_to) = &mut self.unpack_error {
            unpacking_to.make_folder(path).map_err(|error| unpack_error(path, error))?;
        }
        self.list(&Entry::Folder { path: display_path(path) })
    }

    fn list_file<T>(&mut self, path: &Path, hashing: Hashing<T>) -> Result<(), BackupError> {
        let (size, sha256) = hashing.finish();
        self.list(&Entry::File { path: display_path(path), size, sha256 })
    }

    /// Adds an entry to the list; each entry takes disk space, also in the lists.
    fn list(&mut self, entry: &Entry) -> Result<(), BackupError> {
        self.disk_guard.take_file().map_err(BackupError::files(UNPACKED))?;
        match &mut self.contents {
            Some(contents) => contents.add(entry).map_err(BackupError::files("the list of contents")),
            None => Err(BackupError::archive("data follows the list of contents")),
        }
    }

    fn compare(&mut self, entry: &mut impl Read) -> Result<(), BackupError> {
        let contents = self.contents.take().ok_or_else(|| BackupError::archive("it has two lists of contents"))?;
        let (found, length) = contents.finish().map_err(BackupError::files("the list of contents"))?;
        if has_same_bytes(found.take(length), entry).map_err(archive_error)? {
            Ok(())
        } else {
            Err(BackupError::archive("it was modified: the files do not match the list of contents"))
        }
    }

    fn make_links(links: BufWriter<File>, mut to: Unpacking) -> Result<(), BackupError> {
        let failed = || BackupError::files("the list of links");
        let mut links = links.into_inner().map_err(io::IntoInnerError::into_error).map_err(failed())?;
        links.rewind().map_err(failed())?;
        let mut links = BufReader::new(links).split(0);
        while let (Some(path), Some(target)) = (links.next(), links.next()) {
            let (path, target) = (path.map_err(failed())?, target.map_err(failed())?);
            let path = Path::new(OsStr::from_bytes(&path));
            to.make_link(path, OsStr::from_bytes(&target)).map_err(|error| unpack_error(path, error))?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Unpacked, BackupError> {
        let Some(manifest) = self.manifest else {
            return Err(BackupError::archive("the manifest is missing"));
        };
        if !self.has_database || manifest.has_secrets != self.secrets.is_some() {
            return Err(BackupError::archive("a part named in the manifest is missing"));
        }
        if let Some(unpack_error) = self.unpack_error {
            Self::make_links(self.links, unpack_error)?;
        }
        let summary = ArchiveSummary { manifest, files: self.files, links: self.link_count, bytes: self.bytes };
        Ok(Unpacked { summary, secrets: self.secrets })
    }
}
