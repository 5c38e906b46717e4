// Pathological Markdown and code: rendering never blocks the page, and no text is lost.
//
// AGENTD_MARKDOWN_FUZZ=1 runs every grammar with every pattern and hundreds of generated texts (almost an hour), limits
// tasks of the page to 100 ms of CPU time and prints the longest. AGENTD_MARKDOWN_SEED repeats a run.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { begin, longestTask, talking } from './harness.js';
import { KEY, startProvider } from './provider.js';

const ALL = process.env.AGENTD_MARKDOWN_FUZZ === '1';
const SEED = Number(process.env.AGENTD_MARKDOWN_SEED ?? Date.now() % 1_000_000);
const SIZE = 64_000;
/** Generous by default: other programs on the machine lengthen tasks. */
const MAX_TASK_MS = ALL ? 100 : 500;

const GRAMMARS = ['bash', 'c', 'cpp', 'csharp', 'css', 'diff', 'dockerfile', 'go', 'ini', 'java', 'javascript', 'json', 'makefile', 'markdown', 'php', 'python', 'ruby', 'rust', 'sql', 'swift', 'typescript', 'xml', 'yaml', 'ts'];
const PATTERNS = [
  ...'!"#$%&\'()*+,-./:;<=>?@[\\]^_{|}~a0 \t',
  ...['/*', '//', '"\\', "'\\", '${', '--', '->', '::', '0x', '1e', '1_', 'a.', 'a(', 'a<', 'a:', 'a=', 'a\n', '@a', 'b"', 'r#', '%q', '"""', "'''", '<?', '<!--', '<a ', '="', '{{', '{%', '#!', '$(', ' a', '\na:', 'a b ', '[a]', '\\\\'],
];

let it;
let provider;
let page;
let agent;
const longest = [];

before(async () => {
  [provider, it] = await Promise.all([startProvider((asked) => (asked === 'table' ? { pieces: wideTable(60, 300).match(/[\s\S]{1,400}/g) } : null)), begin()]);
  ({ page } = it);
  it.context.setDefaultTimeout(120_000);
  await it.call('PUT', '/api/providers/openai/key', { api_key: KEY, base_url: provider.url, default_model: 'fake-model' });
  await it.call('PUT', '/api/settings/agent', { default_provider: 'openai' });
  await it.call('PUT', '/api/settings/memory', { enabled: false });
  [agent] = (await it.call('GET', '/api/agents')).agents;
  await it.show('/chat');
});

after(async () => {
  await it?.end();
  provider?.stop();
});

/** Opens a conversation of these texts and waits until it is rendered. */
async function shown(texts, label) {
  const { id } = await it.call('POST', '/api/chat/conversations', { agent_id: agent.id });
  const question = `number ${longest.length}`;
  await it.call('POST', '/api/chat/messages/inject', { conversation_id: id, role: 'user', content: question });
  for (const content of texts) await it.call('POST', '/api/chat/messages/inject', { conversation_id: id, role: 'assistant', content });
  return measured(label, async () => {
    await page.evaluate((href) => {
      const link = Object.assign(document.createElement('a'), { href });
      document.body.append(link);
      link.click();
      link.remove();
    }, `/chat/${id}`);
    await page.locator('main article').getByText(question, { exact: true }).waitFor();
    await drawn(texts.length);
  });
}

async function measured(label, action) {
  longest.push({ task: await longestTask(page, it.browser, action), label });
}

async function drawn(replies) {
  await page.locator('main article:has(.markdown)').nth(replies - 1).waitFor();
  await page.evaluate(
    () =>
      new Promise((resolve) => {
        let quiet = 0;
        const look = () => {
          const more = [...document.querySelectorAll('.markdown button')].filter(({ textContent }) => textContent.trim() === 'Show all');
          for (const button of more) button.click();
          quiet = more.length || document.querySelector('[data-pending]') ? 0 : quiet + 1;
          if (quiet > 3) resolve();
          else setTimeout(look, 100);
        };
        look();
      }),
  );
}

const written = () => page.locator('main article:has(.markdown)').evaluateAll((all) => all.map((article) => [...article.querySelectorAll('.markdown')].map(({ textContent }) => textContent).join('\n')));
const codes = () => page.locator('main article pre > code').evaluateAll((all) => all.map((code) => [...code.children].map(({ textContent }) => textContent).join('\n')));

/** Returns the missing words among `w0x … w<count>x`. They end with a letter because line breaks are not text. */
const missing = (text, count) => {
  const found = new Set(text.match(/w\d+x/g));
  return Array.from({ length: count }, (_, i) => `w${i}x`).filter((word) => !found.has(word));
};

/** Builds a text with the words `w0x`, `w1x`, … at visible positions. */
function numbered(make) {
  let count = 0;
  const text = make(() => `w${count++}x`);
  return { text, count };
}

function wideTable(columns, rows, word = () => 'x') {
  const row = () => `| ${word()} |${' x |'.repeat(columns - 1)}\n`;
  return `${row()}|${'---|'.repeat(columns)}\n${Array.from({ length: rows }, row).join('')}`;
}

const HOSTILE = {
  'a table of 60 columns and 1,000 rows': (word) => wideTable(60, 1_000, word),
  'a table of 2,000 columns': (word) => wideTable(2_000, 8, word),
  '2,000 nested quotes': (word) => `${'>'.repeat(2_000)} ${word()}\n\n${word()}`,
  '2,000 nested quotes that go on': (word) => `${'> '.repeat(2_000)}${word()}\n${word()}\n> ${word()}`,
  '5,000 nested numbers': (word) => `${'1. '.repeat(5_000)}${word()}\n\n${word()}`,
  '5,000 nested items and quotes': (word) => `${'> - '.repeat(5_000)}${word()}`,
  'a list of 10,000 items': (word) => Array.from({ length: 10_000 }, () => `- ${word()}`).join('\n'),
  '10,000 paragraphs': (word) => Array.from({ length: 10_000 }, () => word()).join('\n\n'),
  'emphasis that never ends': (word) => `*${'*a _b '.repeat(10_000)}\n\n${word()}`,
  'emphasis in emphasis': (word) => `${'*_'.repeat(8_000)}${word()}${'_*'.repeat(8_000)}`,
  'brackets that never end': (word) => `${'[a]('.repeat(16_000)}${word()}`,
  'pictures in pictures': (word) => `${'![['.repeat(20_000)}${word()}`,
  'angle brackets': (word) => `${'<'.repeat(SIZE)}${word()}`,
  'backticks of all lengths': (word) => `${Array.from({ length: 350 }, (_, i) => `${'`'.repeat(i)} a`).join(' ')} ${word()}`,
  'one word of 64,000 letters': (word) => `${word()} ${'a'.repeat(SIZE)} ${word()}`,
};

test('hostile Markdown does not block the page or lose text', async () => {
  for (const [label, make] of Object.entries(HOSTILE)) {
    const { text, count } = numbered(make);
    await shown([text, '**The end.**'], label);
    const [first, end] = await written();
    assert.deepEqual(missing(first, count), [], label);
    assert.equal(end.trim(), 'The end.', label);
    assert.equal(await page.locator('main article strong').last().innerText(), 'The end.', label);
  }
});

test('a slow block does not affect the others', async () => {
  const bad = `*${'*a _b '.repeat(40_000)}`;
  await shown([`## Before\n\n- one\n- two\n\n${bad}\n\n## After\n\n\`\`\`js\nconst a = 1;\n\`\`\`\n\n1. three`], 'a bad block among others');
  const article = page.locator('main article');
  for (const text of ['Before', 'After']) assert.equal(await article.getByRole('heading', { name: text, exact: true }).count(), 1, text);
  assert.deepEqual(await article.getByRole('listitem').allInnerTexts(), ['one', 'two', 'three']);
  assert.equal(await article.locator('.hljs-keyword').innerText(), 'const');
  assert.ok((await written())[0].includes(bad.trim().slice(0, 50_000)));
});

test('code that is slow to highlight is shown without highlighting', async () => {
  const [grammars, patterns] = ALL ? [GRAMMARS, PATTERNS] : [['ini', 'java', 'c', 'bash'], ['a', '0', '"', '[']];
  for (const grammar of grammars) {
    for (let i = 0; i < patterns.length; i += 6) {
      const blocks = patterns.slice(i, i + 6).map((pattern) => `w${pattern.repeat(SIZE / pattern.length)}w`);
      const label = `${grammar}, ${JSON.stringify(patterns.slice(i, i + 6))}`;
      await shown([...blocks.map((code) => `\`\`\`\`\`\`${grammar}\n${code}\n\`\`\`\`\`\``), '```js\nconst a = 1;\n```'], label);
      const found = await codes();
      for (const [at, code] of blocks.entries()) assert.ok(found[at] === code, `${label}: block ${at} is incomplete`);
      assert.equal(await page.locator('main article .hljs-keyword').last().innerText(), 'const', label);
    }
  }
});

test('a streaming table does not block the page', async () => {
  const { newConversation, say, settled } = talking(page, it.daemon);
  await newConversation();
  await measured('a streaming table', async () => {
    await say('table');
    await settled();
    await drawn(1);
  });
  assert.equal(await page.locator('main article td').count(), 60 * 300);
});

/** Seeded random numbers. */
function random(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function generated(seed) {
  const below = random(seed);
  const one = (list) => list[below(list.length)];
  const times = (count, make) => Array.from({ length: count }, make).join('');
  const signs = ['*', '_', '**', '~~', '`', '[', '](', ')', '<', '>', '!', '\\', '&amp;', '|', 'http://a.test/', ' ', '  \n'];
  const parts = [
    (word) => `${times(1 + below(3_000), () => one(['> ', '- ', '1. ', '>']))}${word()}`,
    (word) => wideTable(1 + below(80), below(300), word),
    (word) => times(1 + below(2_000), () => `${' '.repeat(below(12))}${one(['-', '*', '1.', '+'])} ${word()}\n`),
    (word) => times(1 + below(2_000), () => `${one(signs)}${below(4) ? '' : ` ${word()} `}`),
    (word) => times(1 + below(500), () => `${'#'.repeat(1 + below(7))} ${word()}\n`),
    (word) => `${times(1 + below(5_000), () => one(signs))}`.repeat(1 + below(3)) + ` ${word()} `,
    (word) => times(1 + below(1_000), () => `[${word()}](${one(['http://a.test/', 'javascript:x', 'a b', '<c>'])} ${below(2) ? '"t"' : ''})`),
    (word) => `${'`'.repeat(3 + below(3))}${one(GRAMMARS)}\n${times(1 + below(3_000), () => one(signs))} ${word()}\n`,
  ];
  return numbered((word) => {
    let text = '';
    while (text.length < SIZE / 2) text += `${one(parts)(word)}\n\n`;
    return text;
  });
}

test('generated Markdown does not block the page or lose text', async () => {
  console.log(`seed ${SEED}`);
  for (let n = 0; n < (ALL ? 300 : 4); n += 1) {
    const { text, count } = generated(SEED + n);
    const label = `seed ${SEED + n}`;
    await shown([text], label);
    const [all] = await written();
    assert.deepEqual(missing(all, count), [], label);
  }
});

test('no task of the page exceeds the limit', () => {
  longest.sort((a, b) => b.task - a.task);
  const lines = longest.map(({ task, label }) => `${task} ms: ${label}`);
  console.log(`longest tasks of ${longest.length} conversations, in processor time:\n${lines.slice(0, ALL ? 30 : 3).join('\n')}`);
  assert.deepEqual(lines.slice(0, longest.filter(({ task }) => task > MAX_TASK_MS).length), []);
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
