// Measures the page in a real browser against a daemon of its own, and exits with 1 if a bound is exceeded:
//
//   node scripts/figures.js [messages streamed into one session, default 10000]
import { begin, openPage } from '../tests/harness.js';
import { KEY, startProvider } from '../tests/provider.js';

const MESSAGES = Number(process.argv[2] || 10_000);
const LOADS = 7;
const RATE = 200;
const SECONDS = 10;
const STREAMS = 3;

const PARAGRAPH = 'The radiator in the **study** stays cold, while all *others* are warm; see `letters/weber.md` for what was written so far. ';
const REPLY = [PARAGRAPH.repeat(3), '\n\n| Month | kWh |\n|---|--:|\n| January | 352 |\n| February | 331 |\n\n', '```python\nfor month, kwh in readings:\n    print(f"{month:10} {kwh:6}")\n```\n\n', '1. Read the meter\n2. Write it down\n3. Send it\n\n'].join('');
const pieces = (count) => {
  const words = REPLY.match(/\s*\S+\s?/g);
  return Array.from({ length: count }, (_, i) => words[i % words.length]);
};
const script = (asked) => (/^stream/.test(asked) ? { pieces: pieces(RATE * SECONDS), rate: RATE } : { pieces: [`Noted, `, `*${asked.slice(0, 20)}*`, '.'] });

const [provider, it] = await Promise.all([startProvider(script), begin()]);
const { browser, call, context, daemon, page } = it;
const rows = [];
let missed = 0;
function row(what, value, bound, unit, holds = value <= bound) {
  if (!holds) missed += 1;
  rows.push([what, `${value} ${unit}`, `${bound} ${unit}`, holds ? 'ok' : 'EXCEEDED']);
  console.log(`${holds ? '  ' : '! '}${what}: ${value} ${unit} (bound ${bound} ${unit})`);
}
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

try {
  context.setDefaultTimeout(60_000);
  await call('PUT', '/api/providers/openai/key', { api_key: KEY, base_url: provider.url, default_model: 'fake-model' });
  await call('PUT', '/api/settings/agent', { default_provider: 'openai' });
  await call('PUT', '/api/settings/memory', { enabled: false });
  // The page is measured, not the model: it does not get all 10,000 messages each time.
  await call('PUT', '/api/settings/strategy', { planning: 'off', compaction_threshold: 0.3 });
  const { id: long } = await call('POST', '/api/chat/conversations', { title: 'The long one' });
  for (let i = 0; i < 1000; i += 1) await call('POST', '/api/chat/messages/inject', { conversation_id: long, role: i % 2 ? 'assistant' : 'user', content: i % 2 ? `${REPLY}Message ${i}` : `Question ${i}` });
  const state = await context.storageState();
  /** Opens a signed-in page with an empty cache. */
  const fresh = async () => {
    const opened = await openPage(browser, daemon.url, { storageState: state });
    opened.context.setDefaultTimeout(60_000);
    return opened;
  };

  // First load with an empty cache.
  const loads = [];
  for (let i = 0; i < LOADS; i += 1) {
    const opened = await fresh();
    await opened.page.goto(`${daemon.url}/`);
    await opened.page.getByRole('heading', { name: /^How can/ }).waitFor();
    await opened.page.getByText('The long one').first().waitFor();
    loads.push(
      await opened.page.evaluate(async () => {
        const entries = (type) => new Promise((resolve) => {
          const seen = [];
          new PerformanceObserver((list) => seen.push(...list.getEntries())).observe({ type, buffered: true });
          setTimeout(() => resolve(seen), 500);
        });
        const [paints, shifts] = await Promise.all([entries('largest-contentful-paint'), entries('layout-shift')]);
        return { lcp: paints.at(-1).startTime, cls: shifts.filter(({ hadRecentInput }) => !hadRecentInput).reduce((sum, { value }) => sum + value, 0) };
      }),
    );
    await opened.context.close();
  }
  row(`largest contentful paint of a first load, median of ${LOADS}`, Math.round(median(loads.map(({ lcp }) => lcp))), 1000, 'ms');
  row(`cumulative layout shift of a first load, most of ${LOADS}`, Number(Math.max(...loads.map(({ cls }) => cls)).toFixed(3)), 0.05, '');

  // From the click until the last message is painted.
  const opens = [];
  for (let i = 0; i < LOADS; i += 1) {
    const opened = await fresh();
    await opened.page.goto(`${daemon.url}/chat`);
    await opened.page.getByRole('heading', { name: /^How can/ }).waitFor();
    await opened.page.getByText('The long one').first().waitFor();
    const took = opened.page.evaluate(
      () =>
        new Promise((resolve) => {
          let begun = 0;
          addEventListener('click', ({ timeStamp }) => (begun ||= timeStamp), { capture: true, once: true });
          const look = () => {
            const last = [...document.querySelectorAll('main article')].at(-1);
            const box = last?.textContent.includes('Message 999') ? last.getBoundingClientRect() : null;
            if (!begun || !box || box.top > innerHeight) return requestAnimationFrame(look);
            // The frame that shows it is rendered after this one's callbacks.
            requestAnimationFrame(() => {
              const { port1, port2 } = new MessageChannel();
              port1.onmessage = () => resolve(performance.now() - begun);
              port2.postMessage(0);
            });
          };
          look();
        }),
    );
    await opened.page.getByRole('link', { name: 'The long one' }).first().click();
    opens.push(await took);
    await opened.context.close();
  }
  row(`a conversation of 1,000 messages, from click to painted, median of ${LOADS}`, Math.round(median(opens)), 300, 'ms');

  // No task may block the page while a fast model streams.
  const composer = page.getByRole('textbox', { name: /^Message to/ });
  const streams = [];
  for (let i = 0; i < STREAMS; i += 1) {
    await page.goto(`${daemon.url}/chat`);
    await composer.waitFor();
    await page.evaluate(() => {
      window.tasks = [];
      new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' });
    });
    await composer.fill('stream');
    await composer.press('Enter');
    await page.getByRole('button', { name: 'Stop generating' }).waitFor();
    const begun = performance.now();
    await page.getByRole('button', { name: 'Regenerate' }).and(page.locator(':enabled')).waitFor();
    streams.push({ rate: (RATE * SECONDS) / ((performance.now() - begun) / 1000), longest: Math.max(0, ...(await page.evaluate(() => window.tasks))) });
  }
  console.log(`   longest tasks of each stream: ${streams.map(({ rate, longest }) => `${longest} ms at ${Math.round(rate)} tokens/s`).join(', ')}`);
  // The browser only reports tasks longer than 50 ms: 0 means none. Other load can only lengthen tasks.
  row(`longest task while ${RATE} tokens/s stream for ${SECONDS} s, least of ${STREAMS}`, Math.round(Math.min(...streams.map(({ longest }) => longest))), 50, 'ms');

  // Many messages in one session of the page.
  const devtools = await context.newCDPSession(page);
  const heap = async () => {
    for (let i = 0; i < 3; i += 1) await devtools.send('HeapProfiler.collectGarbage');
    const { usedSize } = await devtools.send('Runtime.getHeapUsage');
    const { nodes, jsEventListeners: listeners } = await devtools.send('Memory.getDOMCounters');
    return { heap: usedSize / 1e6, nodes, listeners };
  };
  await page.goto(`${daemon.url}/chat`);
  await composer.waitFor();
  let streamed = 0;
  const begun = performance.now();
  let first;
  let last;
  // A page keeps up to 100 messages and grows until then.
  const marks = [MESSAGES / 10, MESSAGES / 2, MESSAGES].map((count) => Math.max(100, count));
  for (const until of marks) {
    // Messages typed during a reply are queued by the page.
    while (streamed < until) {
      const count = Math.min(50, until - streamed);
      for (let i = 0; i < count; i += 1) {
        await composer.fill(`message ${streamed + i}`);
        await composer.press('Enter');
      }
      streamed += count;
      try {
        await page.locator('main article').getByText(`Noted, message ${streamed - 1}.`).waitFor();
        await page.getByRole('button', { name: 'Regenerate' }).and(page.locator(':enabled')).waitFor();
      } catch (error) {
        console.log(`! stalled before message ${streamed - 1}: ${(await page.locator('main').innerText()).slice(-600)}`);
        throw error;
      }
      if (streamed % 500 === 0) console.log(`   ${streamed} messages after ${Math.round((performance.now() - begun) / 1000)} s`);
    }
    last = await heap();
    first ??= last;
    const seen = `${last.heap.toFixed(1)} MB, ${last.nodes.toLocaleString('en')} nodes, ${last.listeners.toLocaleString('en')} listeners`;
    console.log(`   heap after ${streamed} streamed messages: ${seen}`);
    rows.push([`heap after ${streamed.toLocaleString('en')} streamed messages, garbage collected`, seen, '', '']);
  }
  const span = `from ${marks[0].toLocaleString('en')} to ${marks[2].toLocaleString('en')} messages`;
  row(`growth of the heap ${span}`, Number((last.heap - first.heap).toFixed(1)), 3, 'MB');
  row(`growth of the page's nodes ${span}`, last.nodes - first.nodes, 1000, '');
  row(`growth of its listeners ${span}`, last.listeners - first.listeners, 200, '');
} finally {
  await browser.close();
  await daemon.stop();
  provider.stop();
}
console.log(`\n| | measured | bound | |\n|---|---|---|---|\n${rows.map((cells) => `| ${cells.map((cell) => cell.trim()).join(' | ')} |`).join('\n')}`);
process.exit(missed ? 1 : 0);
