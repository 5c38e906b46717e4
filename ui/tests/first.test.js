// First run, hostile replies and approvals. Part of `make test`.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { axe, openPage, startBrowser, startDaemon, talking } from './harness.js';
import { KEY, startProvider } from './provider.js';

let daemon;
let provider;
let browser;
let opened;
let page;
let composer, newConversation, replies, say, settled;

before(async () => {
  [daemon, provider, browser] = await Promise.all([startDaemon(), startProvider(), startBrowser()]);
  opened = await openPage(browser, daemon.url);
  page = opened.page;
  ({ composer, newConversation, replies, say, settled } = talking(page, daemon));
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
  provider?.stop();
});

// All tests depend on the first run: skip the rest if it failed.
let isSetUp = false;
beforeEach((t) => {
  if (!isSetUp && !t.name.startsWith('the first run')) throw new Error('the first run failed');
});
// Cleans up after a failed test. AGENTD_TEST_PICTURES is a folder for a final screenshot of each test.
afterEach(async (t) => {
  if (process.env.AGENTD_TEST_PICTURES) await page.screenshot({ path: `${process.env.AGENTD_TEST_PICTURES}/${t.name.replace(/\W+/g, '-')}.png` });
  provider.release();
});

test('the first run takes six clicks to a reply, and does not store an invalid key', async () => {
  let clicks = 0;
  const click = async (locator) => {
    clicks += 1;
    await locator.click();
  };
  await page.goto(daemon.url);
  await page.getByRole('heading', { name: 'Welcome to agentd' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByLabel('Username').fill('owner');
  await page.getByLabel('Password').fill('correct horse battery');
  await click(page.getByRole('button', { name: 'Create account' }));

  await click(page.getByRole('radio', { name: /Connect a provider/ }));
  await page.getByLabel('Provider', { exact: true }).selectOption('openai');
  await page.getByLabel('API key', { exact: true }).fill('a-wrong-key');
  await click(page.getByText('Base URL').first());
  await page.getByRole('textbox', { name: 'Base URL' }).fill(provider.url);
  await page.getByRole('button', { name: 'Test and continue' }).click();
  await page.getByRole('alert').waitFor();
  assert.deepEqual(await axe(page), []);
  const kept = await page.evaluate(async () => {
    const response = await fetch('/api/providers', { headers: { 'X-Svc-Page': localStorage.getItem('page-secret') } });
    return (await response.json()).providers.find(({ id }) => id === 'openai').configured;
  });
  assert.equal(kept, false);
  await page.getByLabel('API key', { exact: true }).fill(KEY);
  await page.getByLabel('Model', { exact: true }).fill('fake-model');
  await click(page.getByRole('button', { name: 'Test and continue' }));

  await page.getByRole('heading', { name: 'Your first agent' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await click(page.getByRole('button', { name: 'Create agent' }));
  await say('good morning');
  await settled();
  assert.match(await replies().last().innerText(), /You said: good morning/);
  assert.equal(await replies().last().locator('em').innerText(), 'good morning');
  assert.ok(clicks <= 6, `it took ${clicks} clicks`);
  isSetUp = true;
});

test('scripts cannot read a sufficient credential', async () => {
  const found = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]));
  assert.doesNotMatch(found, /sess_|svc_/);
  const cookie = (await opened.context.cookies()).find(({ name }) => name === 'svc_session');
  assert.ok(cookie?.httpOnly && cookie.sameSite === 'Strict');
});

test('a hostile reply runs no script and fetches nothing', async () => {
  await newConversation();
  await say('do me harm <img src=x onerror="window.harmed = 10">');
  await page.locator('main article').getByText('END OF IT').waitFor();
  await settled();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(opened.strays, []);
  const reply = replies().last();
  assert.equal(await reply.locator('img, iframe, script, style, base, form, input, object, embed, svg:not([class*=lucide])').count(), 0);
  const links = await reply.locator('a').evaluateAll((all) => all.map(({ href, rel, target }) => ({ href, rel, target })));
  assert.deepEqual(links, [{ href: 'https://example.org/fine', rel: 'noopener noreferrer nofollow', target: '_blank' }]);
  assert.doesNotMatch(await reply.innerText(), /[\u202a-\u202e\u2066-\u2069]/);
  assert.deepEqual(await axe(page), []);
  // The stored reply is as harmless after a reload.
  await page.reload();
  await page.locator('main article').getByText('END OF IT').waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(opened.strays, []);
});

test('a reload during a reply loses nothing', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('answer slowly');
  await half;
  await replies().last().getByText('The first half.').waitFor();
  await page.reload();
  await replies().last().getByText('The first half.').waitFor();
  await page.getByRole('button', { name: 'Stop generating' }).waitFor();
  provider.release();
  await settled();
  assert.match(await replies().last().innerText(), /The first half\. The second half\./);
});

test('a tool call is approved in its card, and its trace is shown', async () => {
  await newConversation();
  await page.getByRole('button', { name: /^Approvals:/ }).click();
  await page.getByRole('menuitemradio', { name: 'Asks before making changes' }).click();
  await say('write a file');
  const card = page.locator('main article').filter({ hasText: 'write_file' });
  await card.getByText('Waiting for approval').waitFor();
  await card.getByText('"note.txt"').waitFor();
  await page.getByRole('link', { name: /Approvals/ }).getByText('1').first().waitFor();
  assert.deepEqual(await axe(page), []);
  await card.getByRole('button', { name: 'Approve' }).click();
  await page.locator('main article strong', { hasText: 'written' }).waitFor();
  await settled();
  await page.getByRole('button', { name: 'View trace' }).last().click();
  const trace = page.getByRole('dialog');
  await trace.getByText('Tool: write_file').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await trace.waitFor({ state: 'hidden' });
});

test('an approval is rejected in the inbox by shortcut', async () => {
  await newConversation();
  await page.getByRole('button', { name: /^Approvals:/ }).click();
  await page.getByRole('menuitemradio', { name: 'Asks before making changes' }).click();
  await say('write a file again');
  await page.locator('main article').getByText('Waiting for approval').waitFor();
  await page.getByRole('link', { name: /Approvals/ }).first().click();
  await page.getByRole('listitem').getByText('"note.txt"').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('r');
  await page.getByRole('heading', { name: 'No pending approvals' }).waitFor();
  await page.getByRole('tab', { name: 'Answered' }).click();
  await page.getByText('Rejected').first().waitFor();
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(opened.strays, []);
  assert.deepEqual(opened.problems, []);
});
