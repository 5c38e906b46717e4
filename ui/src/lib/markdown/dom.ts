// Renders the output of the Markdown worker. Elements come from a closed set and text is only set as text, so it can
// never become markup. Links are limited to http, https and mailto.

import { wrappedPiecesOf, type Tree } from './blocks';

const ELEMENTS = new Set(['blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol', 'p', 'strong', 'tbody', 'thead', 'tr', 'ul']);
/** Column width of tables that are rendered in parts. */
const COLUMN_REM = 8;

/** Returns a link target if it is allowed, else null. */
export function safeLink(address: string): string | null {
  try {
    const url = new URL(address);
    return /^(https?|mailto):$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** Creates the nodes of a block from its `Tree[]` as JSON. */
export function draw(data: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  appendAll(fragment, JSON.parse(data) as Tree[]);
  return fragment;
}

function appendAll(parent: Node, trees: Tree[]) {
  for (const tree of trees) {
    if (typeof tree === 'string') parent.appendChild(document.createTextNode(tree));
    else append(parent, ...tree);
  }
}

function append(parent: Node, name: string, children: Tree[], value = '') {
  const add = (element: HTMLElement, to = parent) => {
    to.appendChild(element);
    appendAll(element, children);
    return element;
  };
  if (ELEMENTS.has(name)) {
    const element = add(document.createElement(name));
    if (name === 'ol' && /^\d+$/.test(value)) (element as HTMLOListElement).start = Number(value);
  } else if (name === 'th' || name === 'td') {
    const cell = add(document.createElement(name));
    if (value === 'right' || value === 'center') cell.className = value === 'right' ? 'end' : 'centre';
  } else if (name === 'a') {
    const to = safeLink(decoded(value));
    if (!to) {
      appendAll(parent, children);
      return appendAll(parent, [' ', ['code', [value]]]);
    }
    const link = add(document.createElement('a')) as HTMLAnchorElement;
    Object.assign(link, { href: to, target: '_blank', rel: 'noopener noreferrer nofollow' });
  } else if (name === 'image') {
    add(document.createElement('span')).className = 'image';
    appendAll(parent, [' ', ['code', [value]]]);
  } else if (name === 'table') {
    const columns = Number(value);
    if (!columns) scrolling(parent, 'div').className = 'table-frame';
    const table = add(document.createElement('table'), columns ? parent : parent.lastChild!);
    if (!columns) return;
    table.className = 'even';
    table.style.width = `${columns * COLUMN_REM}rem`;
  } else if (name === 'pre') {
    appendAll(scrolling(parent, 'pre'), [['code', children]]);
  } else if (name === '&') {
    appendAll(parent, [decoded(String(children[0]))]);
  } else if (name === 'plain') {
    for (const piece of wrappedPiecesOf(String(children[0]))) {
      const element = document.createElement('div');
      element.className = 'whitespace-pre-wrap';
      element.textContent = piece;
      parent.appendChild(element);
    }
  }
}

/** Wraps an element that may be wider than the page; scrollable by keyboard. */
function scrolling(parent: Node, name: 'div' | 'pre'): HTMLElement {
  const element = document.createElement(name);
  element.tabIndex = 0;
  parent.appendChild(element);
  return element;
}

const decoder = document.createElement('span');
const known = new Map<string, string>();

/** Decodes character references such as `&amp;` and `&#233;`. */
function decoded(text: string): string {
  return text.replace(/&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});/gi, (reference) => {
    let character = known.get(reference);
    if (character === undefined) {
      // Only references match the pattern, so no markup is parsed.
      decoder.innerHTML = reference;
      character = withoutOverrides(decoder.textContent ?? reference);
      if (known.size < 1_000) known.set(reference, character);
    }
    return character;
  });
}

/** Direction marks could make text look like other text. */
export const withoutOverrides = (text: string) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
