// Takes screenshots of every view in desktop and phone size and both themes, against a daemon of its own that is
// filled with the same data every time:
//
//   node scripts/pictures.js [folder] [--only pattern] [--guide]
//
// `--guide` writes the screenshots of the README and the guide to docs/pictures instead.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { DESKTOP, openPage, PASSWORD, PHONE, signIn, startBrowser, startDaemon } from '../tests/harness.js';
import { KEY, startProvider } from '../tests/provider.js';
import { fill, script } from './pictures/household.js';

const { values, positionals } = parseArgs({ allowPositionals: true, options: { only: { type: 'string' }, guide: { type: 'boolean' } } });
const only = new RegExp(values.only ?? '');
const folder = resolve(values.guide ? '../docs/pictures' : (positionals[0] ?? '../target/pictures'));
/** Screenshots of the README and the guide, with size and theme. */
const GUIDE = { chat: ['desktop', 'light'], approval: ['phone', 'dark'], memory_graph: ['desktop', 'dark'], 'calendar-week': ['desktop', 'light'], browser: ['desktop', 'light'] };
const MAX_BYTES = 90_000;

const embedder = resolve('../models/all-minilm-l6-v2-q8_0.gguf');
if (existsSync(embedder)) process.env.SVC_EMBEDDING_MODEL ??= embedder;

const scratch = mkdtempSync(join(tmpdir(), 'agentd-pictures-'));
const [daemon, provider, browser] = await Promise.all([startDaemon(), startProvider(script), startBrowser()]);
const { page, context, problems, strays } = await openPage(browser, daemon.url, { timezoneId: 'Europe/Berlin', reducedMotion: 'reduce' });
context.setDefaultTimeout(30_000);
let it;
let taken = 0;

const headers = { 'X-Svc-Csrf': '1' };
const call = async (method, path, data) => {
  const response = await page.request.fetch(daemon.url + path, { method, data, headers });
  assert.ok(response.ok(), `${method} ${path}: ${response.status()} ${await response.text()}`);
  return response.json();
};

// A view is ready when all requests except streams have finished.
const loading = new Set();
let quietSince = Date.now();
const isStream = (url) => /\/stream|\/ws$/.test(new URL(url).pathname);
page.on('request', (request) => {
  if (!isStream(request.url())) loading.add(request);
});
for (const event of ['requestfinished', 'requestfailed']) page.on(event, (request) => loading.delete(request) && (quietSince = Date.now()));
async function rest() {
  await page.waitForFunction(() => !document.querySelector('[role=status][aria-label="Loading"]'));
  for (const end = Date.now() + 15_000; (loading.size || Date.now() - quietSince < 250) && Date.now() < end; ) await new Promise((done) => setTimeout(done, 50));
  await page.evaluate(async () => {
    await Promise.all(document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().iterations !== Infinity).map(({ finished }) => finished.catch(() => {})));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  });
}

async function save(name, theme) {
  if (!values.guide) return page.screenshot({ path: `${folder}/${name}.png` });
  // Uses the best quality that fits.
  for (let quality = 92; quality > 20; quality -= 6) {
    const picture = await page.screenshot({ type: 'jpeg', quality });
    if (picture.length > MAX_BYTES) continue;
    return writeFileSync(`${folder}/${name}.jpg`, picture);
  }
  throw new Error(`${name} does not fit into ${MAX_BYTES} bytes`);
}

/** Takes a view in every size and theme. `prepare` opens states without an address. */
async function take(name, path, prepare = async () => {}) {
  if (!only.test(name) || (values.guide && !GUIDE[name])) return;
  try {
    for (const [size, viewport] of [['desktop', DESKTOP], ['phone', PHONE]]) {
      if (values.guide && GUIDE[name][0] !== size) continue;
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme: values.guide ? GUIDE[name][1] : 'light' });
      quietSince = Date.now();
      await page.goto(daemon.url + path);
      await page.locator('h1').first().waitFor();
      await rest();
      await prepare(size);
      await rest();
      if (values.guide) {
        await save(name.replace('_', '-'));
        taken += 1;
        continue;
      }
      for (const theme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme: theme });
        await rest();
        await save(`${name}-${size}-${theme}`);
        taken += 1;
      }
    }
  } catch (error) {
    problems.push(`${name}: ${error.message.split('\n')[0]}`);
  }
}

try {
  if (!values.guide) rmSync(values.only ? `${folder}/none` : folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await take('start-account', '/');
  await signIn({ page }, daemon.url, await call('POST', '/api/auth/register', { username: 'lena', password: PASSWORD, cookie: true }));
  headers.Authorization = `Bearer ${(await call('POST', '/api/auth/keys', { name: 'page' })).key}`;
  await take('start-model', '/');
  await call('PUT', '/api/providers/openai/key', { api_key: KEY, base_url: provider.url, default_model: 'gpt-4.1' });
  it = await fill({ daemon, page, call, provider, folder: scratch });
  console.log(`filled after ${Math.round(performance.now() / 1000)} s`);

  const press = (name, role = 'button') => page.getByRole(role, { name }).first().click();
  await take('chat', `/chat/${it.tariffs}`);
  await take('chat-top', `/chat/${it.tariffs}`, () => page.locator('main article').first().scrollIntoViewIfNeeded());
  await take('chat-card', `/chat/${it.tariffs}`, () => page.getByText('read_file').last().click());
  await take('chat-new', '/chat');
  await take('chat-trace', `/chat/${it.tariffs}`, () => page.getByRole('button', { name: 'Trace' }).last().click());
  await take('approval', `/chat/${it.waiting}`);
  await take('chat-menu', '/chat', (size) => press(size === 'phone' ? 'Menu' : /^Account and appearance/));
  await take('chat-list', '/chat', (size) => (size === 'phone' ? press('Conversations') : press(/^Actions for/)));
  await take('palette', '/chat', () => page.keyboard.press('Control+k'));
  await take('shortcuts', '/approvals', () => page.keyboard.press('?'));
  await take('approvals', '/approvals');
  await take('approvals-answered', '/approvals?tab=answered');
  await take('agents', '/agents');
  await take('agents-new', '/agents?new=1');
  await take('agent-profile', '/agents/ada');
  await take('agent-instructions', '/agents/greta/instructions');
  await take('agent-versions', '/agents/ada/instructions', () => press(/Version 2/));
  await take('agent-tools', '/agents/ada/tools');
  await take('agent-usage', '/agents/greta/usage');
  await take('agent-files', '/agents/bruno/files');
  await take('agent-file', '/agents/bruno/files?file=meter-readings.csv');
  await take('memory', '/memory');
  await take('memory-search', '/memory?q=heating');
  await take('memory-episode', '/memory', () => page.locator('main li button').first().click());
  await take('memory-clusters', '/memory/clusters');
  await take('memory_graph', '/memory/graph');
  await take('memory-list', '/memory/graph?shape=list');
  await take('memory-overview', '/memory/overview');
  await take('browser', '/browser', async () => {
    await page.locator('main canvas:visible').waitFor();
    await page.waitForFunction(() => document.querySelector('main canvas').width > 300);
  });
  await take('browser-requests', '/browser/requests');
  await take('browser-recordings', '/browser/recordings');
  await take('browser-recording', `/browser/recordings?recording=${it.recording}`);
  await take('browser-signins', '/browser/signins');
  await take('scheduler', '/scheduler');
  await take('scheduler-job', `/scheduler?job=${it.job}`);
  await take('scheduler-new', '/scheduler', async () => {
    await press('New job');
    await page.getByLabel('Name', { exact: true }).fill('Briefing');
    await page.getByLabel('When should it run?').fill('every weekday at 7');
    await page.keyboard.press('Enter');
    await page.getByText('Next runs').waitFor();
  });
  await take('calendar', '/scheduler/calendar');
  await take('calendar-week', '/scheduler/calendar?view=week');
  await take('scheduler-rhythm', '/scheduler/activity');
  await take('scheduler-chains', '/scheduler/chains');
  await take('hooks', '/hooks');
  await take('hooks-details', `/hooks?hook=${it.hook}`);
  await take('hooks-new', '/hooks', () => press('New hook'));
  await take('hooks-bundled', '/hooks/bundled');
  await take('hooks-webhooks', '/hooks/webhooks');
  await take('hooks-letters', '/hooks/letters');
  await take('hooks-analytics', '/hooks/analytics');
  await take('channels', '/channels');
  await take('channels-telegram', '/channels/telegram');
  await take('channels-slack', '/channels/slack');
  for (const part of ['people', 'rules', 'sent']) await take(`channels-${part}`, `/channels/telegram?part=${part}`);
  await take('devices', '/devices');
  await take('devices-pair', '/devices?pair=1');
  await take('monitoring', '/monitoring');
  await take('costs', '/monitoring/costs');
  await take('monitoring-performance', '/monitoring/performance');
  await take('monitoring-alerts', '/monitoring/alerts');
  await take('monitoring-alert-new', '/monitoring/alerts', () => press('New alert'));
  await take('monitoring-activity', '/monitoring/activity');
  for (const each of ['profile', 'interface', 'notifications', 'providers', 'agent', 'strategy', 'proactive', 'memory', 'tools', 'custom', 'servers', 'browser', 'email', 'security', 'sandbox', 'keys', 'sessions', 'backup', 'data']) await take(`settings-${each}`, `/settings/${each}`);
  await take('missing', '/no-such-page');
  await context.clearCookies();
  await take('start-login', '/');
  console.log(`${taken} pictures in ${folder}`);
} finally {
  await browser.close();
  it?.end();
  await daemon.stop();
  provider.stop();
  rmSync(scratch, { recursive: true, force: true });
}
for (const line of [...problems, ...strays.map((url) => `requested ${url}`)]) console.error(line);
process.exit(problems.length + strays.length ? 1 : 0);
