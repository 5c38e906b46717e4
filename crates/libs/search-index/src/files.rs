//! Index files: written completely under a new name, synced, mapped for reading, never modified.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::IndexError;

/// Length and checksum of a part of a file, stored in the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

impl Sum {
    pub(crate) fn matches(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length && crc32fast::hash(bytes) == self.crc
    }
}

#[derive(Default)]
struct SumBuilder {
    length: u64,
    hasher: crc32fast::Hasher,
}

impl SumBuilder {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    fn finish(self) -> Sum {
        Sum { length: self.length, crc: self.hasher.finalize() }
    }
}

pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> IndexError {
    let path = path.to_owned();
    move |source| IndexError::Io { action, path, source }
}

/// File being written. Its name becomes durable with [`sync_folder`].
pub(crate) struct NewFile {
    writer: BufWriter<File>,
    path: PathBuf,
}

impl NewFile {
    pub(crate) fn create(path: &Path) -> Result<Self, IndexError> {
        let file = File::create(path).map_err(failed("create", path))?;
        Ok(Self { writer: BufWriter::with_capacity(256 * 1024, file), path: path.to_owned() })
    }

    /// Appends the slices and returns their checksum.
    pub(crate) fn write<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Sum, IndexError> {
        let mut sum = SumBuilder::default();
        for piece in pieces {
            self.writer.write_all(piece).map_err(failed("write", &self.path))?;
            sum.add(piece);
        }
        Ok(sum.finish())
    }

    /// Appends the contents of a buffer that `fill` fills repeatedly.
    pub(crate) fn write_filled(
        &mut self,
        times: usize,
        mut fill: impl FnMut(usize, &mut Vec<u8>) -> Result<(), IndexError>,
    ) -> Result<Sum, IndexError> {
        let mut sum = SumBuilder::default();
        let mut buffer = Vec::new();
        for time in 0..times {
            buffer.clear();
            fill(time, &mut buffer)?;
            self.writer.write_all(&buffer).map_err(failed("write", &self.path))?;
            sum.add(&buffer);
        }
        Ok(sum.finish())
    }

    /// Waits until the data is durable.
    pub(crate) fn finish(self) -> Result<(), IndexError> {
        let file = self.writer.into_inner().map_err(|error| failed("write", &self.path)(error.into_error()))?;
        file.sync_data().map_err(failed("write", &self.path))
    }
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), IndexError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("write", folder))
}

/// File mapped for reading.
#[derive(Debug)]
pub(crate) struct MappedFile {
    map: mapping::Mapping,
    file: File,
    path: PathBuf,
}

impl MappedFile {
    /// Maps the file, which must have exactly this length.
    pub(crate) fn open(path: &Path, length: u64) -> Result<Self, IndexError> {
        let file = open_sized(path, length)?;
        let map = mapping::Mapping::new(&file, length).map_err(failed("map", path))?;
        Ok(Self { map, file, path: path.to_owned() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }

    pub(crate) fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Rejects a file that was truncated after mapping: accessing the missing part would kill the process.
    pub(crate) fn check_length(&self) -> Result<(), IndexError> {
        let found = self.file.metadata().map_err(failed("read", &self.path))?.len();
        if found < self.bytes().len() as u64 {
            return Err(IndexError::damaged(format!("{} was truncated to {found} bytes", self.name())));
        }
        Ok(())
    }
}

/// File that is read on demand and takes no memory; a truncation causes a read error.
#[derive(Debug)]
pub(crate) struct ReadFile {
    file: File,
    path: PathBuf,
    sum: Sum,
}

impl ReadFile {
    pub(crate) fn open(path: &Path, sum: Sum) -> Result<Self, IndexError> {
        let (file, path) = (open_sized(path, sum.length)?, path.to_owned());
        Ok(Self { file, path, sum })
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), IndexError> {
        self.file.read_exact_at(into, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => IndexError::damaged(format!("{} was truncated", name_of(&self.path))),
            _ => failed("read", &self.path)(error),
        })
    }

    pub(crate) fn verify(&self) -> Result<(), IndexError> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 256 * 1024];
        let mut offset = 0;
        while offset < self.sum.length {
            let rest = usize::try_from(self.sum.length - offset).unwrap_or(usize::MAX);
            let count = rest.min(buffer.len());
            let piece = &mut buffer[..count];
            self.read(offset, piece)?;
            hasher.update(piece);
            offset += count as u64;
        }
        if hasher.finalize() == self.sum.crc {
            Ok(())
        } else {
            Err(IndexError::damaged(format!("the checksum of {} is wrong", name_of(&self.path))))
        }
    }
}

/// Opens a file that must have exactly this length.
fn open_sized(path: &Path, length: u64) -> Result<File, IndexError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => IndexError::damaged(format!("{} is missing", name_of(path))),
        _ => failed("open", path)(error),
    })?;
    let found = file.metadata().map_err(failed("read", path))?.len();
    if found == length {
        Ok(file)
    } else {
        Err(IndexError::damaged(format!("{} has {found} bytes instead of {length}", name_of(path))))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

mod mapping {
    #![allow(unsafe_code, reason = "mapping a file is unsafe because others may change it meanwhile")]

    use std::fs::File;

    /// Read-only mapping; an empty file needs none.
    #[derive(Debug)]
    pub(super) struct Mapping(Option<memmap2::Mmap>);

    impl Mapping {
        pub(super) fn new(file: &File, length: u64) -> std::io::Result<Self> {
            if length == 0 {
                return Ok(Self(None));
            }
            // SAFETY: the folder is locked, and this crate never writes to a mapped file. Changes by other programs are
            // detected as far as possible: by checksums, and by the length before each search.
            let map = unsafe { memmap2::Mmap::map(file) }?;
            Ok(Self(Some(map)))
        }

        pub(super) fn bytes(&self) -> &[u8] {
            self.0.as_deref().unwrap_or_default()
        }
    }
}
