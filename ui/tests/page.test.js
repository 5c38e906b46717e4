// Settings, palette, shortcuts, languages, signing in, and all views that need no data.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { PASSWORD, axe, begin, checkViews, checkTabOrder } from './harness.js';

/** Settings categories and their fields. */
const FORMS = JSON.parse(readFileSync(new URL('../src/lib/settings-forms.json', import.meta.url)));

let it;
let daemon, page;

before(async () => {
  it = await begin();
  ({ daemon, page } = it);
});

after(() => it?.end());

test('settings show unsaved changes and errors at their field', async () => {
  await page.goto(`${daemon.url}/settings/agent`);
  await page.getByLabel('Max. tool rounds per turn').fill('9');
  await page.getByText('1 unsaved change').waitFor();
  assert.match(await page.locator('form dl').innerText(), /Max\. tool rounds per turn\s*16 → 9/);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved').waitFor();
  await page.reload();
  assert.equal(await page.getByLabel('Max. tool rounds per turn').inputValue(), '9');
  await page.goto(`${daemon.url}/settings/profile`);
  await page.getByLabel('Time zone').fill('Middle/Earth');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByLabel('Time zone').getAttribute('aria-invalid'), 'true');
  // Leaving with unsaved changes asks first.
  await page.getByRole('link', { name: 'Interface', exact: true }).click();
  await page.getByRole('dialog', { name: 'Leave without saving?' }).getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('heading', { name: 'Interface' }).waitFor();
});

test('palette and shortcuts navigate by keyboard, and focus follows', async () => {
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
  await page.getByRole('heading', { level: 1, name: 'Approvals' }).waitFor();
});

const VIEWS = ['/chat', '/channels', '/devices', '/scheduler', '/hooks', '/monitoring', '/approvals', '/approvals?tab=answered', '/browser', '/browser/requests', '/browser/recordings', '/browser/signins', '/no-such-page', ...['profile', 'interface', 'notifications', 'providers', 'agent', 'strategy', 'proactive', 'memory', 'tools', 'custom', 'servers', 'browser', 'email', 'security', 'sandbox', 'keys', 'sessions', 'backup', 'data'].map((each) => `/settings/${each}`)];

test('every view conforms to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, VIEWS), []));
test('every view is reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, VIEWS), []));

/** Descriptions of all settings fields in the page's language. */
async function descriptions() {
  const found = [];
  for (const category of Object.keys(FORMS)) {
    await it.show(`/settings/${category}`);
    await page.locator('main form').waitFor();
    found.push(...(await page.locator('main form :is([id$="-hint"], [id$="-text"])').allInnerTexts()));
  }
  return found;
}

test('the page is available in German', async () => {
  const english = await descriptions();
  assert.ok(english.length > 50 && english.every(Boolean));
  await page.goto(`${daemon.url}/settings/security`);
  await page.getByRole('button', { name: /^Account and appearance/ }).click();
  await page.getByRole('menuitem', { name: 'Deutsch' }).click();
  await page.getByRole('heading', { name: 'Sicherheit' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'de');
  assert.deepEqual((await descriptions()).filter((text) => english.includes(text)), []);
  await it.show('/settings/security');
  await page.getByRole('button', { name: /^Konto und Darstellung/ }).click();
  await page.getByRole('menuitem', { name: 'English' }).click();
  await page.getByRole('heading', { name: 'Security' }).waitFor();
});

test('signing in after signing out returns to the same view', async () => {
  await page.goto(`${daemon.url}/approvals`);
  await page.getByRole('button', { name: /^Account and appearance/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByLabel('Username').fill('owner');
  await page.getByLabel('Password').fill('wrong wrong wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Password').fill('correct horse battery');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Approvals' }).waitFor();
});

test('form input survives an expired session', async () => {
  await it.show('/scheduler');
  await page.getByRole('button', { name: 'New job' }).last().click();
  const form = page.getByRole('dialog', { name: 'New job' });
  await form.getByLabel('Name', { exact: true }).fill('Kept');
  await form.getByLabel('Task').fill('A long text that nobody wants to type twice.');
  await form.getByLabel('When should it run?').fill('every weekday at 7');
  await page.keyboard.press('Enter');
  await form.getByText('Next runs').waitFor();
  await it.context.clearCookies();
  await form.getByRole('button', { name: 'Create job' }).click();
  const signIn = page.getByRole('dialog', { name: 'Sign in' });
  await signIn.getByText('Your session has ended.').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await signIn.getByLabel('Username').fill('owner');
  await signIn.getByLabel('Password').fill('wrong wrong wrong');
  await signIn.getByRole('button', { name: 'Sign in' }).click();
  await signIn.getByRole('alert').waitFor();
  await signIn.getByLabel('Password').fill(PASSWORD);
  await signIn.getByRole('button', { name: 'Sign in' }).click();
  // The interrupted request is repeated.
  await page.getByRole('dialog', { name: 'Kept' }).waitFor();
  const { jobs } = await it.call('GET', '/api/scheduler/jobs');
  assert.deepEqual(jobs.map(({ name, goal }) => [name, goal]), [['Kept', 'A long text that nobody wants to type twice.']]);
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
