// Markdown that a model or a stranger wrote. What is not plainly text is not passed on: HTML is shown as it was
// written, pictures become their names (fetching one would tell its server what was said), and links lead only to
// the web and to mail.

import DOMPurify from 'dompurify';
import { Marked, type Token, type Tokens } from 'marked';

const escape = (text: string) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** Addresses that may be followed, as they are; anything else is null. */
export function safeLink(address: string): string | null {
  try {
    const url = new URL(address);
    return /^(https?|mailto):$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const marked = new Marked({ gfm: true, breaks: true, async: false }).use({
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ href, text }) => `<span class="image">${escape(text || 'image')}</span> <code>${escape(href)}</code>`,
    link({ href, tokens }) {
      const inner = this.parser.parseInline(tokens);
      const to = safeLink(href);
      return to ? `<a href="${escape(to)}">${inner}</a>` : `${inner} <code>${escape(href)}</code>`;
    },
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    table(token) {
      const row = (cells: Tokens.TableCell[], tag: string) =>
        `<tr>${cells.map(({ align, tokens }) => `<${tag}${align === 'right' ? ' class="end"' : align === 'center' ? ' class="centre"' : ''}>${this.parser.parseInline(tokens)}</${tag}>`).join('')}</tr>`;
      return `<div tabindex="0"><table><thead>${row(token.header, 'th')}</thead><tbody>${token.rows.map((cells) => row(cells, 'td')).join('')}</tbody></table></div>`;
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: ['a', 'b', 'blockquote', 'br', 'code', 'del', 'div', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol', 'p', 'pre', 'span', 'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'],
  ALLOWED_ATTR: ['href', 'class', 'start', 'tabindex', 'target', 'rel'],
  ALLOWED_URI_REGEXP: /^(https?|mailto):/i,
};

const purify = DOMPurify(window);
purify.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer nofollow');
});

/** Signs that turn the order of what follows around would let text pretend to be other text. */
const withoutOverrides = (text: string) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd');

/** The blocks of a text that grows at its end. What comes later can change the last two blocks only, so that those
 * before are read once; they stay the same objects, and are drawn once. */
export class GrowingBlocks {
  #settled: Token[] = [];
  #prefix = '';

  read(text: string): Token[] {
    const clean = withoutOverrides(text);
    if (!clean.startsWith(this.#prefix)) [this.#settled, this.#prefix] = [[], ''];
    const fresh = marked.lexer(clean.slice(this.#prefix.length));
    let open = fresh.length;
    for (let blocks = 0; open > 0 && blocks < 2; ) if (fresh[--open]!.type !== 'space') blocks += 1;
    const done = fresh.splice(0, open);
    this.#settled.push(...done);
    this.#prefix += done.map(({ raw }) => raw).join('');
    return [...this.#settled, ...fresh];
  }
}

export const html = (token: Token): string => clean(marked.parser([token]));
export const clean = (unsafe: string): string => purify.sanitize(unsafe, ALLOWED);
