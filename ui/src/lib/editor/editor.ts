// The code editor, loaded by CodeEditor.svelte on demand because of its size.

import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { jsonLanguage } from '@codemirror/lang-json';
import { markdownKeymap, markdownLanguage } from '@codemirror/lang-markdown';
import { pythonLanguage } from '@codemirror/lang-python';
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Annotation, Compartment, EditorState, type Extension, type TransactionSpec } from '@codemirror/state';
import { EditorView, highlightSpecialChars, keymap, lineNumbers, placeholder as placeholderText } from '@codemirror/view';
import type { EditorLanguage } from './languages';
import { useConstructedSheets } from './styles';
import { phrases } from './texts';
import { highlighting, theme } from './theme';

export interface EditorOptions {
  parent: HTMLElement;
  text: string;
  language: EditorLanguage;
  /** Classes of the frame, styled like other controls. */
  frame: string;
  rows: number;
  maxLength?: number;
  placeholder?: string;
  attributes: Record<string, string>;
  /** Called with the text after each edit by the user. */
  onedit: (text: string) => void;
}

export interface Editor {
  focus: (selection?: { anchor: number; head: number }) => void;
  setText: (text: string) => void;
  setAttributes: (attributes: Record<string, string>) => void;
  destroy: () => void;
}

useConstructedSheets();

/** Marks programmatic changes, which are neither limited nor reported. */
const fromPage = Annotation.define<true>();

const code = [lineNumbers(), bracketMatching(), indentOnInput()];
const languages: Record<EditorLanguage, Extension> = {
  python: [pythonLanguage, indentUnit.of('    '), code],
  json: [jsonLanguage, code],
  markdown: [markdownLanguage, keymap.of(markdownKeymap), EditorView.contentAttributes.of({ dir: 'auto', spellcheck: 'true' })],
  text: EditorView.contentAttributes.of({ dir: 'auto' }),
};

/** Cuts typed or pasted text at the limit, as a text field does. */
function limit(max: number): Extension {
  return EditorState.transactionFilter.of((transaction): TransactionSpec | readonly TransactionSpec[] => {
    const excess = transaction.newDoc.length - max;
    if (excess <= 0 || transaction.changes.newLength <= transaction.changes.length || transaction.annotation(fromPage)) return transaction;
    const changes: { from: number; to: number; insert: string }[] = [];
    transaction.changes.iterChanges((from, to, _from, _to, inserted) => changes.push({ from, to, insert: inserted.toString() }));
    const [change] = changes;
    if (!change || changes.length > 1 || change.insert.length <= excess) return [];
    const insert = change.insert.slice(0, -excess);
    return { changes: { ...change, insert }, selection: { anchor: change.from + insert.length }, scrollIntoView: true };
  });
}

export function createEditor({ parent, text, language, frame, rows, maxLength, placeholder, attributes, onedit }: EditorOptions): Editor {
  const named = new Compartment();
  const view = new EditorView({
    parent,
    doc: text,
    extensions: [
      languages[language],
      named.of(EditorView.contentAttributes.of(attributes)),
      EditorView.editorAttributes.of({ class: frame }),
      EditorState.phrases.of(phrases()),
      EditorView.lineWrapping,
      EditorView.updateListener.of((update) => {
        if (update.docChanged && !update.transactions.some((each) => each.annotation(fromPage))) onedit(update.state.doc.toString());
      }),
      history(),
      highlightSpecialChars(),
      highlightSelectionMatches(),
      search({ top: true }),
      syntaxHighlighting(highlighting),
      theme,
      placeholder ? placeholderText(placeholder) : [],
      maxLength ? limit(maxLength) : [],
      // Tab moves to the next field.
      keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
    ],
  });
  view.dom.style.setProperty('--rows', String(rows));
  return {
    focus(selection) {
      view.focus();
      if (selection) view.dispatch({ selection, scrollIntoView: true });
    },
    setText(text) {
      if (text !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, annotations: fromPage.of(true) });
    },
    setAttributes(attributes) {
      view.dispatch({ effects: named.reconfigure(EditorView.contentAttributes.of(attributes)) });
    },
    destroy: () => view.destroy(),
  };
}
