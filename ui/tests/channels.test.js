// Setup and operation of chat platforms.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { begin, checkViews, checkTabOrder } from './harness.js';

const TOKEN = '4711:a-token-of-a-bot';
const HOSTILE = '<img src="http://evil.test/a.png" onerror="window.harmed=1">\u202egnp';

let platform;
let it;
let page;

/** Starts a fake of Telegram's Bot API that records its requests. */
async function startTelegram() {
  const asked = [];
  const answers = { getMe: { id: 77, is_bot: true, first_name: 'Ada', username: 'ada_bot' }, getWebhookInfo: { url: 'https://elsewhere.example/hook', pending_update_count: 0 }, sendMessage: { message_id: 5, date: 1, chat: { id: 1, type: 'private' } } };
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      const [, bot, method] = request.url.split('/');
      asked.push({ bot, method, body: body && JSON.parse(body) });
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ ok: true, result: answers[method] ?? true }));
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, asked, stop: () => (server.close(), server.closeAllConnections()) };
}

let secret;
let updates = 0;
/** Delivers a message of a sender to the webhook. */
async function write(id, name) {
  updates += 1;
  const from = { id, is_bot: false, first_name: name };
  const data = { update_id: updates, message: { message_id: updates, date: Math.floor(Date.now() / 1000), chat: { id, type: 'private' }, from, text: 'hello' } };
  const response = await fetch(`${it.daemon.direct}/api/channels/telegram/webhook`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Telegram-Bot-Api-Secret-Token': secret }, body: JSON.stringify(data) });
  assert.equal(response.status, 200, await response.text());
}

before(async () => {
  [platform, it] = await Promise.all([startTelegram(), begin()]);
  page = it.page;
  await it.call('PUT', '/api/channels/settings', { telegram: { api_base_url: platform.url } });
});
after(async () => {
  await it?.end();
  platform?.stop();
});

test('a platform is set up step by step, and saved secrets are never shown', async () => {
  await it.show('/channels');
  assert.equal(await page.getByRole('list', { name: 'Platforms' }).getByRole('listitem').count(), 6);
  await page.getByRole('link', { name: /Telegram Off/ }).click();
  await page.getByRole('heading', { level: 1, name: 'Telegram' }).waitFor();
  // Before setup, the API's error message is shown.
  await page.getByRole('button', { name: 'Verify credentials' }).click();
  await page.getByRole('alert').getByText('the channel is disabled').waitFor();

  await page.getByRole('radio', { name: /Connect to Telegram from agentd/ }).check();
  await page.getByRole('button', { name: 'Save and enable' }).click();
  await page.getByRole('alert').getByText('is required while the channel is enabled').first().waitFor();
  assert.equal(await page.getByLabel('Bot token').getAttribute('aria-invalid'), 'true');

  await page.getByRole('radio', { name: /Receive a webhook from Telegram/ }).check();
  await page.getByLabel('Bot token').fill(TOKEN);
  await page.getByRole('button', { name: 'Generate' }).click();
  secret = await page.getByLabel('Webhook secret', { exact: true }).inputValue();
  assert.match(secret, /^[0-9a-f]{48}$/);
  await page.getByLabel('Agent', { exact: true }).selectOption('ada');
  await page.getByRole('button', { name: 'Save and enable' }).click();
  await page.getByRole('button', { name: 'Replace Bot token' }).waitFor();
  const { telegram } = await it.call('GET', '/api/channels/settings');
  assert.deepEqual([telegram.enabled, telegram.agent_id, telegram.bot_token], [true, 'ada', { set: true }]);
  assert.doesNotMatch(await page.content(), new RegExp(`${TOKEN}|${secret}`));

  await page.getByText(/Platforms can’t reach this address/).waitFor();
  await page.getByRole('button', { name: 'Register webhook with Telegram' }).click();
  await page.getByText('Registered with Telegram:').waitFor();
  const registered = platform.asked.find(({ method }) => method === 'setWebhook').body;
  assert.deepEqual([registered.secret_token, registered.url], [secret, `${it.daemon.direct}/api/channels/telegram/webhook`]);
  await page.getByRole('button', { name: 'Verify credentials' }).click();
  await page.getByText('Verified on Telegram as @ada_bot.').waitFor();
  await page.getByText('This is not the address of this server.').waitFor();
  await page.getByLabel('Chat', { exact: true }).fill('42');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('Telegram ID: 5').waitFor();
  assert.equal(platform.asked.findLast(({ method }) => method === 'sendMessage').body.chat_id, 42);
});

test('an unknown sender appears without a reload and is approved, and its name is not interpreted', async () => {
  await it.show('/channels/telegram');
  await page.getByText('No access requests.').waitFor();
  await write(101, HOSTILE);
  await write(102, 'Mallory');
  const requests = page.getByRole('list', { name: 'Access requests' });
  const stranger = requests.getByRole('listitem').filter({ hasText: 'evil.test' });
  await stranger.waitFor();
  assert.match(await stranger.innerText(), /<img src="http:\/\/evil.test\/a.png" onerror="window.harmed=1">\\u\{202e\}gnp/);
  const { pairings } = await it.call('GET', '/api/channels/pairings');
  assert.match(await stranger.innerText(), new RegExp(pairings.find(({ sender_id }) => sender_id === '101').code));
  await stranger.getByRole('button', { name: /^Approve/ }).click();
  await stranger.waitFor({ state: 'detached' });

  await it.show('/channels');
  await it.row('Mallory').getByRole('button', { name: /^Reject/ }).click();
  await it.dialog().getByRole('button', { name: 'Reject' }).click();
  await it.row('Mallory').waitFor({ state: 'detached' });
  await page.getByRole('link', { name: /Telegram On/ }).click();
  await page.getByRole('tab', { name: /^People/ }).click();
  const person = page.getByRole('list', { name: 'People' }).getByRole('listitem');
  await person.getByText('101').waitFor();
  assert.equal(await person.count(), 1);
  await person.getByText('Owner', { exact: true }).waitFor();
  assert.equal(await person.getByRole('button', { name: /^Make owner/ }).count(), 0);
  await person.getByRole('button', { name: /^Remove/ }).click();
  await it.dialog().getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('heading', { name: 'No approved people yet' }).waitFor();
  assert.equal((await it.call('GET', '/api/channels/telegram/senders')).total, 0);
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('owner is the first approved person, and can be changed', async () => {
  await write(201, 'Ada');
  await write(202, 'Bea');
  await it.show('/channels/telegram?part=people');
  await page.getByText('The first person you approve becomes the owner and can approve actions from the chat.', { exact: false }).first().waitFor();
  const requests = page.getByRole('list', { name: 'Access requests' });
  for (const name of ['Ada', 'Bea']) {
    await requests.getByRole('button', { name: `Approve ${name}` }).click();
    await requests.getByRole('button', { name: `Approve ${name}` }).waitFor({ state: 'detached' });
  }
  const person = (name) => page.getByRole('list', { name: 'People' }).getByRole('listitem').filter({ hasText: name });
  await person('Ada').getByText('Owner', { exact: true }).waitFor();
  await person('Bea').getByRole('button', { name: 'Make owner Bea' }).click();
  await it.dialog().getByRole('button', { name: 'Make owner' }).click();
  await person('Bea').getByText('Owner', { exact: true }).waitFor();
  await person('Ada').getByRole('button', { name: 'Make owner Ada' }).waitFor();
  assert.equal((await it.call('GET', '/api/channels/telegram/senders')).owner_id, '202');

  await person('Bea').getByRole('button', { name: 'Remove Bea' }).click();
  await it.dialog().getByRole('button', { name: 'Remove' }).click();
  await page.getByText('This channel has no owner.', { exact: false }).waitFor();
  await it.call('PUT', '/api/channels/settings', { telegram: { allowed_senders: ['303'] } });
  await it.show('/channels/telegram?part=people');
  await page.getByRole('list', { name: 'Allowlist' }).getByRole('button', { name: 'Make owner 303' }).click();
  await it.dialog().getByRole('button', { name: 'Make owner' }).click();
  await page.getByText('This channel has no owner.', { exact: false }).waitFor({ state: 'detached' });
  assert.equal((await it.call('GET', '/api/channels/telegram/senders')).owner_id, '303');
});

test('rules are saved, errors appear at their field, and leaving with unsaved changes asks first', async () => {
  await it.show('/channels/telegram?part=rules');
  await page.getByRole('radio', { name: /Allowlist only/ }).check();
  await page.getByLabel('Always allowed sender IDs').fill('12 34\n56');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText(/must be a sender id on the platform/).waitFor();
  assert.equal((await it.call('GET', '/api/channels/settings')).telegram.sender_policy, 'pairing');
  await page.getByLabel('Always allowed sender IDs').fill('1234\n56');
  await page.getByRole('link', { name: 'All channels' }).click();
  await it.dialog().getByRole('button', { name: 'Cancel' }).click();
  await page.getByLabel('In groups, reply').selectOption('never');
  await page.getByRole('switch', { name: 'Accept files' }).click();
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('button', { name: 'Save', exact: true }).waitFor({ state: 'detached' });
  const { telegram } = await it.call('GET', '/api/channels/settings');
  assert.deepEqual([telegram.sender_policy, telegram.allowed_senders, telegram.groups, telegram.attachments], ['allowlist', ['1234', '56'], 'never', true]);
  assert.deepEqual(telegram.bot_token, { set: true });
});

test('changes made elsewhere are merged, and actions are disabled while there are unsaved changes', async () => {
  await it.show('/channels/telegram?part=rules');
  await page.getByLabel('Allowed tools').fill('memory_search');
  await it.call('PUT', '/api/channels/settings', { telegram: { groups: 'always' } });
  const onOff = page.getByRole('switch', { name: /^Enable Telegram/ });
  await onOff.click();
  await onOff.and(page.getByRole('switch', { checked: false })).waitFor();
  await onOff.click();
  await page.waitForFunction(() => document.querySelector('main select').value === 'always');
  assert.equal(await page.getByLabel('Allowed tools').inputValue(), 'memory_search');
  await page.getByText('Unsaved changes').waitFor();

  await page.getByRole('tab', { name: 'Setup' }).click();
  const actions = ['Verify credentials', 'Register webhook with Telegram', 'Send'].map((name) => page.getByRole('button', { name, exact: true }));
  for (const action of actions) assert.equal(await action.isDisabled(), true);
  assert.equal(await page.getByText('Save your changes first.').count(), 3);
  await page.getByRole('button', { name: 'Discard' }).click();
  await actions[0].click();
  await page.getByText('Verified on Telegram as @ada_bot.').waitFor();
  await page.getByLabel('Agent', { exact: true }).selectOption('');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('Verified on Telegram as @ada_bot.').waitFor({ state: 'detached' });
  assert.deepEqual(await Promise.all(actions.map((action) => action.isDisabled())), [false, false, false]);
});

test('a failed message is listed, and the platform can be disabled', async () => {
  platform.stop();
  await it.call('POST', '/api/hooks', { name: 'Told', event_type: 'memory.stored', hook_type: 'builtin', config: { action: 'send_to_channel', channel: 'telegram:42', subject: 'Told', template: `Remembered ${HOSTILE}` } });
  await it.call('POST', '/api/memory/episodes', { content: 'The door is green.', agent_id: 'ada' });
  await it.show('/channels/telegram?part=sent');
  const message = page.getByRole('list', { name: 'Sent' }).getByRole('listitem').filter({ hasText: 'Told' });
  await message.getByRole('button', { name: /^Pending/ }).click();
  await message.getByText('1 attempt', { exact: false }).waitFor();
  await message.getByText(/Remembered <img src="http:\/\/evil.test\/a.png" onerror="window.harmed=1">\\u\{202e\}gnp/).waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  // With more messages than are loaded, the list does not claim to be empty.
  await page.route('**/api/notifications?*', (route) => route.fulfill({ json: { notifications: [], total: 201 } }));
  await it.show('/channels/telegram?part=sent');
  await page.getByText('None of the latest 200 messages', { exact: false }).waitFor();
  assert.equal(await page.getByText('No messages sent yet').count(), 0);
  await page.unroute('**/api/notifications?*');
  await it.show('/channels/telegram');
  await page.getByLabel('Chat', { exact: true }).fill('42');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByRole('alert').waitFor();
  await page.getByRole('switch', { name: /^Enable Telegram/ }).click();
  await page.getByRole('button', { name: 'Enable', exact: true }).waitFor();
  assert.equal((await it.call('GET', '/api/channels/settings')).telegram.enabled, false);
});

const VIEWS = ['/channels', ...['telegram', 'slack', 'discord', 'whatsapp', 'teams', 'google_chat'].map((id) => `/channels/${id}`), '/channels/telegram?part=rules', '/channels/teams?part=rules', '/channels/telegram?part=people', '/channels/telegram?part=sent', '/channels/irc'];

test('channels conform to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, VIEWS), []));
test('channels are reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, VIEWS.slice(0, 4)), []));

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
