//! Words below a picture, in a bitmap font.

use font8x8::{BASIC_FONTS, LATIN_FONTS, UnicodeFonts};
use image::{Rgb, RgbImage};

/// Of the band that words stand in.
pub(crate) const HEIGHT: u32 = 32;
/// A dot of the font is a square of this many pixels.
const SCALE: u32 = 2;
const GLYPH: u32 = 8 * SCALE;
const MARGIN: u32 = (HEIGHT - GLYPH) / 2;
const INK: Rgb<u8> = Rgb([235, 235, 235]);

/// Draws one line into the band that begins at `top`; what does not fit is left out, and a sign says so.
pub(crate) fn draw(canvas: &mut RgbImage, top: u32, words: &str) {
    let room = (canvas.width().saturating_sub(2 * MARGIN) / GLYPH) as usize;
    let is_cut = words.chars().count() > room;
    let shown = if is_cut { room.saturating_sub(2) } else { room };
    let end = if is_cut { ".." } else { "" };
    let mut left = MARGIN;
    for letter in words.chars().take(shown).chain(end.chars()) {
        draw_glyph(canvas, left, top + MARGIN, glyph(letter));
        left += GLYPH;
    }
}

/// A letter that the font does not have is a question mark.
fn glyph(letter: char) -> [u8; 8] {
    let known = BASIC_FONTS.get(letter).or_else(|| LATIN_FONTS.get(letter));
    known.or_else(|| BASIC_FONTS.get('?')).unwrap_or_default()
}

fn draw_glyph(canvas: &mut RgbImage, left: u32, top: u32, rows: [u8; 8]) {
    for y in 0..GLYPH {
        for x in 0..GLYPH {
            let is_ink = rows[(y / SCALE) as usize] & (1 << (x / SCALE)) != 0;
            // A video may be narrower than a letter.
            if let Some(pixel) = canvas.get_pixel_mut_checked(left + x, top + y).filter(|_| is_ink) {
                *pixel = INK;
            }
        }
    }
}
