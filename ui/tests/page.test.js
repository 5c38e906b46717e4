// What is everywhere: settings, the palette, shortcuts, languages, signing in; every view that needs nothing before it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { PASSWORD, axe, begin, lookAt, walkThrough } from './harness.js';

/** What the API's document says of the settings. */
const FORMS = JSON.parse(readFileSync(new URL('../src/lib/settings-forms.json', import.meta.url)));

let it;
let daemon, page;

before(async () => {
  it = await begin();
  ({ daemon, page } = it);
});

after(() => it?.end());

test('settings show the difference before they are saved, and name what is wrong', async () => {
  await page.goto(`${daemon.url}/settings/agent`);
  await page.getByLabel('Rounds of tools in a turn').fill('9');
  await page.getByText('1 change').waitFor();
  assert.match(await page.locator('form dl').innerText(), /Rounds of tools in a turn\s*16 → 9/);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved').waitFor();
  await page.reload();
  assert.equal(await page.getByLabel('Rounds of tools in a turn').inputValue(), '9');
  await page.goto(`${daemon.url}/settings/profile`);
  await page.getByLabel('Time zone').fill('Middle/Earth');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByLabel('Time zone').getAttribute('aria-invalid'), 'true');
  // Leaving asks first.
  await page.getByRole('link', { name: 'Interface', exact: true }).click();
  await page.getByRole('dialog', { name: 'Leave without saving?' }).getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('heading', { name: 'Interface' }).waitFor();
});

test('the palette and the shortcuts lead by keyboard, and focus follows', async () => {
  await it.show('/chat');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('sett');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Profile' }).waitFor();
  await page.waitForFunction(() => document.activeElement?.tagName === 'H1');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  await page.getByRole('heading', { name: 'Approvals' }).waitFor();
});

const VIEWS = ['/chat', '/channels', '/devices', '/scheduler', '/hooks', '/monitoring', '/approvals', '/approvals?tab=answered', '/browser', '/browser/requests', '/browser/recordings', '/browser/signins', '/no-such-page', ...['profile', 'interface', 'notifications', 'providers', 'agent', 'strategy', 'proactive', 'memory', 'tools', 'custom', 'servers', 'browser', 'email', 'security', 'sandbox', 'keys', 'sessions', 'backup', 'data'].map((each) => `/settings/${each}`)];

test('every view keeps to WCAG 2.2 AA and fits', async () => assert.deepEqual(await lookAt(it, VIEWS), []));
test('every view can be walked through by Tab', async () => assert.deepEqual(await walkThrough(it, VIEWS), []));

test('the page speaks German', async () => {
  await page.goto(`${daemon.url}/settings/security`);
  await page.getByRole('button', { name: /^Account and appearance/ }).click();
  await page.getByRole('menuitem', { name: 'Deutsch' }).click();
  await page.getByRole('heading', { name: 'Sicherheit' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'de');
  // What the API says of its settings is English, and none of it is shown.
  const flat = (fields) => fields.flatMap((field) => [field, ...flat(field.fields ?? [])]);
  for (const [category, { fields }] of Object.entries(FORMS)) {
    await it.show(`/settings/${category}`);
    await page.locator('main form').waitFor();
    const text = (await page.locator('main').innerText()).replace(/\s+/g, ' ');
    const english = flat(fields).map(({ description = '' }) => description.replace(/\s+/g, ' ').slice(0, 30)).filter((each) => each.length > 10 && text.includes(each));
    assert.deepEqual(english, [], category);
  }
  await it.show('/settings/security');
  await page.getByRole('button', { name: /^Konto und Aussehen/ }).click();
  await page.getByRole('menuitem', { name: 'English' }).click();
  await page.getByRole('heading', { name: 'Security' }).waitFor();
});

test('signing out closes the page, and signing in opens it where it was', async () => {
  await page.goto(`${daemon.url}/approvals`);
  await page.getByRole('button', { name: /^Account and appearance/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill('wrong wrong wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Password').fill('correct horse battery');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Approvals' }).waitFor();
});

test('what was typed into a form outlives the session', async () => {
  await it.show('/scheduler');
  await page.getByRole('button', { name: 'New job' }).last().click();
  const form = page.getByRole('dialog', { name: 'New job' });
  await form.getByLabel('Name', { exact: true }).fill('Kept');
  await form.getByLabel('What the agent is to do').fill('A long text that nobody wants to type twice.');
  await form.getByLabel('When should it run?').fill('every weekday at 7');
  await page.keyboard.press('Enter');
  await form.getByText('The next runs').waitFor();
  await it.context.clearCookies();
  await form.getByRole('button', { name: 'Create job' }).click();
  const signIn = page.getByRole('dialog', { name: 'Sign in' });
  await signIn.getByText('Your session has ended.').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await signIn.getByLabel('Name').fill('owner');
  await signIn.getByLabel('Password').fill('wrong wrong wrong');
  await signIn.getByRole('button', { name: 'Sign in' }).click();
  await signIn.getByRole('alert').waitFor();
  await signIn.getByLabel('Password').fill(PASSWORD);
  await signIn.getByRole('button', { name: 'Sign in' }).click();
  // What was being saved is saved now.
  await page.getByRole('dialog', { name: 'Kept' }).waitFor();
  const { jobs } = await it.call('GET', '/api/scheduler/jobs');
  assert.deepEqual(jobs.map(({ name, goal }) => [name, goal]), [['Kept', 'A long text that nobody wants to type twice.']]);
});

test('nothing left the daemon, and no script failed', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
