// Data exchanged between the Markdown worker and the renderer.

/**
 * An element of a closed set as data: `[name, children, value]`. A string is literal text; the name `&` marks text
 * whose character references still have to be decoded, which requires a document.
 */
export type Tree = string | [name: string, children: Tree[], value?: string];

/** A part of a message that is rendered independently. */
export interface Block {
  kind: 'tree' | 'table' | 'code' | 'plain';
  /**
   * A `Tree[]` as JSON, an array of those for the parts of a long table, code, or plain text. Always a string, so that
   * unchanged blocks are recognized cheaply.
   */
  data: string;
  language?: string;
  /** Approximate number of DOM nodes. */
  nodes: number;
}

export interface Rendered {
  blocks: Block[];
  /** Number of leading blocks that text appended later cannot change, and the length of their source. */
  settledBlocks: number;
  settledLength: number;
}

/** Maximum length of a piece of text or code that is laid out as a unit. */
const PIECE_LENGTH = 8_000;
const PIECE_LINES = 100;

/**
 * Splits text at line ends into pieces that are cheap to lay out. Joining them with line ends restores the text. A line
 * longer than a piece is not split.
 */
export function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  let start = 0;
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    lines += 1;
    const next = text.indexOf('\n', at + 1);
    const end = next < 0 ? text.length : next;
    if (lines < PIECE_LINES && end - start <= PIECE_LENGTH) continue;
    pieces.push(text.slice(start, at));
    start = at + 1;
    lines = 0;
  }
  pieces.push(text.slice(start));
  return pieces;
}

/** Splits text like `piecesOf`, and long lines at a space, or anywhere if there is none. */
export function wrappedPiecesOf(text: string): string[] {
  return piecesOf(text).flatMap((piece) => {
    const parts: string[] = [];
    for (let rest = piece; ; ) {
      if (rest.length <= PIECE_LENGTH) return [...parts, rest];
      const space = rest.lastIndexOf(' ', PIECE_LENGTH);
      const end = space > PIECE_LENGTH / 2 ? space + 1 : PIECE_LENGTH;
      parts.push(rest.slice(0, end));
      rest = rest.slice(end);
    }
  });
}

export function plainBlock(text: string): Block {
  return { kind: 'plain', data: text, nodes: 2 + Math.ceil(text.length / 1000) };
}
