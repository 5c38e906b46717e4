// Escaping of invisible characters, tested against the examples of the daemon's implementation.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import ts from 'typescript';

const source = readFileSync(new URL('../src/lib/visible.ts', import.meta.url), 'utf8');
const { outputText } = ts.transpileModule(source, { compilerOptions: { module: 'esnext', target: 'esnext' } });
const { visible, visibleProse } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);
const examples = JSON.parse(readFileSync(new URL('../../crates/libs/base/tests/visible.json', import.meta.url), 'utf8'));

test('shared examples match', () => {
  assert.ok(examples.length >= 20);
  for (const { text, escaped, prose } of examples) {
    assert.equal(visible(text), escaped, JSON.stringify(text));
    assert.equal(visibleProse(text), prose, JSON.stringify(text));
  }
});
