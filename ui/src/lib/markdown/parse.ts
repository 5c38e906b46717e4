// Parses untrusted Markdown. HTML is shown as text, and images are replaced by their names, because fetching them would
// leak data to their server. Runs in a worker, because some texts take very long.

import { Lexer, Marked, Tokenizer, type Token, type Tokens } from 'marked';
import { plainBlock, type Block, type Rendered, type Tree } from './blocks';

/** Maximum nesting of quotes and lists; deeper ones are shown unformatted. */
const MAX_BLOCK_DEPTH = 16;
const MAX_INLINE_DEPTH = 32;
/** Maximum number of DOM nodes of a block; longer lists and tables are split. */
const MAX_BLOCK_NODES = 500;
const MAX_TABLE_COLUMNS = 200;
/** Maximum number of paragraphs, items and cells with inline formatting; further ones are shown unformatted. */
const MAX_FORMATTED = 10_000;

let depth = 0;
function nested<A extends unknown[], T>(read: (this: Tokenizer, ...args: A) => T | undefined) {
  return function (this: unknown, ...args: A): T | undefined {
    if (depth >= MAX_BLOCK_DEPTH) return undefined;
    depth += 1;
    try {
      return read.apply(this as Tokenizer, args);
    } finally {
      depth -= 1;
    }
  };
}

const marked = new Marked({ gfm: true, breaks: true, async: false }).use({
  tokenizer: { blockquote: nested(Tokenizer.prototype.blockquote), list: nested(Tokenizer.prototype.list) },
});

/** Parses the blocks of a text, in order. Appended text can only change the last two blocks. */
export function render(text: string): Rendered {
  const tokens = tokensOf(text);
  const visible = tokens.flatMap((token, at) => (isInvisible(token) ? [] : [at]));
  const open = visible.at(-2) ?? 0;
  const rendered: Rendered = { blocks: [], settledBlocks: 0, settledLength: 0 };
  for (const [at, token] of tokens.entries()) {
    if (at === open) rendered.settledBlocks = rendered.blocks.length;
    if (at < open) rendered.settledLength += token.raw.length;
    rendered.blocks.push(...blocksOf(token));
  }
  return rendered;
}

function tokensOf(text: string): Token[] {
  const lexer = new Lexer(marked.defaults);
  lexer.blockTokens(text, lexer.tokens);
  for (const [at, { src, tokens }] of lexer.inlineQueue.entries()) {
    lexer.state.inRawBlock = false;
    if (at < MAX_FORMATTED) lexer.inlineTokens(src, tokens);
    else tokens.push({ type: 'text', raw: src, text: src, escaped: true });
  }
  return lexer.tokens;
}

/** Returns the lengths of the blocks without parsing their contents; blank lines belong to the preceding block. */
export function outline(text: string): number[] {
  const lengths: number[] = [];
  for (const token of new Lexer(marked.defaults).blockTokens(text)) {
    if (isInvisible(token) && lengths.length) lengths[lengths.length - 1]! += token.raw.length;
    else lengths.push(token.raw.length);
  }
  return lengths;
}

const isInvisible = ({ type }: Token) => type === 'space' || type === 'def';

function blocksOf(token: Token): Block[] {
  if (token.type === 'code') {
    const { text, lang } = token as Tokens.Code;
    return [{ kind: 'code', data: text, language: lang ?? '', nodes: 20 + Math.ceil(text.length / 200) }];
  }
  const trees = blockTrees(token);
  if (trees.length === 0) return [];
  const parts = sizeOf(trees) > MAX_BLOCK_NODES ? divide(token) : [trees];
  if (!parts) return [plainBlock(token.raw)];
  if (token.type === 'table' && parts.length > 1) return [{ kind: 'table', data: JSON.stringify(parts.map((part) => JSON.stringify(part))), nodes: sizeOf(parts[0]!) }];
  return parts.map((part) => ({ kind: 'tree', data: JSON.stringify(part), nodes: sizeOf(part) }));
}

function sizeOf(trees: Tree[]): number {
  return trees.reduce((sum, tree) => sum + 1 + (typeof tree === 'string' ? 0 : sizeOf(tree[1])), 0);
}

/** Splits a block with too many nodes, or returns null if that is impossible. */
function divide(token: Token): Tree[][] | null {
  if (token.type === 'list') {
    const { items, ordered, start } = token as Tokens.List;
    return grouped(items.map((item) => boundedItem(item))).map(({ trees, first }) => [list(ordered, trees, Number(start) + first)]);
  }
  if (token.type === 'blockquote') {
    const trees = (token as Tokens.Blockquote).tokens.flatMap((child) => {
      const inner = blockTrees(child);
      return sizeOf(inner) > MAX_BLOCK_NODES ? [['plain', [child.raw]] as Tree] : inner;
    });
    return grouped(trees).map(({ trees }) => [['blockquote', trees]]);
  }
  if (token.type === 'table') {
    const { header, rows } = token as Tokens.Table;
    if (header.length > MAX_TABLE_COLUMNS) return null;
    const trees = rows.map((cells) => row(cells, 'td'));
    if (trees.some((tree) => sizeOf([tree]) > MAX_BLOCK_NODES)) return null;
    // The parts of a split table have fixed column widths so that they line up.
    return grouped(trees).map(({ trees }, at) => [table(at ? null : row(header, 'th'), trees, String(header.length))]);
  }
  return null;
}

/** Groups consecutive trees of at most `MAX_BLOCK_NODES` nodes, with the index of each group's first. */
function grouped(trees: Tree[]): { trees: Tree[]; first: number }[] {
  const groups: { trees: Tree[]; first: number; nodes: number }[] = [];
  for (const [at, tree] of trees.entries()) {
    const nodes = sizeOf([tree]);
    const last = groups.at(-1);
    if (last && last.nodes + nodes <= MAX_BLOCK_NODES) {
      last.trees.push(tree);
      last.nodes += nodes;
    } else groups.push({ trees: [tree], first: at, nodes });
  }
  return groups;
}

function boundedItem(token: Tokens.ListItem): Tree {
  const tree = item(token);
  return sizeOf([tree]) > MAX_BLOCK_NODES ? ['li', [['plain', [token.raw]]]] : tree;
}

const list = (ordered: boolean, items: Tree[], start: number): Tree => (ordered ? ['ol', items, String(start)] : ['ul', items]);
const item = (token: Tokens.ListItem): Tree => ['li', blockList(token.tokens)];
const row = (cells: Tokens.TableCell[], name: 'th' | 'td'): Tree => ['tr', cells.map(({ align, tokens }): Tree => [name, inline(tokens), align ?? ''])];
const table = (header: Tree | null, rows: Tree[], columns?: string): Tree => [
  'table',
  [...(header ? [['thead', [header]] as Tree] : []), ['tbody', rows]],
  columns,
];

function blockList(tokens: Token[]): Tree[] {
  // Lines of a tight list are separate texts.
  return tokens.flatMap((token, at) => (token.type === 'text' && tokens[at + 1]?.type === 'text' ? [...blockTrees(token), '\n'] : blockTrees(token)));
}

function blockTrees(token: Token): Tree[] {
  switch (token.type) {
    case 'space':
    case 'def':
      return [];
    case 'hr':
      return [['hr', []]];
    case 'heading':
      return [[`h${(token as Tokens.Heading).depth}`, inline((token as Tokens.Heading).tokens)]];
    case 'paragraph':
      return [['p', inline((token as Tokens.Paragraph).tokens)]];
    case 'html':
      return [['p', [token.raw]]];
    case 'code': {
      const { lang, text: code } = token as Tokens.Code;
      // The rest of the info string is part of the text.
      return [...(/\s/.test(lang?.trim() ?? '') ? [['p', [lang!]] as Tree] : []), ['pre', [code]]];
    }
    case 'blockquote':
      return [['blockquote', blockList((token as Tokens.Blockquote).tokens)]];
    case 'list': {
      const { items, ordered, start } = token as Tokens.List;
      return [list(ordered, items.map(item), Number(start))];
    }
    case 'table': {
      const { header, rows } = token as Tokens.Table;
      return [table(row(header, 'th'), rows.map((cells) => row(cells, 'td')))];
    }
    default:
      return inline([token]);
  }
}

const REFERENCE = /&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});/i;
const text = (written: string): Tree => (REFERENCE.test(written) ? ['&', [written]] : written);

function inline(tokens: Token[], depth = 0): Tree[] {
  if (depth > MAX_INLINE_DEPTH) return tokens.map(({ raw }) => raw);
  return tokens.flatMap((token): Tree[] => {
    switch (token.type) {
      case 'strong':
      case 'em':
      case 'del':
        return [[token.type, inline((token as Tokens.Strong).tokens, depth + 1)]];
      case 'codespan':
        return [['code', [(token as Tokens.Codespan).text]]];
      case 'br':
        return [['br', []]];
      case 'checkbox':
        return [(token as Tokens.Checkbox).checked ? '☑ ' : '☐ '];
      case 'link':
        return [['a', inline((token as Tokens.Link).tokens, depth + 1), (token as Tokens.Link).href]];
      case 'image':
        return [['image', [text((token as Tokens.Image).text || 'image')], (token as Tokens.Image).href]];
      case 'text': {
        const { tokens: inner, text: written, escaped } = token as Tokens.Text;
        if (inner) return inline(inner, depth + 1);
        return [escaped ? written : text(written)];
      }
      case 'escape':
        return [(token as Tokens.Escape).text];
      default:
        return [token.raw];
    }
  });
}
