//! Part of the vectors: entries in order of arrival, in memory until they are written, then mapped.
//!
//! Two files: `vectors-N` contains a header, the rows, the scales, the upper halves of all first bytes and then the
//! lower ones, so that a scan reads half as much memory; `vectors-N.fine` contains the second bytes, which are only
//! read for candidates of a page.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bytes::{Reader, f32_at};
use crate::error::IndexError;
use crate::files::{MappedFile, NewFile, ReadFile, Sum};
use crate::vectors::dot::fetch_ahead;
use crate::vectors::quantize::{Planes, packed_bytes, unpack};

const MAGIC: &[u8; 8] = b"agentdV2";
const HEADER_BYTES: usize = 64;

/// Checksums of a written part, stored in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorPartSums {
    pub(crate) head: Sum,
    pub(crate) codes: Sum,
    pub(crate) fine: Sum,
}

/// Numbers of a part. The document of an entry is stored in the state, because it changes.
#[derive(Debug)]
pub(crate) struct VectorPart {
    dimensions: usize,
    scales: Vec<f32>,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Memory { rows: Vec<u64>, planes: Planes },
    Mapped { coarse: MappedFile, fine: ReadFile, codes_at: usize, sums: VectorPartSums, verified: AtomicBool },
}

impl VectorPart {
    pub(crate) fn new(dimensions: usize) -> Self {
        Self { dimensions, scales: Vec::new(), held: Held::Memory { rows: Vec::new(), planes: Planes::default() } }
    }

    /// Appends a row's quantized entries. Written parts accept none.
    pub(crate) fn append(&mut self, row: u64, scales: &[f32], new: &Planes) {
        if let Held::Memory { rows, planes } = &mut self.held {
            rows.extend(std::iter::repeat_n(row, scales.len()));
            self.scales.extend_from_slice(scales);
            planes.upper.extend_from_slice(&new.upper);
            planes.lower.extend_from_slice(&new.lower);
            planes.fine.extend_from_slice(&new.fine);
        }
    }

    /// Returns the rows of the entries while they are in memory.
    pub(crate) fn unwritten_rows(&self) -> Option<&[u64]> {
        match &self.held {
            Held::Memory { rows, .. } => Some(rows),
            Held::Mapped { .. } => None,
        }
    }

    pub(crate) fn is_written(&self) -> bool {
        matches!(self.held, Held::Mapped { .. })
    }

    pub(crate) fn sums(&self) -> Option<VectorPartSums> {
        match &self.held {
            Held::Memory { .. } => None,
            Held::Mapped { sums, .. } => Some(*sums),
        }
    }

    #[inline]
    pub(crate) fn scale(&self, entry: usize) -> f32 {
        self.scales[entry]
    }

    pub(crate) fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Returns the upper halves of the first bytes of all entries, consecutively.
    pub(crate) fn upper(&self) -> &[u8] {
        self.halves().0
    }

    /// Returns the upper and the lower halves of the first bytes.
    fn halves(&self) -> (&[u8], &[u8]) {
        match &self.held {
            Held::Memory { planes, .. } => (&planes.upper, &planes.lower),
            Held::Mapped { coarse, codes_at, .. } => {
                let codes = coarse.bytes().get(*codes_at..).unwrap_or_default();
                codes.split_at(codes.len() / 2)
            }
        }
    }

    /// Returns the halves of one entry.
    fn halves_of(&self, entry: usize) -> (&[u8], &[u8]) {
        let width = packed_bytes(self.dimensions);
        let (upper, lower) = self.halves();
        (&upper[entry * width..(entry + 1) * width], &lower[entry * width..(entry + 1) * width])
    }

    /// Prefetches the data that [`Self::read_codes`] reads for the entry.
    pub(crate) fn fetch_codes(&self, entry: usize) {
        let (upper, lower) = self.halves_of(entry);
        fetch_ahead(upper);
        fetch_ahead(lower);
    }

    /// Replaces the contents of `into` with the first bytes of an entry.
    pub(crate) fn read_codes(&self, entry: usize, into: &mut Vec<u8>) {
        let (upper, lower) = self.halves_of(entry);
        unpack(upper, lower, self.dimensions, into);
    }

    /// Appends the second bytes of an entry.
    pub(crate) fn read_fine(&self, entry: usize, into: &mut Vec<u8>) -> Result<(), IndexError> {
        let start = entry * self.dimensions;
        match &self.held {
            Held::Memory { planes, .. } => into.extend_from_slice(&planes.fine[start..start + self.dimensions]),
            Held::Mapped { fine, .. } => {
                let kept = into.len();
                into.resize(kept + self.dimensions, 0);
                fine.read(start as u64, &mut into[kept..])?;
            }
        }
        Ok(())
    }

    /// Verifies the part before it is read: rejects truncated files and compares the checksums once.
    pub(crate) fn check(&self) -> Result<(), IndexError> {
        let Held::Mapped { coarse, fine, codes_at, sums, verified } = &self.held else { return Ok(()) };
        coarse.check_length()?;
        if !verified.load(Ordering::Acquire) {
            if !coarse.bytes().get(*codes_at..).is_some_and(|bytes| sums.codes.matches(bytes)) {
                return Err(IndexError::damaged(format!("the checksum of {} is wrong", coarse.name())));
            }
            fine.verify()?;
            verified.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Requires the checksums to be verified again.
    pub(crate) fn invalidate_verification(&self) {
        if let Held::Mapped { verified, .. } = &self.held {
            verified.store(false, Ordering::Release);
        }
    }

    /// Maps the files of a part and returns the rows of its entries. The head is verified here, the rest by `check`.
    pub(crate) fn open(
        folder: &Path,
        number: u32,
        dimensions: usize,
        sums: VectorPartSums,
    ) -> Result<(Self, Vec<u64>), IndexError> {
        let coarse =
            MappedFile::open(&coarse_path(folder, number), sums.head.length.saturating_add(sums.codes.length))?;
        let fine = ReadFile::open(&fine_path(folder, number), sums.fine)?;
        let damaged = || IndexError::damaged(format!("{} is malformed", coarse.name()));
        let codes_at = usize::try_from(sums.head.length).map_err(|_| damaged())?;
        let head = coarse.bytes().get(..codes_at).filter(|head| sums.head.matches(head)).ok_or_else(damaged)?;
        let mut reader = Reader::new(head);
        let magic = reader.bytes(MAGIC.len()).ok_or_else(damaged)?;
        let found_dimensions = reader.count().ok_or_else(damaged)?;
        let count = reader.count().ok_or_else(damaged)?;
        let bytes = |each: usize| (count as u64).checked_mul(each as u64).ok_or_else(damaged);
        let (codes, fine_bytes) = (bytes(2 * packed_bytes(dimensions))?, bytes(dimensions)?);
        if magic != MAGIC
            || found_dimensions != dimensions
            || codes != sums.codes.length
            || fine_bytes != sums.fine.length
        {
            return Err(damaged());
        }
        reader.bytes(HEADER_BYTES - MAGIC.len() - 8).ok_or_else(damaged)?;
        let rows = (0..count).map(|_| reader.u64()).collect::<Option<Vec<_>>>().ok_or_else(damaged)?;
        let scale_bytes = reader.bytes(count * 4).ok_or_else(damaged)?;
        let scales = (0..count).filter_map(|entry| f32_at(scale_bytes, entry)).collect();
        let held = Held::Mapped { coarse, fine, codes_at, sums, verified: AtomicBool::new(false) };
        Ok((Self { dimensions, scales, held }, rows))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let held = match &self.held {
            Held::Memory { rows, planes } => {
                rows.capacity() * 8 + planes.upper.capacity() + planes.lower.capacity() + planes.fine.capacity()
            }
            Held::Mapped { .. } => 0,
        };
        held + self.scales.capacity() * 4
    }

    /// Returns the size on disk, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.sums().map_or(0, |sums| sums.head.length + sums.codes.length + sums.fine.length)
    }
}

/// Entry of a part, and its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) part: &'a VectorPart,
    pub(crate) index: usize,
    pub(crate) row: u64,
}

/// Writes both files of a new part, which becomes valid with the manifest.
pub(crate) fn write_part(
    folder: &Path,
    number: u32,
    dimensions: usize,
    entries: &[Entry<'_>],
) -> Result<VectorPartSums, IndexError> {
    let mut head = Vec::with_capacity(HEADER_BYTES + entries.len() * 12 + 64);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&(dimensions as u32).to_le_bytes());
    head.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    head.resize(HEADER_BYTES, 0);
    entries.iter().for_each(|entry| head.extend_from_slice(&entry.row.to_le_bytes()));
    entries.iter().for_each(|entry| head.extend_from_slice(&entry.part.scale(entry.index).to_le_bytes()));
    head.resize(head.len().next_multiple_of(64), 0);
    let mut coarse = NewFile::create(&coarse_path(folder, number))?;
    let head = coarse.write([&head[..]])?;
    let upper = entries.iter().map(|entry| entry.part.halves_of(entry.index).0);
    let lower = entries.iter().map(|entry| entry.part.halves_of(entry.index).1);
    let codes = coarse.write(upper.chain(lower))?;
    coarse.finish()?;
    let mut file = NewFile::create(&fine_path(folder, number))?;
    let fine = file.write_filled(entries.len(), |position, buffer| {
        let entry = &entries[position];
        entry.part.read_fine(entry.index, buffer)
    })?;
    file.finish()?;
    Ok(VectorPartSums { head, codes, fine })
}

pub(crate) fn coarse_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("vectors-{number}"))
}

pub(crate) fn fine_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("vectors-{number}.fine"))
}
