//! Input vectors of word pieces before the first layer, read from the model file, since the engine does not expose
//! them.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::embedder::DIMENSIONS;
use crate::gguf::tensors::{Table, open_tables};

/// Epsilon of layer normalization in the model.
const EPSILON: f64 = 1e-12;

/// Input vectors of the vocabulary. The rows are read on demand: a chunk needs a few hundred of 30,000.
#[derive(Debug)]
pub(super) struct WordPieces {
    table: Table,
    /// Vector of the only segment type.
    kind: Vec<f32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl WordPieces {
    /// Opens the model file.
    ///
    /// # Errors
    /// Returns an error if the file is unreadable or is not a BERT model with [`DIMENSIONS`] dimensions.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let names = ["token_embd.weight", "token_types.weight", "token_embd_norm.weight", "token_embd_norm.bias"];
        let [table, kinds, scale, shift] = open_tables(path, names)?;
        if [&table, &kinds, &scale, &shift].into_iter().any(|table| table.columns() != DIMENSIONS) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let first = |table: &Table| {
            let mut row = Vec::new();
            table.read_row(0, &mut row).map(|()| row)
        };
        Ok(Self { kind: first(&kinds)?, scale: first(&scale)?, shift: first(&shift)?, table })
    }

    /// Returns [`DIMENSIONS`] numbers for each token: its row, normalized as in the model, without its position.
    ///
    /// # Errors
    /// Returns an error if the file is no longer readable.
    pub(super) fn vectors(&self, row: &[i32]) -> io::Result<Vec<f32>> {
        let mut known: HashMap<i32, usize> = HashMap::new();
        let mut vectors = Vec::with_capacity(row.len() * DIMENSIONS);
        for token in row {
            let at = vectors.len();
            if let Some(&earlier) = known.get(token) {
                vectors.extend_from_within(earlier..earlier + DIMENSIONS);
                continue;
            }
            let index = u64::try_from(*token).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            self.table.read_row(index, &mut vectors)?;
            self.normalize(&mut vectors[at..]);
            known.insert(*token, at);
        }
        Ok(vectors)
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "means of a few hundred numbers")]
    fn normalize(&self, vector: &mut [f32]) {
        for (number, kind) in vector.iter_mut().zip(&self.kind) {
            *number += kind;
        }
        let count = vector.len() as f64;
        let mean = vector.iter().map(|&number| f64::from(number)).sum::<f64>() / count;
        let variance = vector.iter().map(|&number| (f64::from(number) - mean).powi(2)).sum::<f64>() / count;
        let deviation = (variance + EPSILON).sqrt();
        for ((number, scale), shift) in vector.iter_mut().zip(&self.scale).zip(&self.shift) {
            *number = ((f64::from(*number) - mean) / deviation) as f32 * scale + shift;
        }
    }
}
