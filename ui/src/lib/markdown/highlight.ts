import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import makefile from 'highlight.js/lib/languages/makefile';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { piecesOf } from './blocks';

const languages = { bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, makefile, markdown, php, python, ruby, rust, sql, swift, typescript, xml, yaml };
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

/** Scopes with their own colour; others inherit. */
const HIGHLIGHTED_SCOPES = new Set(['comment', 'quote', 'keyword', 'selector-tag', 'literal', 'type', 'section', 'string', 'regexp', 'addition', 'attribute', 'number', 'symbol', 'built_in', 'variable', 'template-variable', 'deletion', 'meta', 'title', 'name', 'attr']);
/** Maximum number of highlighted runs; code with more is not highlighted. */
const MAX_RUNS = 20_000;
const MAX_RUNS_PER_PIECE = 2_000;

/** Alternating scopes and texts; an empty scope is plain text. */
export type Runs = string[];

/** Returns the runs of each piece of the code (`piecesOf`) as JSON; null for a piece or code without highlighting. */
export function highlight(code: string, language: string): (string | null)[] | null {
  if (!hljs.getLanguage(language)) return null;
  const runs = runsOf(hljs.highlight(code, { language, ignoreIllegals: true }).value);
  if (runs.length > 2 * MAX_RUNS || runs.filter((_, at) => at % 2).join('') !== code) return null;
  return divided(runs, piecesOf(code)).map((piece) => (piece.length > 2 * MAX_RUNS_PER_PIECE ? null : JSON.stringify(piece)));
}

const CHARACTER_REFERENCES: Record<string, string> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#x27;': "'" };

/** Parses the nested spans of highlight.js, which have one class each and contain escaped text. */
function runsOf(html: string): Runs {
  const runs: Runs = [];
  const scopes = [''];
  for (const [part, name] of html.matchAll(/<span class="(?:hljs-)?([^" ]*)[^"]*">|<\/span>|[^<]+/g)) {
    if (name !== undefined) scopes.push(HIGHLIGHTED_SCOPES.has(name) ? name : scopes.at(-1)!);
    else if (part === '</span>') scopes.pop();
    else {
      const text = part.replace(/&(?:amp|lt|gt|quot|#x27);/g, (sign) => CHARACTER_REFERENCES[sign]!);
      const scope = scopes.at(-1)!;
      if (runs.at(-2) === scope) runs[runs.length - 1] += text;
      else runs.push(scope, text);
    }
  }
  return runs;
}

/** Splits runs at the piece boundaries, without the line ends between pieces. */
function divided(runs: Runs, pieces: string[]): Runs[] {
  let at = 0;
  let rest = runs[1] ?? '';
  return pieces.map((piece) => {
    const own: Runs = [];
    // Plus one for the line end.
    for (let left = piece.length + 1; left > 0 && at < runs.length; ) {
      const taken = rest.slice(0, left);
      const shown = left > taken.length ? taken : taken.slice(0, left - 1);
      if (shown) own.push(runs[at]!, shown);
      left -= taken.length;
      rest = rest.slice(taken.length);
      if (!rest) rest = runs[(at += 2) + 1] ?? '';
    }
    return own;
  });
}
