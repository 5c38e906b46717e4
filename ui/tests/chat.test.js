// Conversations.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { axe, begin, talking } from './harness.js';
import { KEY, startProvider } from './provider.js';

let it;
let provider;
let rolls = 0;
let refusals = 0;

/** Replies that differ each time, so that a regenerated reply can be recognized. */
function script(asked, round) {
  if (/foreign page/.test(asked)) return [{ tool: ['http_fetch', { url: 'http://127.0.0.1:1/page' }] }, { tool: ['memory_forget', { id: 'mem_1' }] }][round] ?? { text: 'It was not forgotten.' };
  if (/dice/.test(asked)) return { text: `You rolled number ${(rolls += 1)}.` };
  if (/refused/.test(asked)) return (refusals += 1) % 2 ? { fails: 'The vendor is out of order.' } : { text: 'The vendor works again.' };
  return null;
}
let daemon, page;
let composer, newConversation, replies, say, settled;

before(async () => {
  [provider, it] = await Promise.all([startProvider(script), begin()]);
  ({ daemon, page } = it);
  ({ composer, newConversation, replies, say, settled } = talking(page, daemon));
  await it.call('PUT', '/api/providers/openai/key', { api_key: KEY, base_url: provider.url, default_model: 'fake-model' });
  await it.call('PUT', '/api/settings/agent', { default_provider: 'openai' });
});

after(async () => {
  await it?.end();
  provider?.stop();
});

// Cleans up after a failed test.
afterEach(async () => {
  provider.release();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

/** Starts a conversation without reloading the page. */
async function newConversationByLink() {
  await page.getByRole('link', { name: 'New conversation' }).first().click();
  await page.getByRole('heading', { name: 'How can ada help?' }).waitFor();
}

test('replies continue in the background, queued messages are sent afterwards, and stop works', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('answer slowly please');
  await half;
  await replies().last().getByText('The first half.').waitFor();
  const slow = page.url();
  await say('and then this');
  await page.getByText('Queued').waitFor();
  await newConversationByLink();
  await page.getByRole('img', { name: 'Reply in progress' }).first().waitFor();
  provider.release();
  await page.getByRole('img', { name: 'Reply in progress' }).first().waitFor({ state: 'hidden' });
  await page.locator(`a[href="${new URL(slow).pathname}"]`).first().click();
  await page.locator('main article').getByText('You said: and then this').waitFor();
  await settled();
  const again = provider.halfway();
  await say('slowly once more');
  await again;
  await page.getByRole('button', { name: 'Stop generating' }).click();
  await page.getByText('Stopped').waitFor();
  await settled();
});

test('a message sent between two replies stays behind the queue while the daemon is busy', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('answer slowly please');
  await half;
  await say('number two');
  await page.getByText('Queued').waitFor();
  // The reload after the first reply is delayed, and the next message is rejected once.
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const asked = new Promise((resolve) => {
    void page.route(/\/api\/chat\/conversations\/[^/?]+\?/, async (route) => {
      resolve();
      await held;
      await route.continue();
    });
  });
  let refused = 0;
  await page.route('**/api/chat/messages/stream', (route) => {
    refused += 1;
    return refused > 1 ? route.continue() : route.fulfill({ status: 409, json: { error: 'It is answering.', code: 'conversation_busy' } });
  });
  provider.release();
  await asked;
  await say('number three');
  release();
  await page.locator('main article').getByText('You said: number three').waitFor();
  await settled();
  await page.unrouteAll({ behavior: 'wait' });
  assert.equal(refused, 3);
  const said = await page.locator('main article').allInnerTexts();
  const at = (text) => said.findIndex((article) => article.includes(text));
  assert.ok(at('You said: number two') < at('number three'), JSON.stringify(said));
  assert.equal(await composer().inputValue(), '');
});

test('queued messages survive a reload and are sent once', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('answer slowly please');
  await half;
  await say('after the reload');
  await say('and this is taken back');
  await page.getByRole('button', { name: 'Remove from queue' }).last().click();
  await page.reload();
  await page.getByText('Queued').waitFor();
  assert.equal(await page.getByText('Queued').count(), 1);
  provider.release();
  await page.locator('main article').getByText('You said: after the reload').waitFor();
  await settled();
  assert.equal(await page.getByRole('article', { name: 'You' }).filter({ hasText: 'after the reload' }).count(), 1);
  await page.reload();
  await page.locator('main article').getByText('You said: after the reload').waitFor();
  assert.equal(await page.getByRole('article', { name: 'You' }).filter({ hasText: 'after the reload' }).count(), 1);
  assert.deepEqual(await page.evaluate(() => Object.entries(sessionStorage).filter(([key]) => key.startsWith('queue:'))), []);
});

test('editing a message replaces the rest of the conversation', async () => {
  await newConversation();
  await say('first');
  await settled();
  await say('second');
  await settled();
  await page.locator('main article').first().hover();
  await page.getByRole('button', { name: 'Edit message' }).first().click();
  await page.getByRole('textbox', { name: 'Edit message' }).fill('changed');
  await page.getByRole('button', { name: 'Save and resend' }).click();
  await replies().last().getByText('You said: changed').waitFor();
  await settled();
  assert.equal(await page.locator('main article').count(), 2);
});

/** Presses Regenerate and returns the requests it sent. */
async function regenerate() {
  const sent = [];
  const note = (request) => request.method() === 'POST' && sent.push([new URL(request.url()).pathname, request.postDataJSON()]);
  page.on('request', note);
  const answered = page.waitForResponse('**/api/chat/messages/stream');
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await answered;
  page.off('request', note);
  return sent;
}

test('regenerate replaces the last reply with a new one', async () => {
  await newConversation();
  await say('good morning');
  await settled();
  await say('throw the dice');
  await replies().last().getByText('You rolled number 1.').waitFor();
  await settled();
  const id = new URL(page.url()).pathname.split('/').at(-1);
  const [cut, sent] = await regenerate();
  // The browser does not expose the body of retryable requests.
  assert.deepEqual([cut[0], sent[0]], ['/api/chat/messages/truncate', '/api/chat/messages/stream']);
  await replies().last().getByText('You rolled number 2.').waitFor();
  await settled();
  const { messages } = await it.call('GET', `/api/chat/conversations/${id}`);
  assert.deepEqual(messages.map(({ content }) => content), ['good morning', 'You said: *good morning*', 'throw the dice', 'You rolled number 2.']);
  assert.equal(await page.getByText('You rolled number 1.').count(), 0);
});

test('regenerate retries a reply that failed', async () => {
  await newConversation();
  await say('this is refused');
  await page.getByRole('alert').filter({ hasText: 'The vendor is out of order.' }).waitFor();
  await settled();
  await regenerate();
  await replies().last().getByText('The vendor works again.').waitFor();
  await settled();
  assert.equal(await page.locator('main article').count(), 2);
  assert.equal(await page.getByText('The vendor is out of order.').count(), 0);
});

test('a rejected regenerate keeps the reply and shows the error', async () => {
  await newConversation();
  await say('throw the dice');
  await settled();
  const text = await replies().last().innerText();
  await page.route('**/api/chat/messages/truncate', (route) => route.fulfill({ status: 409, json: { error: 'It is answering.', code: 'conversation_busy' } }));
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await page.getByText('It is answering.').first().waitFor();
  await settled();
  assert.equal(await replies().last().innerText(), text);
});

/** Creates a conversation of `questions` questions and answers, and opens it. */
async function written(questions) {
  const [agent] = (await it.call('GET', '/api/agents')).agents;
  const { id } = await it.call('POST', '/api/chat/conversations', { agent_id: agent.id });
  for (let n = 1; n <= questions; n += 1) {
    await it.call('POST', '/api/chat/messages/inject', { conversation_id: id, role: 'user', content: `question ${n}` });
    await it.call('POST', '/api/chat/messages/inject', { conversation_id: id, role: 'assistant', content: `answer ${n}` });
  }
  await page.goto(`${daemon.url}/chat/${id}`);
  await page.getByText(`answer ${questions}`, { exact: true }).waitFor();
  return id;
}

/** Replaces a message of the owner by `text`. */
async function replaceMessage(article, text) {
  await article.hover();
  await article.getByRole('button', { name: 'Edit message' }).click();
  await page.getByRole('textbox', { name: 'Edit message' }).fill(text);
  await page.getByRole('button', { name: 'Save and resend' }).click();
}

test('editing the first visible message keeps the earlier ones', async () => {
  const id = await written(20);
  await page.getByRole('button', { name: 'Show earlier messages (10)' }).waitFor();
  await replaceMessage(page.getByRole('article', { name: 'You' }).first(), 'instead of the sixth');
  await replies().last().getByText('You said: instead of the sixth').waitFor();
  await settled();
  const { messages } = await it.call('GET', `/api/chat/conversations/${id}`);
  assert.deepEqual(messages.slice(8).map(({ content }) => content), ['question 5', 'answer 5', 'instead of the sixth', 'You said: *instead of the sixth*']);
});

test('earlier messages requested twice are loaded once, and are removed when the conversation is truncated', async () => {
  await written(20);
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route(/\/api\/chat\/conversations\/[^/?]+\?/, async (route) => (await held, route.continue()));
  const earlier = page.getByRole('button', { name: 'Show earlier messages (10)' });
  await earlier.click();
  await earlier.click();
  release();
  await page.getByText('answer 1', { exact: true }).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  assert.equal(await page.locator('main article').count(), 40);
  await replaceMessage(page.getByRole('article', { name: 'You' }).nth(1), 'instead of the second');
  await replies().last().getByText('You said: instead of the second').waitFor();
  await settled();
  assert.equal(await page.locator('main article').count(), 4);
});

test('a rejected message is kept and not retried forever', async () => {
  await newConversation();
  await say('before the refusals');
  await settled();
  let [refused, status, json] = [0, 429, { error: 'The budget of today is used up.', code: 'budget_exhausted' }];
  await page.route('**/api/chat/messages/stream', (route) => {
    refused += 1;
    return route.fulfill({ status, json });
  });
  await say('too expensive');
  await page.getByText(/token budget is used up|budget of .* tokens is used up/).first().waitFor();
  assert.equal(await composer().inputValue(), 'too expensive');
  [status, json] = [503, { error: 'No model can be asked.', code: 'no_model' }];
  await composer().press('Enter');
  await page.getByText('No model can be asked.').first().waitFor();
  assert.equal(await composer().inputValue(), 'too expensive');
  // The replaced message has already been deleted.
  await composer().fill('');
  await replaceMessage(page.locator('main article').first(), 'the same, changed');
  await page.getByText('Queued').waitFor();
  await page.getByText('the same, changed').waitFor();
  assert.equal(refused, 3);
  await page.unrouteAll({ behavior: 'wait' });
  await page.reload();
  await replies().last().getByText('You said: the same, changed').waitFor();
  await settled();
});

test('a rejected edit keeps its text', async () => {
  await newConversation();
  await say('to be edited');
  await settled();
  await page.route('**/api/chat/messages/truncate', (route) => route.fulfill({ status: 409, json: { error: 'It is answering.', code: 'conversation_busy' } }));
  await replaceMessage(page.locator('main article').first(), 'a long new text');
  await page.getByText('It is answering.').first().waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'Edit message' }).inputValue(), 'a long new text');
  await page.unrouteAll({ behavior: 'wait' });
  await page.getByRole('button', { name: 'Save and resend' }).click();
  await replies().last().getByText('You said: a long new text').waitFor();
  await settled();
});

test('more concurrent replies than browser connections do not block each other', async () => {
  const places = [];
  for (let n = 1; n <= 6; n += 1) {
    await newConversationByLink();
    const half = provider.halfway();
    await say(`slowly, number ${n}`);
    await half;
    await replies().last().getByText('The first half.').waitFor();
    places.push(new URL(page.url()).pathname);
  }
  provider.release();
  for (const place of places) {
    await page.locator(`a[href="${place}"]`).first().click();
    await page.locator('main article').getByText('The first half. The second half.').waitFor();
    await settled();
  }
});

test('an approval lists the sources of untrusted text', async () => {
  await newConversation();
  await say('read the foreign page');
  const card = page.locator('main article').filter({ hasText: 'memory_forget' });
  await card.getByText('this turn contains untrusted text from:').waitFor();
  await card.getByText('http://127.0.0.1:1/page (http_fetch)').waitFor();
  await page.getByRole('link', { name: /Approvals/ }).first().click();
  const item = page.getByRole('listitem').filter({ hasText: 'memory_forget' }).first();
  await item.getByText('http://127.0.0.1:1/page (http_fetch)').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('r');
  await page.getByRole('heading', { name: 'No pending approvals' }).waitFor();
});

test('inbox shortcuts apply to the selected approval only', async () => {
  const [agent] = (await it.call('GET', '/api/agents')).agents;
  await it.show('/approvals');
  const ask = async () => {
    const { id } = await it.call('POST', '/api/chat/conversations', { agent_id: agent.id, execution_mode: 'approval_required' });
    const body = JSON.stringify({ conversation_id: id, content: 'write a file' });
    await page.evaluate(([headers, body]) => void fetch('/api/chat/messages/stream', { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body }), [it.headers, body]);
    const card = page.getByRole('listitem').filter({ has: page.locator(`a[href="/chat/${id}"]`) });
    await card.waitFor();
    return card;
  };
  const first = await ask();
  // The second key of a navigation shortcut decides nothing.
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  const second = await ask();
  assert.equal(await first.count(), 1);
  await page.keyboard.press('r');
  await first.waitFor({ state: 'detached' });
  assert.equal(await second.count(), 1);
  await page.keyboard.press('r');
  await page.getByRole('heading', { name: 'No pending approvals' }).waitFor();
});

test('a conversation is renamed, moved, found and deleted, and its draft is kept', async () => {
  await newConversation();
  await say('the one to be renamed');
  await settled();
  await composer().fill('not sent yet');
  const menu = page.getByRole('button', { name: 'Actions for the one to be renamed' });
  await menu.focus();
  await menu.press('Enter');
  await page.getByRole('menuitem', { name: 'Rename' }).press('Enter');
  await page.getByLabel('Title').fill('Quarterly figures');
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('heading', { name: 'Quarterly figures' }).waitFor();
  await page.getByRole('button', { name: 'Actions for Quarterly figures' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('menuitem', { name: 'Move to project' }).press('Enter');
  await page.getByRole('textbox', { name: 'New project' }).fill('Figures');
  await page.getByRole('button', { name: 'Move', exact: true }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await page.getByRole('combobox', { name: 'Project' }).selectOption({ label: 'Figures' });
  await page.getByRole('navigation', { name: 'Conversations' }).getByRole('listitem').nth(1).waitFor({ state: 'detached' });
  await page.reload();
  await page.getByRole('heading', { name: 'Quarterly figures' }).waitFor();
  assert.equal(await composer().inputValue(), 'not sent yet');
  await page.getByRole('searchbox', { name: 'Search conversations' }).fill('quarterly');
  await page.getByRole('button', { name: 'Actions for Quarterly figures' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete conversation' }).click();
  await page.getByRole('heading', { name: 'How can ada help?' }).waitFor();
  await page.getByText('No results').waitFor();
});

test('a second tab shows a reply while it streams', async () => {
  await newConversation();
  await say('the beginning');
  await settled();
  const other = await it.context.newPage();
  await other.goto(page.url());
  await other.getByText('You said: the beginning').first().waitFor();
  const half = provider.halfway();
  await say('answer slowly for both');
  await half;
  await other.locator('main article').getByText('answer slowly for both').waitFor();
  await other.locator('main article').getByText('The first half.').waitFor();
  provider.release();
  await other.locator('main article').getByText('The first half. The second half.').waitFor();
  await settled();
  await other.close();
});

test('a daemon killed during a reply keeps the partial text', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('slowly until the end');
  await half;
  await replies().last().getByText('The first half.').waitFor();
  await daemon.restart();
  await page.getByText('The daemon stopped before the reply was complete').waitFor({ timeout: 30_000 });
  assert.match(await replies().last().innerText(), /The first half\./);
  await settled();
});

test('the page reconnects after the daemon is killed', async () => {
  await newConversation();
  await say('before the end');
  await settled();
  await daemon.restart();
  await say('after the end');
  await replies().last().getByText('You said: after the end').waitFor({ timeout: 30_000 });
  await settled();
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
