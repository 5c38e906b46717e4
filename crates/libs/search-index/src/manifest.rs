//! Manifest: the valid files, their dead documents, and the caller's cursor. Written next to the old one and renamed
//! over it, so that the folder always opens in the state of one flush.

use std::fs;
use std::path::{Path, PathBuf};

use crate::analysis::ANALYSIS_VERSION;
use crate::bytes::{Reader, put_varint};
use crate::error::IndexError;
use crate::files::{NewFile, Sum, failed, sync_folder};
use crate::text::mapped::TextPartSums;
use crate::vectors::part::VectorPartSums;

const MAGIC: &[u8; 8] = b"agentdM2";
/// Maximum length of the caller's cursor, in bytes.
pub const MAX_CURSOR_BYTES: usize = 256;
const MAX_MODEL_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) dimensions: usize,
    pub(crate) model: String,
    pub(crate) cursor: Option<Vec<u8>>,
    pub(crate) next_number: u32,
    pub(crate) text: Vec<TextEntry>,
    pub(crate) vectors: Vec<VectorEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextEntry {
    pub(crate) number: u32,
    pub(crate) sums: TextPartSums,
    /// Positions of dead documents, ascending.
    pub(crate) dead: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VectorEntry {
    pub(crate) number: u32,
    pub(crate) sums: VectorPartSums,
    pub(crate) dead: Vec<u32>,
}

/// Reason why a manifest cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Absent,
    Reason(String),
}

pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("manifest")
}

impl Manifest {
    pub(crate) fn write(&self, folder: &Path) -> Result<(), IndexError> {
        let body = self.encode();
        let fresh = folder.join("manifest.new");
        let mut file = NewFile::create(&fresh)?;
        file.write([&body[..], &crc32fast::hash(&body).to_le_bytes()])?;
        file.finish()?;
        // The names of the parts must be durable before the manifest refers to them.
        sync_folder(folder)?;
        fs::rename(&fresh, path(folder)).map_err(failed("rename", &fresh))?;
        sync_folder(folder)
    }

    pub(crate) fn read(folder: &Path) -> Result<Result<Self, Unusable>, IndexError> {
        let path = path(folder);
        match fs::read(&path) {
            Ok(bytes) => Ok(Self::decode(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Err(Unusable::Absent)),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_u32(&mut out, ANALYSIS_VERSION);
        put_u32(&mut out, self.dimensions as u32);
        put_u32(&mut out, self.next_number);
        put_bytes(&mut out, self.model.as_bytes());
        out.push(u8::from(self.cursor.is_some()));
        put_bytes(&mut out, self.cursor.as_deref().unwrap_or_default());
        put_u32(&mut out, self.text.len() as u32);
        for part in &self.text {
            put_u32(&mut out, part.number);
            [part.sums.head, part.sums.rest].iter().for_each(|sum| put_sum(&mut out, *sum));
            put_ascending(&mut out, &part.dead);
        }
        put_u32(&mut out, self.vectors.len() as u32);
        for part in &self.vectors {
            put_u32(&mut out, part.number);
            [part.sums.head, part.sums.codes, part.sums.fine].iter().for_each(|sum| put_sum(&mut out, *sum));
            put_ascending(&mut out, &part.dead);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Unusable> {
        let damaged = || Unusable::Reason("the manifest is damaged".to_owned());
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        let mut reader = Reader::new(body);
        if reader.bytes(MAGIC.len()) != Some(MAGIC) || reader.u32() != Some(ANALYSIS_VERSION) {
            return Err(Unusable::Reason("the index was written by another version".to_owned()));
        }
        Self::decode_body(&mut reader).filter(|_| reader.is_empty()).ok_or_else(damaged)
    }

    fn decode_body(reader: &mut Reader<'_>) -> Option<Self> {
        let dimensions = reader.count()?;
        let next_number = reader.u32()?;
        let model = String::from_utf8(take_bytes(reader, MAX_MODEL_BYTES)?.to_vec()).ok()?;
        let has_cursor = reader.bytes(1)? == [1];
        let cursor = take_bytes(reader, MAX_CURSOR_BYTES)?.to_vec();
        let mut text = Vec::new();
        for _ in 0..reader.count()? {
            let number = reader.u32()?;
            let sums = TextPartSums { head: take_sum(reader)?, rest: take_sum(reader)? };
            text.push(TextEntry { number, sums, dead: take_ascending(reader)? });
        }
        let mut vectors = Vec::new();
        for _ in 0..reader.count()? {
            let number = reader.u32()?;
            let sums = VectorPartSums { head: take_sum(reader)?, codes: take_sum(reader)?, fine: take_sum(reader)? };
            vectors.push(VectorEntry { number, sums, dead: take_ascending(reader)? });
        }
        Some(Self { dimensions, model, cursor: has_cursor.then_some(cursor), next_number, text, vectors })
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(reader: &mut Reader<'a>, most: usize) -> Option<&'a [u8]> {
    let count = reader.count().filter(|count| *count <= most)?;
    reader.bytes(count)
}

fn put_sum(out: &mut Vec<u8>, sum: Sum) {
    out.extend_from_slice(&sum.length.to_le_bytes());
    put_u32(out, sum.crc);
}

fn take_sum(reader: &mut Reader<'_>) -> Option<Sum> {
    Some(Sum { length: reader.u64()?, crc: reader.u32()? })
}

fn put_ascending(out: &mut Vec<u8>, numbers: &[u32]) {
    put_u32(out, numbers.len() as u32);
    let mut before = 0;
    for number in numbers {
        put_varint(out, number - before);
        before = *number;
    }
}

fn take_ascending(reader: &mut Reader<'_>) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut before = 0_u32;
    for _ in 0..reader.count()? {
        before = before.checked_add(reader.varint()?)?;
        numbers.push(before);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let sum = Sum { length: 77, crc: 5 };
        Manifest {
            dimensions: 384,
            model: "mini".to_owned(),
            cursor: Some(b"here".to_vec()),
            next_number: 9,
            text: vec![TextEntry { number: 1, sums: TextPartSums { head: sum, rest: sum }, dead: vec![0, 5, 900] }],
            vectors: vec![VectorEntry {
                number: 2,
                sums: VectorPartSums { head: sum, codes: sum, fine: sum },
                dead: vec![3],
            }],
        }
    }

    fn bytes(manifest: &Manifest) -> Vec<u8> {
        let mut bytes = manifest.encode();
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn manifest_round_trips_and_rejects_damage() {
        let written = bytes(&manifest());
        assert_eq!(Manifest::decode(&written), Ok(manifest()));
        for length in 0..written.len() {
            assert!(Manifest::decode(&written[..length]).is_err(), "cut to {length}");
        }
        for index in 0..written.len() {
            let mut flipped = written.clone();
            flipped[index] ^= 0x10;
            assert!(Manifest::decode(&flipped).is_err(), "flipped at {index}");
        }
    }
}
