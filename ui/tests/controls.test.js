// Controls of a conversation.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { PHONE, begin, talking } from './harness.js';
import { KEY, startProvider } from './provider.js';

const STEPS = [
  { text: 'First the plan.', tool: ['write_file', { path: 'plan.txt', content: 'one' }] },
  { text: 'Then the report.', tool: ['write_file', { path: 'report.txt', content: 'two' }] },
  { text: 'Both are written.' },
];

let it;
let provider;
let daemon, page;
let composer, newConversation, replies, say, settled;

before(async () => {
  [provider, it] = await Promise.all([startProvider((asked, round) => (/steps/.test(asked) ? STEPS[round] : null)), begin()]);
  ({ daemon, page } = it);
  ({ composer, newConversation, replies, say, settled } = talking(page, daemon));
  for (const [id, default_model] of [['openai', 'fake-model'], ['groq', 'other-model']]) {
    await it.call('PUT', `/api/providers/${id}/key`, { api_key: KEY, base_url: provider.url, default_model });
  }
  await it.call('PUT', '/api/settings/agent', { default_provider: 'openai' });
  await it.call('POST', '/api/agents', { svc_name: 'grace', user_name: 'Owner', archetype: 'analyst' });
  await it.context.grantPermissions(['clipboard-read', 'clipboard-write']);
});

after(async () => {
  await it?.end();
  provider?.stop();
});

afterEach(async () => {
  provider.release();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

const shownId = () => new URL(page.url()).pathname.split('/').at(-1);
const stored = () => it.call('GET', `/api/chat/conversations/${shownId()}`);
const contents = async () => (await stored()).messages.map(({ content }) => content);

/** Performs an action and returns the reply request that it sends. */
async function asked(action) {
  const request = page.waitForRequest('**/api/chat/messages/stream');
  await action();
  return (await request).postDataJSON();
}

async function choose(menu, item) {
  await page.getByRole('button', { name: menu }).click();
  await page.getByRole('menuitemradio', { name: item }).click();
}

/** Texts and tools of the last reply, in display order. */
const outline = () =>
  replies().last().locator('.markdown, summary > code').evaluateAll((all) => all.map((each) => each.textContent.trim()));

test('text and tool calls keep their order after a reload', async () => {
  await newConversation();
  await say('two steps');
  await replies().last().getByText('Both are written.').waitFor();
  await settled();
  const expected = ['First the plan.', 'write_file', 'Then the report.', 'write_file', 'Both are written.'];
  // Texts inside a card are its input and output.
  assert.deepEqual((await outline()).filter((text) => expected.includes(text)), expected);
  await page.reload();
  await replies().last().getByText('Both are written.').waitFor();
  assert.deepEqual((await outline()).filter((text) => expected.includes(text)), expected);
  const cards = await replies().last().locator('summary').allInnerTexts();
  assert.equal(cards.length, 2);
  for (const [i, path] of ['plan.txt', 'report.txt'].entries()) assert.match(cards[i].replace(/\s+/g, ' '), new RegExp(`write_file ${path} Done · [\\d.]+ m?s`));
  assert.match(await page.locator('main article').last().innerText(), /fake-model/);
});

test('the button sends, and Shift Enter inserts a line break', async () => {
  await newConversation();
  const send = page.getByRole('button', { name: 'Send', exact: true });
  assert.equal(await send.isDisabled(), true);
  await composer().fill('first line');
  await composer().press('Shift+Enter');
  await page.keyboard.type('second line');
  assert.equal(await page.locator('main article').count(), 0);
  const body = await asked(() => send.click());
  assert.equal(body.content, 'first line\nsecond line');
  await settled();
  assert.equal(await composer().inputValue(), '');
});

test('a suggestion fills the composer', async () => {
  await newConversation();
  await page.getByRole('button', { name: 'What can you do?' }).click();
  assert.equal(await composer().inputValue(), 'What can you do?');
  assert.equal(await composer().evaluate((area) => area === document.activeElement), true);
});

test('an edit is cancelled by button and by Escape, and sent by Enter', async () => {
  await newConversation();
  await say('the original');
  await settled();
  const own = page.getByRole('article', { name: 'You' });
  const editor = page.getByRole('textbox', { name: 'Edit message' });
  const edit = async (text) => {
    await own.hover();
    await own.getByRole('button', { name: 'Edit message' }).click();
    assert.equal(await editor.inputValue(), 'the original');
    assert.equal(await editor.evaluate((area) => area === document.activeElement), true);
    await editor.fill(text);
  };
  await edit('dropped');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await editor.waitFor({ state: 'detached' });
  await edit('dropped as well');
  await editor.press('Escape');
  await editor.waitFor({ state: 'detached' });
  assert.equal((await contents())[0], 'the original');
  await edit('');
  assert.equal(await page.getByRole('button', { name: 'Save and resend' }).isDisabled(), true);
  await editor.fill('two');
  await editor.press('Shift+Enter');
  await page.keyboard.type('lines');
  const body = await asked(() => editor.press('Enter'));
  assert.equal(body.content, 'two\nlines');
  await settled();
  assert.equal((await contents())[0], 'two\nlines');
});

test('a message is copied as Markdown', async () => {
  await newConversation();
  await say('to be copied');
  await settled();
  await page.getByRole('button', { name: 'Copy message' }).last().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'You said: *to be copied*');
});

test('mode and approvals can be set before and during a conversation', async () => {
  await newConversation();
  await choose(/^Mode:/, 'Plan only (read-only)');
  await choose(/^Approvals:/, 'Asks before making changes');
  await say('the beginning');
  await settled();
  let now = await stored();
  assert.deepEqual([now.mode, now.execution_mode], ['plan', 'approval_required']);
  const changed = page.waitForResponse((response) => response.request().method() !== 'GET' && /mode$/.test(response.url()));
  await choose(/^Mode:/, 'Chat (no tools)');
  await changed;
  const changedToo = page.waitForResponse((response) => response.request().method() !== 'GET' && /execution-mode$/.test(response.url()));
  await choose(/^Approvals:/, 'Runs tools without asking');
  await changedToo;
  now = await stored();
  assert.deepEqual([now.mode, now.execution_mode], ['chat', 'autonomous']);
});

test('agent and model of a conversation can be selected', async () => {
  await newConversation();
  await choose(/^Agent/, 'grace');
  await choose(/^Model:/, 'groq/other-model');
  const body = await asked(() => say('who are you'));
  assert.deepEqual([body.agent_id, body.model], ['grace', 'groq/other-model']);
  await settled();
  const grace = await it.call('GET', '/api/agents/grace');
  const { agent_id, messages } = await stored();
  assert.equal(agent_id, grace.id);
  assert.deepEqual([messages[1].agent_id, messages[1].provider, messages[1].model], [grace.id, 'groq', 'other-model']);
  assert.match(await page.locator('main article').last().innerText(), /other-model/);
  await choose(/^Model:/, 'Default: fake-model');
  assert.equal((await asked(() => say('and now'))).model, null);
  await settled();
});

test('a note is added without a reply', async () => {
  await newConversation();
  await say('the beginning');
  await settled();
  await composer().fill('only a note');
  await page.getByRole('button', { name: 'Add as a note (no reply)' }).click();
  await page.getByText('Note added').waitFor();
  await page.locator('main article').getByText('only a note').waitFor();
  assert.equal(await composer().inputValue(), '');
  assert.deepEqual((await contents()).at(-1), 'only a note');
});

test('a tool call is rejected in its card', async () => {
  await newConversation();
  await choose(/^Approvals:/, 'Asks before making changes');
  await say('write a file');
  const card = page.locator('main article').filter({ hasText: 'write_file' });
  await card.getByRole('button', { name: 'Reject' }).click();
  await settled();
  assert.deepEqual((await stored()).messages[1].tool_calls.map(({ status }) => status), ['rejected']);
  await card.getByText('Rejected', { exact: true }).waitFor();
});

test('token usage is shown with a reply unless disabled in the settings', async () => {
  await newConversation();
  await say('count them');
  await settled();
  await page.getByText('18 tokens').waitFor();
  // Usage is stored with the message.
  await page.reload();
  await page.getByText('18 tokens').waitFor();
  await it.call('PUT', '/api/settings/interface', { show_token_usage: false });
  await page.reload();
  await page.locator('main article').getByText('You said: count them').waitFor();
  assert.equal(await page.getByText('18 tokens').count(), 0);
  await it.call('PUT', '/api/settings/interface', { show_token_usage: true });
});

test('a button jumps to the latest message', async () => {
  const [agent] = (await it.call('GET', '/api/agents')).agents;
  const { id } = await it.call('POST', '/api/chat/conversations', { agent_id: agent.id });
  for (let n = 0; n < 20; n += 1) await it.call('POST', '/api/chat/messages/inject', { conversation_id: id, role: 'user', content: `line\n`.repeat(10) + n });
  await page.goto(`${daemon.url}/chat/${id}`);
  const last = page.locator('main article').last();
  await page.waitForFunction(() => document.querySelectorAll('main article').length === 20);
  const scroller = page.getByRole('region', { name: 'Conversations' });
  const toEnd = page.getByRole('button', { name: 'Jump to latest message' });
  assert.equal(await toEnd.count(), 0);
  await scroller.evaluate((element) => (element.scrollTop = 0));
  await toEnd.click();
  await toEnd.waitFor({ state: 'detached' });
  const { bottom, height } = await last.evaluate((element) => ({ bottom: element.getBoundingClientRect().bottom, height: innerHeight }));
  assert.ok(bottom > 0 && bottom < height, `the last message ends at ${bottom}`);
});

test('older conversations are loaded on demand and found by the palette', async () => {
  const [agent] = (await it.call('GET', '/api/agents')).agents;
  for (let n = 0; n < 55; n += 1) await it.call('POST', '/api/chat/conversations', { agent_id: agent.id, title: `Old one ${n}` });
  await newConversation();
  const list = page.getByRole('navigation', { name: 'Conversations' });
  await list.getByText('Old one 54').waitFor();
  assert.equal(await list.getByText('Old one 2', { exact: true }).count(), 0);
  await page.getByRole('button', { name: 'Show older conversations' }).click();
  await list.getByText('Old one 2', { exact: true }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('Old one 3');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^Old one 3/ }).waitFor();
});

test('conversations are in a drawer on a phone', async () => {
  await page.setViewportSize(PHONE);
  await newConversation();
  await page.getByRole('button', { name: 'Conversations' }).click();
  const drawer = page.getByRole('dialog', { name: 'Conversations' });
  await drawer.getByRole('link', { name: 'Old one 54' }).click();
  await page.getByRole('heading', { name: 'Old one 54' }).waitFor();
  await drawer.waitFor({ state: 'hidden' });
  await page.setViewportSize({ width: 1440, height: 900 });
});

test('loading a conversation can be retried', async () => {
  const [{ id }] = (await it.call('GET', '/api/chat/conversations?limit=1')).conversations;
  await page.route(`**/api/chat/conversations/${id}?*`, (route) => route.abort());
  await page.goto(`${daemon.url}/chat/${id}`);
  const retry = page.locator('main').getByRole('button', { name: 'Retry' });
  await retry.waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  await retry.click();
  await retry.waitFor({ state: 'detached' });
  await page.goto(`${daemon.url}/chat/conv_missing`);
  await page.getByRole('heading', { name: 'Conversation not found' }).waitFor();
  await page.locator('main').getByRole('link', { name: 'New conversation' }).last().click();
  await composer().waitFor();
});

test('an exhausted budget is shown above the composer', async () => {
  await newConversation();
  await it.call('PUT', '/api/settings/agent', { daily_token_limit: 1 });
  await page.reload();
  await say('too expensive');
  const notice = page.getByRole('alert');
  await notice.getByText('Today’s budget of 1 tokens is used up. Resets at 12:00 AM').waitFor();
  assert.equal(await composer().inputValue(), 'too expensive');
  assert.equal(await page.getByText('PUT /api').count(), 0);
  // The notice does not cover the Send button.
  await it.call('PUT', '/api/settings/agent', { daily_token_limit: null });
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await settled();
  assert.equal(await notice.count(), 0);
  await it.call('PUT', '/api/settings/agent', { total_token_limit: 1 });
  await page.reload();
  await say('too expensive again');
  await notice.getByText('The total budget of 1 tokens is used up.').waitFor();
  await notice.getByRole('link', { name: 'Change limit' }).click();
  await page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor();
  await it.call('PUT', '/api/settings/agent', { total_token_limit: null });
  await it.call('PATCH', '/api/agents/ada', { profile: { daily_token_limit: 2 } });
  await newConversation();
  await say('too expensive for ada');
  await notice.getByText('Today’s budget of 2 tokens for ada is used up.').waitFor();
  await notice.getByRole('link', { name: 'Change limit for ada' }).click();
  await page.waitForURL('**/agents/ada');
  await it.call('PATCH', '/api/agents/ada', { profile: { daily_token_limit: null } });
});

test('the small built-in model is labelled as a demo', async () => {
  const note = page.getByText('Small built-in demo model.');
  await newConversation();
  await page.getByRole('button', { name: /^Model:/ }).waitFor();
  assert.equal(await note.count(), 0);
  await page.route('**/api/providers', async (route) => {
    const { providers, total } = await (await route.fetch()).json();
    const local = { model: 'small.gguf', small: true, available_models: ['small.gguf'], state: 'ready', resident_bytes: 0, active_requests: 0 };
    await route.fulfill({ json: { total, providers: providers.map((each) => (each.id === 'local' ? { ...each, configured: true, local } : each)) } });
  });
  await newConversation();
  await choose(/^Model:/, 'local/small.gguf');
  await note.waitFor();
  await page.getByRole('link', { name: 'Connect a provider' }).click();
  await page.waitForURL('**/settings/providers');
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
