import { HighlightStyle } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const button = {
  backgroundImage: 'none',
  backgroundColor: 'var(--surface)',
  border: '1px solid var(--control)',
  borderRadius: 'var(--radius-md)',
  color: 'var(--ink)',
  fontSize: 'var(--text-sm)',
  cursor: 'pointer',
};

/** Editor theme based on the page's colour tokens. */
export const theme = EditorView.theme({
  '&': { padding: '0', maxHeight: 'min(40rem, 70dvh)' },
  '&:has([aria-invalid=true])': { borderColor: 'var(--bad)' },
  '&.cm-focused': { outline: '2px solid var(--accent-ink)', outlineOffset: '2px' },
  '.cm-scroller': { fontFamily: 'inherit', lineHeight: 'inherit', borderRadius: 'inherit' },
  '.cm-content': { padding: '6px 0', caretColor: 'var(--ink)', minHeight: 'calc(var(--rows) * 1lh + 12px)' },
  '.cm-line': { padding: '0 10px' },
  '.cm-placeholder': { color: 'var(--muted)' },
  '.cm-gutters': { backgroundColor: 'transparent', border: 'none', color: 'var(--muted)' },
  '.cm-specialChar': { color: 'var(--bad)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)' },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'var(--bad-soft)' },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-soft)' },
  '.cm-searchMatch-selected': { backgroundColor: 'var(--accent-soft)', outline: '1px solid var(--accent-ink)' },
  '.cm-selectionMatch': { backgroundColor: 'var(--hover)' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--ink)' },
  '.cm-panels-top': { borderBottom: '1px solid var(--line)' },
  '.cm-panel.cm-search, .cm-panel.cm-dialog': { padding: '6px 36px 6px 8px', fontFamily: 'var(--font-sans)' },
  '.cm-panel.cm-search label': { fontSize: 'var(--text-sm)' },
  // Multiple selections are disabled.
  '.cm-panel.cm-search [name=select]': { display: 'none' },
  '.cm-panel .cm-button': button,
  '.cm-panel .cm-textfield': { backgroundColor: 'var(--surface)', border: '1px solid var(--control)', borderRadius: 'var(--radius-md)', color: 'var(--ink)', fontSize: 'var(--text-sm)' },
  '.cm-panel.cm-search [name=close], .cm-panel .cm-dialog-close': { minWidth: '24px', minHeight: '24px', color: 'var(--muted)', cursor: 'pointer' },
});

export const highlighting = HighlightStyle.define([
  { tag: [tags.comment, tags.quote], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.keyword, tags.bool, tags.null, tags.typeName, tags.className], color: 'var(--accent-ink)' },
  { tag: [tags.string, tags.regexp, tags.monospace], color: 'var(--good)' },
  { tag: [tags.number, tags.standard(tags.variableName), tags.escape], color: 'var(--warn)' },
  { tag: tags.invalid, color: 'var(--bad)' },
  { tag: [tags.propertyName, tags.definition(tags.function(tags.variableName))], fontWeight: '600' },
  { tag: [tags.heading, tags.strong], fontWeight: '600' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: tags.strikethrough, textDecoration: 'line-through' },
  { tag: [tags.link, tags.url], color: 'var(--accent-ink)' },
  { tag: [tags.processingInstruction, tags.contentSeparator, tags.meta], color: 'var(--muted)' },
]);
