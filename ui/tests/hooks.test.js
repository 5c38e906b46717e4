// Hooks, their deliveries and webhooks, as a person uses them.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { axe, begin, lookAt, walkThrough } from './harness.js';

const SECRET = 'a secret of at least thirty-two characters';
const HOSTILE = '<img src="http://evil.test/a.png" onerror="window.harmed=1">\u202egnp';

let receiver;
let it;
let page;

/** Somebody's server, which takes what it gets or says 500. */
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

test('a hook is made, tried with an example, and signs what it sends', async () => {
  await it.show('/hooks');
  await page.getByRole('heading', { name: 'Nothing reacts to events yet' }).waitFor();
  await page.getByRole('button', { name: 'New hook' }).click();
  await it.dialog().getByLabel('Name', { exact: true }).fill(HOSTILE);
  await it.dialog().getByLabel('On the event').selectOption('task.completed');
  await it.dialog().getByLabel('Address').fill(receiver.url);
  await it.dialog().getByLabel('Secret').fill(SECRET);
  await it.dialog().getByLabel(/^Only if/).fill('no JSON');
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  await it.dialog().getByText('This is not a JSON object.').waitFor();
  assert.equal((await it.call('GET', '/api/hooks')).hooks.length, 0);
  await it.dialog().getByLabel(/^Only if/).fill('');
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  await sideDialog(/evil\.test/).getByRole('button', { name: 'Test', exact: true }).click();
  await sideDialog(/evil\.test/).getByText('What the test came to').waitFor();
  await sideDialog(/evil\.test/).getByText('succeeded').first().waitFor();
  const { headers, body } = receiver.got.at(-1);
  assert.equal(headers['x-svc-signature'], `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`);
  assert.doesNotMatch(await page.content(), new RegExp(SECRET));
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(await axe(page), []);
});

test('a hook is switched off and on, changed, and its secret stays', async () => {
  const { id } = await named(HOSTILE);
  await it.call('PUT', `/api/hooks/${id}`, { name: 'Notify' });
  await it.show('/hooks');
  // The page shows at once what the daemon is only being asked.
  const toggled = page.waitForResponse((response) => /PUT|PATCH/.test(response.request().method()));
  await page.getByRole('switch', { name: 'Notify is on' }).click();
  assert.ok((await toggled).ok());
  assert.equal(await page.getByRole('switch', { name: 'Notify is on' }).getAttribute('aria-checked'), 'false');
  assert.equal((await named('Notify')).enabled, false);
  await page.getByRole('switch', { name: 'Notify is on' }).click();
  await page.getByRole('button', { name: 'Actions of Notify' }).click();
  await page.getByRole('menuitem', { name: 'Edit' }).click();
  await it.dialog().getByLabel('Attempts').fill('1');
  await it.dialog().getByLabel(/^Further settings/).fill('{"queued": true}');
  await it.dialog().getByRole('button', { name: 'Save' }).click();
  await sideDialog('Notify').waitFor();
  const hook = await named('Notify');
  assert.deepEqual([hook.enabled, hook.max_retries, hook.config.queued, hook.config.secret], [true, 1, true, { set: true }]);
});

test('what a receiver did not take is a dead letter, and is sent again', async () => {
  receiver.state.broken = true;
  const { id } = await named('Notify');
  await it.show(`/hooks?hook=${id}`);
  await sideDialog('Notify').getByRole('button', { name: 'Send a test event' }).click();
  await sideDialog('Notify').getByText('given up').waitFor();
  await it.show('/hooks');
  await page.getByRole('listitem').filter({ hasText: 'Notify' }).getByText('1 dead letter').waitFor();
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
  await page.getByRole('button', { name: 'Try the 1 chosen again' }).click();
  await page.getByRole('heading', { name: 'Nothing was given up' }).waitFor();
  await mark.waitFor({ state: 'detached' });
  await page.goto(`${it.daemon.url}/hooks?hook=${id}`);
  await sideDialog('Notify').getByRole('tab', { name: /^Deliveries/ }).click();
  await sideDialog('Notify').getByRole('button', { name: /^succeeded.*test\.notification/ }).waitFor();
  assert.ok(receiver.got.length > before);
});

test('a webhook shows its secret once, takes what is signed, and shows it as text', async () => {
  await it.show('/hooks/webhooks');
  await page.getByRole('button', { name: 'New webhook' }).click();
  await it.dialog().getByLabel('Name', { exact: true }).fill('ci');
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  const made = sideDialog('The webhook is there');
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
  const received = sideDialog('ci').getByRole('button', { name: /^received/ });
  await received.click();
  await sideDialog('ci').getByText('onerror=').waitFor();
  assert.equal(await sideDialog('ci').locator('img').count(), 0);
  await sideDialog('ci').getByRole('button', { name: 'Take it again' }).click();
  await sideDialog('ci').getByText('again', { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('a ready-made hook is installed with what it lacks, and what all came to is drawn', async () => {
  await it.show('/hooks/bundled');
  await page.getByRole('button', { name: 'Install Tell me when a task fails' }).click();
  await it.dialog().getByLabel('Who is told').fill('nowhere');
  await it.dialog().getByRole('button', { name: 'Install' }).click();
  await it.dialog().getByRole('alert').waitFor();
  await it.dialog().getByLabel('Who is told').fill(`webhook:${receiver.url}`);
  await it.dialog().getByLabel('Whose events').selectOption('agent:ada');
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Install' }).click();
  await sideDialog('Tell me when a task fails').waitFor();
  const hook = await named('Tell me when a task fails');
  assert.deepEqual([hook.hook_type, hook.scope, hook.config.channel], ['builtin', 'agent:ada', `webhook:${receiver.url}`]);
  await it.show('/hooks/bundled');
  await it.row('Tell me when a task fails').getByText('installed', { exact: true }).waitFor();

  await it.show('/hooks/analytics');
  await page.locator('canvas').nth(1).waitFor();
  const { total_deliveries } = await it.call('GET', '/api/hooks/analytics/global');
  assert.ok(total_deliveries >= 2, `${total_deliveries}`);
  assert.equal(await page.locator('dl > div').filter({ hasText: 'Executions and deliveries' }).locator('dd').first().innerText(), String(total_deliveries));
  const chart = page.locator('figure').filter({ has: page.getByRole('heading', { name: 'What ended' }) });
  await chart.getByText('As a table').click();
  await chart.locator('tbody td').first().waitFor();
  const sum = async () => (await chart.locator('tbody td').allInnerTexts()).reduce((all, text) => all + Number(text), 0);
  assert.equal(await sum(), total_deliveries);
  // Where nothing ended, how long it took is not known, and not 0.
  const took = page.locator('figure').filter({ has: page.getByRole('heading', { name: 'How long they took' }) });
  await took.getByText('As a table').click();
  assert.equal(await took.locator('tbody td').first().innerText(), 'unknown');
  await page.getByLabel('Whose figures').selectOption('Tell me when a task fails');
  await page.waitForFunction(() => [...document.querySelectorAll('main figure')][0].querySelectorAll('tbody td').values().every((cell) => cell.textContent === '0'));
});

const VIEWS = ['/hooks', '/hooks/bundled', '/hooks/webhooks', '/hooks/letters', '/hooks/analytics'];

test('hooks keep to WCAG 2.2 AA and fit', async () => assert.deepEqual(await lookAt(it, VIEWS), []));
test('hooks can be walked through by Tab', async () => assert.deepEqual(await walkThrough(it, VIEWS), []));

test('a hook is deleted only after a question', async () => {
  await it.show('/hooks');
  const remove = async (answer) => {
    await page.getByRole('button', { name: 'Actions of Notify' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await it.dialog().getByRole('button', { name: answer }).click();
  };
  await remove('Cancel');
  assert.ok(await named('Notify'));
  await remove('Delete');
  await it.row('Notify').waitFor({ state: 'detached' });
  assert.equal(await named('Notify'), undefined);
});

test('nothing left the daemon, and no script failed', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
