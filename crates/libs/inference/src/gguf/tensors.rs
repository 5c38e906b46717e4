//! Reader of single tensor rows in a GGUF file.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{MAX_ITEMS, damaged, read_bytes, read_text, read_u32, read_u64, skip_value};

const MAX_TENSORS: u64 = 100_000;
const MAX_DIMENSIONS: u32 = 4;
/// Maximum length of a row, in numbers.
const MAX_ROW: usize = 1 << 16;
const ALIGNMENT: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;
const UNSIGNED: u32 = 4;

/// Encoding of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    Half,
    /// Blocks of 32 signed bytes, each preceded by its scale.
    Bytes,
}

const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 2 + BLOCK;

/// Tensor whose rows can be read individually.
#[derive(Debug)]
pub(crate) struct Table {
    file: File,
    offset: u64,
    form: Form,
    columns: usize,
    rows: u64,
}

/// Reader that counts the bytes read.
struct CountingReader<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

/// Opens the tensors `names` of the file at `path`.
///
/// # Errors
/// Returns an error if the file is unreadable, is not a GGUF file, lacks one of the tensors, or stores one in another
/// encoding than 32-bit or 16-bit floats or blocks of eight bits.
pub(crate) fn open_tables<const N: usize>(path: &Path, names: [&str; N]) -> io::Result<[Table; N]> {
    let found = find_tensors(BufReader::new(File::open(path)?), names)?;
    let mut tables = Vec::with_capacity(N);
    for (offset, form, columns, rows) in found {
        tables.push(Table { file: File::open(path)?, offset, form, columns, rows });
    }
    tables.try_into().map_err(|_| damaged())
}

type TensorLocation = (u64, Form, usize, u64);

fn find_tensors<const N: usize>(reader: impl Read, names: [&str; N]) -> io::Result<Vec<TensorLocation>> {
    let mut reader = CountingReader { inner: reader, bytes: 0 };
    if read_bytes(&mut reader)? != *b"GGUF" || read_u32(&mut reader)? < 2 {
        return Err(damaged());
    }
    let tensors = read_u64(&mut reader)?;
    let settings = read_u64(&mut reader)?;
    if tensors > MAX_TENSORS || settings > super::MAX_SETTINGS {
        return Err(damaged());
    }
    let mut alignment = DEFAULT_ALIGNMENT;
    let mut items = MAX_ITEMS;
    for _ in 0..settings {
        let name = read_text(&mut reader)?.ok_or_else(damaged)?;
        let kind = read_u32(&mut reader)?;
        if name == ALIGNMENT && kind == UNSIGNED {
            alignment = u64::from(read_u32(&mut reader)?).max(1);
        } else {
            skip_value(&mut reader, kind, &mut items)?;
        }
    }
    let mut found: [Option<TensorLocation>; N] = [None; N];
    for _ in 0..tensors {
        let name = read_text(&mut reader)?.ok_or_else(damaged)?;
        let dimensions = read_u32(&mut reader)?;
        if dimensions > MAX_DIMENSIONS {
            return Err(damaged());
        }
        let mut columns = 1;
        let mut rows: u64 = 1;
        for dimension in 0..dimensions {
            let length = read_u64(&mut reader)?;
            if dimension == 0 {
                columns = usize::try_from(length).map_err(|_| damaged())?;
            } else {
                rows = rows.checked_mul(length).ok_or_else(damaged)?;
            }
        }
        let form = match read_u32(&mut reader)? {
            0 => Some(Form::Single),
            1 => Some(Form::Half),
            8 if columns.is_multiple_of(BLOCK) => Some(Form::Bytes),
            _ => None,
        };
        let offset = read_u64(&mut reader)?;
        if let Some(at) = names.iter().position(|wanted| *wanted == name) {
            let form = form.filter(|_| columns <= MAX_ROW).ok_or_else(damaged)?;
            found[at] = Some((offset, form, columns, rows));
        }
    }
    let start = reader.bytes.div_ceil(alignment) * alignment;
    found
        .into_iter()
        .map(|tensor| {
            let (offset, form, columns, rows) = tensor.ok_or_else(damaged)?;
            Ok((start.checked_add(offset).ok_or_else(damaged)?, form, columns, rows))
        })
        .collect()
}

impl Table {
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Appends a row.
    ///
    /// # Errors
    /// Returns an error if the row does not exist or the file is unreadable.
    pub(crate) fn read_row(&self, row: u64, into: &mut Vec<f32>) -> io::Result<()> {
        if row >= self.rows {
            return Err(damaged());
        }
        let length = match self.form {
            Form::Single => self.columns * 4,
            Form::Half => self.columns * 2,
            Form::Bytes => self.columns / BLOCK * BLOCK_BYTES,
        };
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, self.offset + row * length as u64)?;
        match self.form {
            Form::Single => into.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
            Form::Half => into.extend(bytes.chunks_exact(2).map(|b| half([b[0], b[1]]))),
            Form::Bytes => {
                for block in bytes.chunks_exact(BLOCK_BYTES) {
                    let scale = half([block[0], block[1]]);
                    into.extend(block[2..].iter().map(|byte| f32::from(byte.cast_signed()) * scale));
                }
            }
        }
        Ok(())
    }
}

/// Converts a 16-bit float (IEEE 754).
fn half(bytes: [u8; 2]) -> f32 {
    /// Smallest positive value, 2 to the power of -24.
    const SMALLEST: f32 = 5.960_464_5e-8;
    let bits = u16::from_le_bytes(bytes);
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), bits & 0x3ff);
    let magnitude = match exponent {
        0 => f32::from(fraction) * SMALLEST,
        0x1f => f32::from_bits(0x7f80_0000 | u32::from(fraction) << 13),
        _ => f32::from_bits((exponent + 112) << 23 | u32::from(fraction) << 13),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_floats_are_converted_exactly() {
        for (bits, number) in [
            (0x3c00_u16, 1.0_f32),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x0000, 0.0),
            (0x7c00, f32::INFINITY),
        ] {
            assert!(
                (half(bits.to_le_bytes()) - number).abs() <= number.abs() * 1e-6 || half(bits.to_le_bytes()) == number,
                "{bits:x}"
            );
        }
    }

    fn text(text: &str) -> Vec<u8> {
        [&u64::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn tensor(name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Vec<u8> {
        let mut bytes = text(name);
        bytes.extend(u32::try_from(dimensions.len()).unwrap().to_le_bytes());
        bytes.extend(dimensions.iter().flat_map(|length| length.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes
    }

    #[test]
    fn rows_are_located_after_the_settings() {
        let mut file = [&b"GGUF"[..], &3u32.to_le_bytes(), &2u64.to_le_bytes(), &1u64.to_le_bytes()].concat();
        file.extend(text("general.architecture"));
        file.extend(8u32.to_le_bytes());
        file.extend(text("bert"));
        file.extend(tensor("a", &[2, 3], 0, 0));
        file.extend(tensor("b", &[32, 2], 8, 32));
        file.resize(file.len().next_multiple_of(32), 0);
        for number in 0..6_u8 {
            file.extend(f32::from(number).to_le_bytes());
        }
        file.extend([0; 8]);
        for scale in [0x3c00_u16, 0x4000] {
            file.extend(scale.to_le_bytes());
            file.extend((0..32).map(|number: u8| number.wrapping_sub(16)));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        std::fs::write(&path, &file).unwrap();
        let [a, b] = open_tables(&path, ["a", "b"]).unwrap();
        let mut row = Vec::new();
        a.read_row(1, &mut row).unwrap();
        assert_eq!(row, [2.0, 3.0]);
        row.clear();
        b.read_row(1, &mut row).unwrap();
        assert_eq!((row.len(), row[0], row[31], b.columns()), (32, -32.0, 30.0, 32));
        assert!(b.read_row(2, &mut row).is_err());
        assert!(open_tables(&path, ["c"]).is_err());
        std::fs::write(&path, &file[..40]).unwrap();
        assert!(open_tables(&path, ["a"]).is_err());
    }
}
