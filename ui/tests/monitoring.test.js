// Health, costs, prices, alerts and activity.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, begin, checkViews, checkTabOrder } from './harness.js';
import { KEY, startProvider } from './provider.js';

let provider;
let it;
let page;

before(async () => {
  [provider, it] = await Promise.all([startProvider(), begin()]);
  page = it.page;
});
after(async () => {
  await it?.end();
  provider?.stop();
});

/** Runs one turn to completion. */
async function turn(content) {
  const response = await page.request.fetch(`${it.daemon.url}/api/chat/messages/stream`, { method: 'POST', data: { content, agent_id: 'ada' }, headers: it.headers });
  assert.match(await response.text(), /event: done/);
}
const tile = (name) => page.locator('main dl > div').filter({ has: page.getByText(name, { exact: true }) });
const alerts = async () => (await it.call('GET', '/api/monitoring/alerts')).alerts;

test('the overview shows the health of each component and checks it on demand', async () => {
  await it.show('/monitoring');
  const health = page.getByRole('region', { name: 'Health' });
  await health.getByText('agentd 0.').waitFor();
  const { components } = await it.call('GET', '/api/monitoring/health');
  assert.equal(await health.getByRole('listitem').count(), components.length);
  const asked = page.waitForResponse((response) => response.url().endsWith('/api/monitoring/health/check'));
  await health.getByRole('button', { name: 'Check now' }).click();
  assert.ok((await asked).ok());
  const memory = page.getByRole('meter', { name: 'Memory' });
  assert.ok(Number(await memory.getAttribute('aria-valuenow')) > 0);
});

test('an unknown cost is marked, and setting a price applies to future calls', async () => {
  await it.show('/monitoring/costs');
  await page.getByRole('heading', { name: 'No usage yet' }).waitFor();
  await it.call('PUT', '/api/providers/openai/key', { api_key: KEY, base_url: provider.url, default_model: 'fake-model' });
  await it.call('PUT', '/api/settings/agent', { default_provider: 'openai' });
  await turn('good morning');
  // The view updates live.
  await tile('Cost').getByText('Unknown', { exact: true }).waitFor();
  await tile('Cost').getByText('Excludes 1 call with unknown price.').waitFor();
  assert.equal(await page.getByText('$0.00').count(), 0);

  await page.getByText('Unknown price: fake-model.').waitFor();
  await page.getByRole('button', { name: 'Set price of fake-model' }).click();
  assert.deepEqual([await it.dialog().getByLabel('Provider').inputValue(), await it.dialog().getByLabel('Model').inputValue()], ['openai', 'fake-model']);
  await it.dialog().getByLabel('Input', { exact: true }).fill('1000');
  await it.dialog().getByLabel('Output', { exact: true }).fill('2000');
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Save' }).click();
  await page.getByText('Unknown price:').waitFor({ state: 'detached' });
  await turn('and again');
  // 11 tokens in and 7 out; the first call's price stays unknown.
  await tile('Cost').getByText('≥ $0.025').waitFor();
});

test('prices are searched, overridden and reset, and errors appear at their field', async () => {
  await it.show('/monitoring/costs');
  const table = page.getByRole('region', { name: 'Prices' });
  const rows = () => table.locator('tbody tr');
  await page.getByLabel('Search providers or models').fill('anthropic claude-3-5-haiku');
  await page.waitForFunction(() => [...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody tr').length === 1);
  await rows().getByText('Built-in').waitFor();
  const act = async (item) => {
    await rows().getByRole('button', { name: 'Actions for claude-3-5-haiku' }).click();
    await page.getByRole('menuitem', { name: item }).click();
  };
  await act('Override price');
  await it.dialog().getByLabel('Input', { exact: true }).fill('0.5');
  await it.dialog().getByRole('button', { name: 'Save' }).click();
  await rows().getByText('Custom', { exact: true }).waitFor();
  assert.match(await rows().innerText(), /\$0\.5/);
  const overrides = async () => (await it.call('GET', '/api/monitoring/prices')).prices.filter(({ origin }) => origin === 'override').map(({ model, output }) => [model, output]);
  assert.deepEqual(await overrides(), [['claude-3-5-haiku', 4], ['fake-model', 2000]]);

  await act('Remove custom price');
  await rows().getByText('Built-in').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await rows().getByText('Custom', { exact: true }).waitFor();
  assert.equal((await overrides()).length, 2);
  await act('Remove custom price');
  await rows().getByText('Built-in').waitFor();

  await page.getByRole('button', { name: 'New price' }).click();
  await it.dialog().getByLabel('Model').fill('a b');
  await it.dialog().getByLabel('Input', { exact: true }).fill('1');
  await it.dialog().getByLabel('Output', { exact: true }).fill('1');
  await it.dialog().getByRole('button', { name: 'Save' }).click();
  await it.dialog().getByText(/must be a model name/).waitFor();
  assert.deepEqual(await overrides(), [['fake-model', 2000]]);
});

test('response times are shown as chart and table, with gaps as unknown', async () => {
  await it.show('/monitoring/performance');
  await page.locator('canvas').first().waitFor();
  const chart = page.locator('figure').filter({ has: page.getByRole('heading', { name: 'Response time' }) });
  await chart.getByText('Show as table').click();
  // The current minute appears with the next refresh.
  for (const text of [/^Unknown$/, /\d.*m?s$/]) await chart.locator('tbody td').filter({ hasText: text }).first().waitFor({ timeout: 90_000 });
});

test('an alert is previewed, fires, is acknowledged, snoozed and deleted', async () => {
  await it.show('/monitoring/alerts');
  await page.getByRole('button', { name: 'New alert' }).first().click();
  await it.dialog().getByLabel('Name', { exact: true }).fill('Any disk at all');
  await it.dialog().getByLabel('Condition').fill('disk_percent >');
  await it.dialog().getByRole('alert').waitFor();
  await it.dialog().getByLabel('Condition').fill('disk_percent >= threshold');
  await it.dialog().getByLabel('Threshold').fill('0');
  await it.dialog().getByText('Would fire').waitFor();
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  const row = it.row('Any disk at all');
  // Alerts are evaluated at least every 15 seconds.
  await row.getByText('Firing').waitFor({ timeout: 30_000 });
  await row.getByRole('button', { name: 'Acknowledge' }).click();
  await row.getByText('Acknowledged').waitFor();
  const act = async (item) => {
    await row.getByRole('button', { name: 'Actions for Any disk at all' }).click();
    await page.getByRole('menuitem', { name: item }).click();
  };
  await act('Snooze for 1 hour');
  await row.getByText('Snoozed', { exact: true }).waitFor();
  await act('History');
  await it.dialog().getByText('ongoing').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await act('Delete');
  await it.dialog().getByRole('button', { name: 'Cancel' }).click();
  assert.ok((await alerts()).some(({ name }) => name === 'Any disk at all'));
  await act('Delete');
  await it.dialog().getByRole('button', { name: 'Delete' }).click();
  await row.waitFor({ state: 'detached' });
  assert.ok(!(await alerts()).some(({ name }) => name === 'Any disk at all'));
});

test('activity is counted live', async () => {
  await it.show('/monitoring/activity');
  const done = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'task.completed' }) });
  await done.getByText('2', { exact: true }).waitFor();
  await turn('once more');
  await done.getByText('3', { exact: true }).waitFor();
});

const VIEWS = ['/monitoring', '/monitoring/costs', '/monitoring/performance', '/monitoring/alerts', '/monitoring/activity'];

test('monitoring conforms to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, VIEWS), []));
test('monitoring is reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, VIEWS), []));

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
