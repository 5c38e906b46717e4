//! Sparse files. A hole takes no space in an archive or on disk, so a file of a terabyte of zeros is written and read
//! immediately.
//!
//! The format is PAX format 1.0 of GNU tar. An extended header contains the name and the real size of the file; the
//! file's own header contains the stored size. The stored data begins with a map of decimal numbers, one per line: the
//! number of extents, then offset and length of each. The last extent is empty and marks the end. The map is padded
//! with zeros to a full block and followed by the data of the extents.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

const MAJOR: (&str, &[u8]) = ("GNU.sparse.major", b"1");
const MINOR: (&str, &[u8]) = ("GNU.sparse.minor", b"0");
const NAME: &str = "GNU.sparse.name";
const REAL_SIZE: &str = "GNU.sparse.realsize";
/// Name shown by programs that do not support the format.
pub(super) const PLACEHOLDER: &str = "GNUSparseFile.0/file";

const BLOCK: usize = 512;
/// Minimum length of a hole; shorter ones are written as zeros.
const MIN_HOLE: u64 = 64 << 10;
/// Maximum number of extents, because the map is held in memory. In files with more extents, longer holes are also
/// written as zeros.
const MAX_EXTENTS: usize = 1 << 18;

/// Range of a file that contains data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Returns the data ranges of a file of `size` bytes; `None` if it has no significant holes or the file system does not
/// report them.
pub(super) fn extents(file: &File, size: u64, blocks: u64) -> Option<Vec<Extent>> {
    if blocks.saturating_mul(512) >= size {
        return None;
    }
    let mut min_hole = MIN_HOLE;
    let extents = loop {
        match find_extents(file, size, min_hole) {
            Ok(Some(extents)) => break extents,
            Ok(None) => min_hole = min_hole.saturating_mul(4),
            Err(_) => return None,
        }
    };
    (extents != [Extent { offset: 0, length: size }]).then_some(extents)
}

/// Returns `None` if there are too many extents.
fn find_extents(file: &File, size: u64, min_hole: u64) -> Result<Option<Vec<Extent>>, Errno> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            start => start?,
        };
        if start >= size {
            break;
        }
        let end = match seek(file, SeekFrom::Hole(start)) {
            // The file was truncated meanwhile.
            Err(Errno::NXIO) => size,
            end => end?,
        };
        // The two answers can disagree if the file is written concurrently.
        let end = end.clamp(start + 1, size);
        let is_full = extents.len() == MAX_EXTENTS;
        match extents.last_mut() {
            Some(last) if start - (last.offset + last.length) < min_hole => last.length = end - last.offset,
            _ if is_full => return Ok(None),
            _ => extents.push(Extent { offset: start, length: end - start }),
        }
        at = end;
    }
    Ok(Some(extents))
}

/// Extended header of a sparse file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SparseHeader {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
}

impl SparseHeader {
    pub(super) fn write<W: Write>(&self, to: &mut tar::Builder<W>) -> io::Result<()> {
        let size = self.size.to_string();
        to.append_pax_extensions([MAJOR, MINOR, (NAME, self.name.as_slice()), (REAL_SIZE, size.as_bytes())])
    }

    /// Returns `None` if the text is anything other than a complete sparse header.
    pub(super) fn read(mut text: &[u8]) -> Option<Self> {
        let (mut name, mut size, mut versions) = (None, None, 0);
        // Not parsed by lines, because a name may contain line breaks.
        while !text.is_empty() {
            let digits = text.iter().position(|byte| *byte == b' ')?;
            let length: usize = std::str::from_utf8(text.get(..digits)?).ok()?.parse().ok()?;
            let record = text.get(digits + 1..length)?.strip_suffix(b"\n")?;
            text = text.get(length..)?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (std::str::from_utf8(record.get(..equals)?).ok()?, record.get(equals + 1..)?);
            match key {
                NAME => name = Some(value.to_vec()),
                REAL_SIZE => size = std::str::from_utf8(value).ok()?.parse().ok(),
                _ if (key, value) == MAJOR || (key, value) == MINOR => versions += 1,
                _ => return None,
            }
        }
        (versions == 2).then_some(Self { name: name?, size: size? })
    }
}

/// Serializes the map of a file of `size` bytes.
pub(super) fn map(extents: &[Extent], size: u64) -> Vec<u8> {
    let mut text = format!("{}\n", extents.len() + 1);
    for Extent { offset, length } in extents.iter().chain([&Extent { offset: size, length: 0 }]) {
        text.push_str(&format!("{offset}\n{length}\n"));
    }
    let mut map = text.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// Reads a map and nothing beyond it. Returns `Ok(None)` if it is not a valid map, as written by [`map`], for a file of
/// this size.
pub(super) fn read_map(from: &mut impl Read, size: u64) -> io::Result<Option<Vec<Extent>>> {
    let mut numbers = NumberReader { from, block: [0; BLOCK], at: BLOCK };
    let Some(count) = numbers.next()?.filter(|count| (1..=MAX_EXTENTS as u64 + 1).contains(count)) else {
        return Ok(None);
    };
    let mut extents = Vec::new();
    let mut end = 0;
    for _ in 1..count {
        let (Some(offset), Some(length)) = (numbers.next()?, numbers.next()?) else { return Ok(None) };
        let ends = offset.checked_add(length).filter(|ends| offset >= end && *ends <= size && length > 0);
        let Some(ends) = ends else { return Ok(None) };
        end = ends;
        extents.push(Extent { offset, length });
    }
    if (numbers.next()?, numbers.next()?) != (Some(size), Some(0)) {
        return Ok(None);
    }
    let is_filled = numbers.block.get(numbers.at..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
    Ok(is_filled.then_some(extents))
}

struct NumberReader<'a, R> {
    from: &'a mut R,
    block: [u8; BLOCK],
    at: usize,
}

impl<R: Read> NumberReader<'_, R> {
    fn next(&mut self) -> io::Result<Option<u64>> {
        let mut number: Option<u64> = None;
        loop {
            if self.at == BLOCK {
                self.from.read_exact(&mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'0'..=b'9' => {
                    let next =
                        number.unwrap_or(0).checked_mul(10).and_then(|ten| ten.checked_add((byte - b'0').into()));
                    number = Some(match next {
                        Some(next) => next,
                        None => return Ok(None),
                    });
                }
                b'\n' => return Ok(number),
                _ => return Ok(None),
            }
        }
    }
}

/// Reads the data of the extents in sequence. Reads zeros beyond the end of a truncated file, because its size was
/// announced.
#[derive(Debug)]
pub(super) struct ExtentReader<'a> {
    file: &'a File,
    extents: std::vec::IntoIter<Extent>,
    current: Extent,
}

impl<'a> ExtentReader<'a> {
    pub(super) fn new(file: &'a File, extents: Vec<Extent>) -> Self {
        Self { file, extents: extents.into_iter(), current: Extent { offset: 0, length: 0 } }
    }
}

impl Read for ExtentReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.current.length == 0 {
            match self.extents.next() {
                Some(next) => self.current = next,
                None => return Ok(0),
            }
        }
        let length = into.len().min(usize::try_from(self.current.length).unwrap_or(usize::MAX));
        let into = into.get_mut(..length).unwrap_or_default();
        let read = match self.file.read_at(into, self.current.offset)? {
            0 => {
                into.fill(0);
                length
            }
            read => read,
        };
        self.current.offset += read as u64;
        self.current.length -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn holes_are_found_and_short_ones_are_filled() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        let size = 1 << 40;
        file.set_len(size).unwrap();
        let found =
            |file: &File| extents(file, size, std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()));
        assert_eq!(found(&file), Some(Vec::new()));
        for offset in [1 << 20, (1 << 20) + 32_768, 1 << 30, size - 4_096] {
            file.seek(SeekFrom::Start(offset)).unwrap();
            file.write_all(&[7; 4_096]).unwrap();
        }
        let near = Extent { offset: 1 << 20, length: 32_768 + 4_096 };
        let far = |offset| Extent { offset, length: 4_096 };
        assert_eq!(found(&file), Some(vec![near, far(1 << 30), far(size - 4_096)]));
        let mut content = Vec::new();
        ExtentReader::new(&file, found(&file).unwrap()).read_to_end(&mut content).unwrap();
        assert_eq!(content.iter().filter(|byte| **byte == 7).count(), 4 * 4_096);
        // The announced size is kept after truncation.
        let extents = found(&file).unwrap();
        file.set_len(0).unwrap();
        let mut again = Vec::new();
        ExtentReader::new(&file, extents).read_to_end(&mut again).unwrap();
        assert_eq!(again, vec![0; content.len()]);
    }

    #[test]
    fn file_without_holes_has_no_extents() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        assert_eq!(extents(&file, 100_000, 0), None);
    }

    proptest! {
        #[test]
        fn map_round_trips(lengths in prop::collection::vec((1_u64..1 << 40, 1_u64..1 << 40), 0..200)) {
            let mut at = 0;
            let extents: Vec<Extent> = lengths.iter().map(|(hole, length)| {
                let offset = at + hole;
                at = offset + length;
                Extent { offset, length: *length }
            }).collect();
            let mut text = map(&extents, at);
            text.extend_from_slice(b"behind");
            let mut from = text.as_slice();
            prop_assert_eq!(read_map(&mut from, at).unwrap(), Some(extents));
            prop_assert_eq!(from, b"behind");
            if at > 0 {
                prop_assert_eq!(read_map(&mut text.as_slice(), at - 1).unwrap(), None);
            }
        }

        #[test]
        fn header_round_trips(name in prop::collection::vec(1_u8.., 1..300), size in any::<u64>()) {
            let header = SparseHeader { name, size };
            let mut packed = tar::Builder::new(Vec::new());
            header.write(&mut packed).unwrap();
            let packed = packed.into_inner().unwrap();
            let mut archive = tar::Archive::new(packed.as_slice());
            let mut text = Vec::new();
            archive.entries().unwrap().raw(true).next().unwrap().unwrap().read_to_end(&mut text).unwrap();
            prop_assert_eq!(SparseHeader::read(&text), Some(header));
            prop_assert_eq!(SparseHeader::read(&text[..text.len() - 1]), None);
        }

        #[test]
        fn invalid_map_is_rejected(text in "[0-9\n\0x-]{0,600}", size in any::<u64>()) {
            if let Ok(Some(extents)) = read_map(&mut text.as_bytes(), size) {
                let mut end = 0;
                for Extent { offset, length } in extents {
                    prop_assert!(offset >= end && offset + length <= size);
                    end = offset + length;
                }
            }
        }
    }
}
