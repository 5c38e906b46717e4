// Hooks, deliveries and webhooks.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { axe, begin, checkViews, checkTabOrder } from './harness.js';

const SECRET = 'a secret of at least thirty-two characters';
const HOSTILE = '<img src="http://evil.test/a.png" onerror="window.harmed=1">\u202egnp';

let receiver;
let it;
let page;

/** Starts a receiver that accepts requests, or fails with 500 while `broken`. */
async function startReceiver() {
  const got = [];
  const state = { broken: false };
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      got.push({ headers: request.headers, body });
      response.writeHead(state.broken ? 500 : 204);
      response.end();
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/hook`, got, state, stop: () => server.close() };
}

before(async () => {
  [receiver, it] = await Promise.all([startReceiver(), begin()]);
  page = it.page;
});
after(async () => {
  await it?.end();
  receiver?.stop();
});

const named = async (name) => (await it.call('GET', '/api/hooks')).hooks.find((hook) => hook.name === name);
const sideDialog = (name) => page.getByRole('dialog', { name });

test('a hook is created, tested, and signs its requests', async () => {
  await it.show('/hooks');
  await page.getByRole('heading', { name: 'No hooks yet' }).waitFor();
  await page.getByRole('button', { name: 'New hook' }).click();
  await it.dialog().getByLabel('Name', { exact: true }).fill(HOSTILE);
  await it.dialog().getByLabel('Event', { exact: true }).selectOption('task.completed');
  await it.dialog().getByLabel('URL').fill(receiver.url);
  await it.dialog().getByLabel('Secret').fill(SECRET);
  await it.dialog().getByLabel(/^Filter/).fill('no JSON');
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  await it.dialog().getByText('Not a valid JSON object.').waitFor();
  assert.equal((await it.call('GET', '/api/hooks')).hooks.length, 0);
  await it.dialog().getByLabel(/^Filter/).fill('');
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  await sideDialog(/evil\.test/).getByRole('button', { name: 'Test', exact: true }).click();
  await sideDialog(/evil\.test/).getByText('Test result').waitFor();
  await sideDialog(/evil\.test/).getByText('Succeeded').first().waitFor();
  const { headers, body } = receiver.got.at(-1);
  assert.equal(headers['x-svc-signature'], `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`);
  assert.doesNotMatch(await page.content(), new RegExp(SECRET));
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(await axe(page), []);
});

test('a hook is disabled, enabled and edited, and keeps its secret', async () => {
  const { id } = await named(HOSTILE);
  await it.call('PUT', `/api/hooks/${id}`, { name: 'Notify' });
  await it.show('/hooks');
  // The switch changes before the response arrives.
  const toggled = page.waitForResponse((response) => /PUT|PATCH/.test(response.request().method()));
  await page.getByRole('switch', { name: 'Notify: enabled' }).click();
  assert.ok((await toggled).ok());
  assert.equal(await page.getByRole('switch', { name: 'Notify: enabled' }).getAttribute('aria-checked'), 'false');
  assert.equal((await named('Notify')).enabled, false);
  await page.getByRole('switch', { name: 'Notify: enabled' }).click();
  await page.getByRole('button', { name: 'Actions for Notify' }).click();
  await page.getByRole('menuitem', { name: 'Edit' }).click();
  await it.dialog().getByLabel('Max. attempts').fill('1');
  await it.dialog().getByLabel(/^Additional settings/).fill('{"queued": true}');
  await it.dialog().getByRole('button', { name: 'Save' }).click();
  await sideDialog('Notify').waitFor();
  const hook = await named('Notify');
  assert.deepEqual([hook.enabled, hook.max_retries, hook.config.queued, hook.config.secret], [true, 1, true, { set: true }]);
});

test('a failed delivery is listed and retried', async () => {
  receiver.state.broken = true;
  const { id } = await named('Notify');
  await it.show(`/hooks?hook=${id}`);
  await sideDialog('Notify').getByRole('button', { name: 'Send test event' }).click();
  await sideDialog('Notify').getByText('Failed', { exact: true }).waitFor();
  await it.show('/hooks');
  await page.getByRole('listitem').filter({ hasText: 'Notify' }).getByText('1 failed delivery').waitFor();
  const mark = page.getByRole('link', { name: /^Hooks/ }).first().getByRole('img', { name: 'Needs attention' });
  await mark.waitFor();
  await it.show('/hooks/letters');
  const letter = page.getByRole('listitem').filter({ hasText: 'test.notification' });
  await letter.getByRole('button').first().click();
  await letter.getByText('HTTP 500').waitFor();
  await letter.getByText('"test.notification"').first().waitFor();
  assert.deepEqual(await axe(page), []);
  receiver.state.broken = false;
  const before = receiver.got.length;
  await letter.getByRole('checkbox').check();
  await page.getByRole('button', { name: 'Retry selected (1)' }).click();
  await page.getByRole('heading', { name: 'No failed deliveries' }).waitFor();
  await mark.waitFor({ state: 'detached' });
  await page.goto(`${it.daemon.url}/hooks?hook=${id}`);
  await sideDialog('Notify').getByRole('tab', { name: /^Deliveries/ }).click();
  await sideDialog('Notify').getByRole('button', { name: /^Succeeded.*test\.notification/ }).waitFor();
  assert.ok(receiver.got.length > before);
});

test('a webhook shows its secret once, accepts signed requests, and escapes their content', async () => {
  await it.show('/hooks/webhooks');
  await page.getByRole('button', { name: 'New webhook' }).click();
  await it.dialog().getByLabel('Name', { exact: true }).fill('ci');
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  const made = sideDialog('Webhook created');
  await made.waitFor();
  const [url, secret] = await made.locator('code').allInnerTexts();
  await made.getByRole('button', { name: 'Done' }).click();
  const body = JSON.stringify({ status: 'failed', text: HOSTILE });
  const address = new URL(new URL(url).pathname, it.daemon.direct);
  const send = (signature) => fetch(address, { method: 'POST', body, headers: { 'Content-Type': 'application/json', 'X-Svc-Signature': `sha256=${signature}` } });
  assert.equal((await send('0'.repeat(64))).status, 401);
  assert.equal((await send(createHmac('sha256', secret).update(body).digest('hex'))).status, 202);
  await it.show('/hooks/webhooks');
  assert.doesNotMatch(await page.content(), new RegExp(secret));
  await it.row('ci').getByRole('button', { name: /^ci/ }).click();
  const received = sideDialog('ci').getByRole('button', { name: /^Received/ });
  await received.click();
  await sideDialog('ci').getByText('onerror=').waitFor();
  assert.equal(await sideDialog('ci').locator('img').count(), 0);
  await sideDialog('ci').getByRole('button', { name: 'Replay' }).click();
  await sideDialog('ci').getByText('Replayed', { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('a template is installed with its missing values, and statistics are shown', async () => {
  await it.show('/hooks/bundled');
  await page.getByRole('button', { name: 'Install Tell me when a task fails' }).click();
  await it.dialog().getByLabel('Notify').fill('nowhere');
  await it.dialog().getByRole('button', { name: 'Install' }).click();
  await it.dialog().getByRole('alert').waitFor();
  await it.dialog().getByLabel('Notify').fill(`webhook:${receiver.url}`);
  await it.dialog().getByLabel('Scope').selectOption('agent:ada');
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Install' }).click();
  await sideDialog('Tell me when a task fails').waitFor();
  const hook = await named('Tell me when a task fails');
  assert.deepEqual([hook.hook_type, hook.scope, hook.config.channel], ['builtin', 'agent:ada', `webhook:${receiver.url}`]);
  await it.show('/hooks/bundled');
  await it.row('Tell me when a task fails').getByText('Installed', { exact: true }).waitFor();

  await it.show('/hooks/analytics');
  await page.locator('canvas').nth(1).waitFor();
  const { total_deliveries } = await it.call('GET', '/api/hooks/analytics/global');
  assert.ok(total_deliveries >= 2, `${total_deliveries}`);
  assert.equal(await page.locator('dl > div').filter({ hasText: 'Executions and deliveries' }).locator('dd').first().innerText(), String(total_deliveries));
  const chart = page.locator('figure').filter({ has: page.getByRole('heading', { name: 'Results' }) });
  await chart.getByText('Show as table').click();
  await chart.locator('tbody td').first().waitFor();
  const sum = async () => (await chart.locator('tbody td').allInnerTexts()).reduce((all, text) => all + Number(text), 0);
  assert.equal(await sum(), total_deliveries);
  // The duration of an empty bucket is unknown, not 0.
  const took = page.locator('figure').filter({ has: page.getByRole('heading', { name: 'Duration' }) });
  await took.getByText('Show as table').click();
  assert.equal(await took.locator('tbody td').first().innerText(), 'Unknown');
  await page.getByLabel('Hook', { exact: true }).selectOption('Tell me when a task fails');
  await page.waitForFunction(() => [...document.querySelectorAll('main figure')][0].querySelectorAll('tbody td').values().every((cell) => cell.textContent === '0'));
});

const VIEWS = ['/hooks', '/hooks/bundled', '/hooks/webhooks', '/hooks/letters', '/hooks/analytics'];

test('hooks conform to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, VIEWS), []));
test('hooks are reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, VIEWS), []));

test('a hook is deleted only after confirmation', async () => {
  await it.show('/hooks');
  const remove = async (answer) => {
    await page.getByRole('button', { name: 'Actions for Notify' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await it.dialog().getByRole('button', { name: answer }).click();
  };
  await remove('Cancel');
  assert.ok(await named('Notify'));
  await remove('Delete');
  await it.row('Notify').waitFor({ state: 'detached' });
  assert.equal(await named('Notify'), undefined);
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
