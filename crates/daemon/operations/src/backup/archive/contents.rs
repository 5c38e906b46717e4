//! Table of contents of an archive. It is written to a file line by line while entries pass, so it needs no memory, and
//! compared byte by byte.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use sha2::{Digest, Sha256};

use crate::backup::model::Entry;

#[derive(Debug)]
pub(super) struct ContentsWriter {
    file: BufWriter<File>,
    entries: u64,
}

impl ContentsWriter {
    /// `file` must be empty and readable.
    pub(super) fn new(file: File) -> Self {
        Self { file: BufWriter::new(file), entries: 0 }
    }

    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<()> {
        self.entries += 1;
        self.line(entry)
    }

    /// Writes the last line; returns the list, rewound to its beginning, with its length.
    pub(super) fn finish(mut self) -> io::Result<(File, u64)> {
        self.line(&Entry::End { entries: self.entries })?;
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let length = file.stream_position()?;
        file.rewind()?;
        Ok((file, length))
    }

    fn line(&mut self, entry: &Entry) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, entry)?;
        self.file.write_all(b"\n")
    }
}

/// Returns whether both contain the same bytes.
pub(super) fn has_same_bytes(left: impl Read, right: impl Read) -> io::Result<bool> {
    let (mut left, mut right) = (BufReader::new(left).bytes(), BufReader::new(right).bytes());
    loop {
        match (left.next().transpose()?, right.next().transpose()?) {
            (None, None) => return Ok(true),
            (left, right) if left == right => {}
            _ => return Ok(false),
        }
    }
}

/// Returns the SHA-256 of a file from its current position, in hex.
pub(crate) fn sha256_of(file: impl Read) -> io::Result<String> {
    let mut hashing = Hashing::new(file);
    io::copy(&mut hashing, &mut io::sink())?;
    Ok(hashing.finish().1)
}

/// Reader or writer adapter that hashes the bytes passing through it.
#[derive(Debug)]
pub(super) struct Hashing<T> {
    inner: T,
    hasher: Sha256,
    bytes: u64,
}

impl<T> Hashing<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    /// Returns the number of bytes and their SHA-256 in hex.
    pub(super) fn finish(self) -> (u64, String) {
        (self.bytes, hex::encode(self.hasher.finalize()))
    }

    pub(super) fn length(&self) -> u64 {
        self.bytes
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        let (read, _) = into.split_at(count.min(into.len()));
        self.pass(read);
        Ok(count)
    }
}
