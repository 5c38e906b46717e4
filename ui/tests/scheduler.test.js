// Jobs, calendar and chains.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, begin, checkViews, checkTabOrder } from './harness.js';
import { KEY, startProvider } from './provider.js';

const HOSTILE = '<img src="http://evil.test/a.png" onerror="window.harmed=1">\u202egnp';

let provider;
let it;
let page;

before(async () => {
  [provider, it] = await Promise.all([startProvider((asked, round, messages, model) => (model === 'refused' ? { fails: 'The model was refused.' } : null)), begin()]);
  page = it.page;
  await it.call('PUT', '/api/providers/openai/key', { api_key: KEY, base_url: provider.url, default_model: 'fake-model' });
  await it.call('PUT', '/api/settings/agent', { default_provider: 'openai' });
  await it.call('PUT', '/api/settings/profile', { timezone: 'Europe/Berlin' });
});
after(async () => {
  await it?.end();
  provider?.stop();
});

const jobs = async () => (await it.call('GET', '/api/scheduler/jobs')).jobs;

test('a schedule in words is previewed before the job is saved', async () => {
  await it.show('/scheduler');
  await page.getByRole('heading', { name: 'No jobs yet' }).waitFor();
  await page.getByRole('button', { name: 'New job' }).last().click();
  await it.dialog().getByLabel('Name', { exact: true }).fill('Briefing');
  await it.dialog().getByLabel('Task').fill('Say what is to be done.');
  await it.dialog().getByLabel('When should it run?').fill('every weekday at 7');
  await it.dialog().getByRole('button', { name: 'Create job' }).click();
  // The first press shows the preview; nothing is saved yet.
  await it.dialog().getByText('Next runs').waitFor();
  assert.deepEqual(await jobs(), []);
  assert.equal(await it.dialog().locator('fieldset li').count(), 5);
  await it.dialog().getByText('0 7 * * 1-5').waitFor();
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Create job' }).click();
  await page.getByRole('dialog', { name: 'Briefing' }).getByText('No runs yet.').waitFor();
  const [job] = await jobs();
  assert.deepEqual([job.name, job.schedule.type, job.schedule.expression, job.schedule.timezone], ['Briefing', 'cron', '0 7 * * 1-5', 'Europe/Berlin']);
});

test('a new job preselects an existing agent', async () => {
  await it.call('POST', '/api/agents', { svc_name: 'grace', user_name: 'Owner', archetype: 'analyst' });
  const options = () => it.dialog().getByLabel('Agent', { exact: true }).locator('option').allInnerTexts();
  await it.show('/scheduler');
  await page.getByRole('button', { name: 'New job' }).click();
  assert.deepEqual(await options(), ['Default agent (ada)', 'ada', 'grace']);
  await page.keyboard.press('Escape');
  await it.call('PUT', '/api/settings/interface', { default_agent: null });
  await it.show('/scheduler');
  await page.getByRole('button', { name: 'New job' }).click();
  assert.deepEqual(await options(), ['ada', 'grace']);
  await it.dialog().getByLabel('Name', { exact: true }).fill('Without a default');
  await it.dialog().getByLabel('Task').fill('Say hello.');
  await it.dialog().getByLabel('When should it run?').fill('every weekday at 8');
  await page.keyboard.press('Enter');
  await it.dialog().getByText('Next runs').waitFor();
  await it.dialog().getByRole('button', { name: 'Create job' }).click();
  await page.getByRole('dialog', { name: 'Without a default' }).waitFor();
  const made = (await jobs()).find(({ name }) => name === 'Without a default');
  assert.equal(made.agent_id, (await it.call('GET', '/api/agents/ada')).id);
  await it.call('DELETE', `/api/scheduler/jobs/${made.id}`);
  await it.call('PUT', '/api/settings/interface', { default_agent: 'ada' });
  await it.call('DELETE', '/api/agents/grace');
});

test('a job whose last run failed is marked in its list and in the navigation', async () => {
  const body = { name: 'Broken', goal: 'Say hello.', agent_id: 'ada', model: 'openai/refused', schedule: { type: 'every', interval: 86400 }, retry: { max_attempts: 1 } };
  const { id } = await it.call('POST', '/api/scheduler/jobs', body);
  const mark = page.getByRole('link', { name: /^Scheduler/ }).first().getByRole('img', { name: 'Needs attention' });
  await it.show('/scheduler');
  await it.row('Broken').getByText('Active').waitFor();
  assert.equal(await it.row('Broken').getByText('Last run failed').count(), 0);
  assert.equal(await mark.count(), 0);
  await it.call('POST', `/api/scheduler/jobs/${id}/trigger`);
  await it.row('Broken').getByText('Last run failed').waitFor();
  await mark.waitFor();
  await page.getByLabel('Status').selectOption({ label: 'Last run failed' });
  await it.row('Briefing').waitFor({ state: 'detached' });
  await it.row('Broken').waitFor();
  await it.call('PUT', `/api/scheduler/jobs/${id}`, { model: null });
  await it.call('POST', `/api/scheduler/jobs/${id}/trigger`);
  await page.getByRole('heading', { name: 'No matching jobs' }).waitFor();
  await mark.waitFor({ state: 'detached' });
  await it.call('DELETE', `/api/scheduler/jobs/${id}`);
});

test('an invalid schedule shows the API error, and nothing is saved', async () => {
  await it.show('/scheduler');
  await page.getByRole('button', { name: 'New job' }).click();
  await it.dialog().getByLabel('Name', { exact: true }).fill('Never');
  await it.dialog().getByLabel('Task').fill('Nothing.');
  await it.dialog().getByText('Cron', { exact: true }).click();
  await it.dialog().getByLabel('Cron expression').fill('61 * * * *');
  const problem = it.dialog().getByRole('alert');
  await problem.waitFor();
  assert.match(await problem.innerText(), /minute/i);
  await it.dialog().getByRole('button', { name: 'Create job' }).click();
  await page.keyboard.press('Escape');
  assert.equal((await jobs()).length, 1);
});

test('a run is shown live, can be cancelled, and keeps its output', async () => {
  const [job] = await jobs();
  await it.call('PUT', `/api/scheduler/jobs/${job.id}`, { goal: 'Think slowly.' });
  await it.show('/scheduler');
  await it.row('Briefing').getByRole('button', { name: /^Briefing/ }).click();
  const details = page.getByRole('dialog', { name: 'Briefing' });
  const half = provider.halfway();
  await details.getByRole('button', { name: 'Run now' }).click();
  await half;
  await details.getByText('The first half.').waitFor();
  provider.release();
  await details.locator('.markdown').getByText('The second half.').waitFor();
  await details.getByRole('button', { name: /Succeeded/ }).waitFor();
  const again = provider.halfway();
  await details.getByRole('button', { name: 'Run now' }).click();
  await again;
  await details.getByRole('button', { name: 'Cancel run' }).click();
  await details.getByRole('button', { name: /^Cancelled/ }).waitFor();
  assert.deepEqual(await axe(page), []);
  const { runs } = await it.call('GET', `/api/scheduler/jobs/${job.id}/runs`);
  assert.deepEqual(runs.map(({ status }) => status), ['cancelled', 'success']);
});

test('the calendar is navigated by arrow keys and opens a job', async () => {
  await it.show('/scheduler/calendar?day=2030-01-07');
  const grid = page.getByRole('grid');
  await grid.getByRole('button', { name: 'Monday, January 7, 1 run' }).focus();
  await page.keyboard.press('ArrowRight');
  await page.waitForURL(/day=2030-01-08/);
  assert.match(await page.evaluate(() => document.activeElement.textContent), /January 8/);
  await page.locator('section[aria-labelledby=agenda]').getByRole('button', { name: 'Briefing' }).click();
  await page.getByRole('dialog', { name: 'Briefing' }).waitFor();
});

test('a chain runs one job after another and shows the results', async () => {
  await it.call('PUT', `/api/scheduler/jobs/${(await jobs())[0].id}`, { goal: 'Be brief.' });
  await it.call('POST', '/api/scheduler/jobs', { name: HOSTILE, goal: 'Follow.', agent_id: 'ada', schedule: { type: 'every', interval: 86400 }, status: 'paused' });
  await it.show('/scheduler/chains');
  await page.getByRole('button', { name: 'New chain' }).click();
  await it.dialog().getByLabel('Name', { exact: true }).fill('Morning');
  await it.dialog().getByLabel('After').selectOption({ label: 'Briefing' });
  await it.dialog().getByLabel('Run', { exact: true }).selectOption({ index: 1 });
  await it.dialog().getByRole('button', { name: 'Create' }).click();
  const chain = page.getByRole('region', { name: 'Morning' });
  await chain.getByText(/runs after Briefing succeeds/).waitFor();
  assert.match(await chain.innerText(), /<img src="http:\/\/evil.test\/a.png" onerror="window.harmed=1">\\u\{202e\}gnp/);
  await chain.getByRole('button', { name: 'Run now' }).click();
  await chain.getByRole('list', { name: 'Runs' }).getByText('Succeeded').waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('a job is paused and resumed, and deleted only after confirmation', async () => {
  await it.show('/scheduler');
  const act = async (item) => {
    await page.getByRole('button', { name: 'Actions for Briefing' }).click();
    await page.getByRole('menuitem', { name: item }).click();
  };
  await act('Pause');
  await it.row('Briefing').getByText('Paused').waitFor();
  await act('Resume');
  await it.row('Briefing').getByText('Active').waitFor();
  await act('Delete');
  await it.dialog().getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await jobs()).length, 2);
  // A job in a chain cannot be deleted.
  await act('Delete');
  await it.dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('status').getByText(/chain/).waitFor();
  await page.getByRole('tab', { name: 'Chains' }).click();
  await page.getByRole('region', { name: 'Morning' }).getByRole('button', { name: 'Delete' }).click();
  await it.dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: 'No chains yet' }).waitFor();
  await page.getByRole('tab', { name: 'Jobs' }).click();
  await act('Delete');
  await it.dialog().getByRole('button', { name: 'Delete' }).click();
  await it.row('Briefing').waitFor({ state: 'detached' });
  assert.equal((await jobs()).length, 1);
});

const VIEWS = ['/scheduler', '/scheduler/calendar', '/scheduler/calendar?view=week', '/scheduler/activity', '/scheduler/chains'];

test('the scheduler conforms to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, VIEWS), []));
test('the scheduler is reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, VIEWS), []));

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
