//! Network with one hidden layer over the vectors and shapes of a word and its neighbours.
//!
//! File format, little-endian: [`MAGIC`]; four 32-bit counts (hidden units, vector length, shape features, tags); then
//! 32-bit floats: a scale for each block and hidden unit, the biases of the hidden layer, the weights of the last layer
//! by hidden unit, its biases; then the weights of the hidden layer as signed bytes, by input. The inputs are seven
//! blocks: the vectors before the first and after the last layer for the previous word, the word and the next word, and
//! the shapes.

use crate::embedder::DIMENSIONS;
use crate::tagger::shape::SHAPES;

const MAGIC: &[u8] = b"agentd names 1\n\0";
/// Number of tags: none, and the first and further words of four kinds of names.
pub(crate) const TAGS: usize = 9;
const HIDDEN: usize = 128;
/// The word and its two neighbours.
const ROLES: usize = 3;
/// Vectors per word.
const LAYERS: usize = 2;
const BLOCKS: usize = ROLES * LAYERS + 1;

type Hidden = [f32; HIDDEN];

#[derive(Debug)]
pub(crate) struct Network {
    scales: Vec<Hidden>,
    bias: Hidden,
    output: Vec<[f32; TAGS]>,
    output_bias: [f32; TAGS],
    weights: &'static [u8],
}

/// Reads numbers from the beginning of a file.
struct Bytes(&'static [u8]);

impl Bytes {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn count(&mut self) -> Option<usize> {
        self.take().and_then(|bytes| usize::try_from(u32::from_le_bytes(bytes)).ok())
    }

    fn floats<const N: usize>(&mut self) -> Option<[f32; N]> {
        let mut floats = [0.0; N];
        for float in &mut floats {
            *float = f32::from_le_bytes(self.take()?);
        }
        Some(floats)
    }
}

impl Network {
    /// Parses a network; `None` if the format differs.
    pub(crate) fn read(file: &'static [u8]) -> Option<Self> {
        let mut bytes = Bytes(file.strip_prefix(MAGIC)?);
        if [HIDDEN, DIMENSIONS, SHAPES, TAGS].into_iter().any(|count| bytes.count() != Some(count)) {
            return None;
        }
        let scales = (0..BLOCKS).map(|_| bytes.floats()).collect::<Option<_>>()?;
        let bias = bytes.floats()?;
        let output = (0..HIDDEN).map(|_| bytes.floats()).collect::<Option<_>>()?;
        let output_bias = bytes.floats()?;
        let inputs = ROLES * LAYERS * DIMENSIONS + SHAPES;
        (bytes.0.len() == inputs * HIDDEN).then_some(Self { scales, bias, output, output_bias, weights: bytes.0 })
    }

    /// Returns the score of each tag for each word. `vectors` has two vectors of [`DIMENSIONS`] numbers per word.
    pub(crate) fn scores(&self, vectors: &[f32], shapes: &[Vec<usize>]) -> Vec<[f32; TAGS]> {
        let mut hidden = vec![self.bias; shapes.len()];
        for (index, vector) in vectors.chunks_exact(LAYERS * DIMENSIONS).enumerate() {
            for role in 0..ROLES {
                // This word is the predecessor of the next word and the successor of the previous one.
                let Some(sum) = (index + 1).checked_sub(role).and_then(|at| hidden.get_mut(at)) else { continue };
                for (layer, part) in vector.chunks_exact(DIMENSIONS).enumerate() {
                    self.add_block(role * LAYERS + layer, part, sum);
                }
            }
        }
        let first = (BLOCKS - 1) * DIMENSIONS;
        let scale = &self.scales[BLOCKS - 1];
        shapes
            .iter()
            .zip(hidden)
            .map(|(on, mut sum)| {
                for position in on {
                    for ((sum, weight), scale) in sum.iter_mut().zip(self.row(first + position)).zip(scale) {
                        *sum += f32::from(weight.cast_signed()) * scale;
                    }
                }
                let mut scores = self.output_bias;
                for (unit, weights) in sum.iter().zip(&self.output) {
                    for (score, weight) in scores.iter_mut().zip(weights) {
                        *score += unit.max(0.0) * weight;
                    }
                }
                scores
            })
            .collect()
    }

    fn row(&self, input: usize) -> &[u8] {
        &self.weights[input * HIDDEN..(input + 1) * HIDDEN]
    }

    fn add_block(&self, block: usize, values: &[f32], into: &mut Hidden) {
        let mut sums = [0.0; HIDDEN];
        for (position, value) in values.iter().enumerate() {
            for (sum, weight) in sums.iter_mut().zip(self.row(block * DIMENSIONS + position)) {
                *sum += value * f32::from(weight.cast_signed());
            }
        }
        for ((into, sum), scale) in into.iter_mut().zip(sums).zip(&self.scales[block]) {
            *into += sum * scale;
        }
    }
}
