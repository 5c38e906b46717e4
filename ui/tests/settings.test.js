// Sessions, backups, imports, custom tools and unsaved changes.
import assert from 'node:assert/strict';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { axe, begin, DESKTOP, checkViews, PHONE, checkTabOrder } from './harness.js';

const PASSPHRASE = 'correct horse battery';
const FIREFOX = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0';

let it;
let call, dialog, page, row, show;
let folder;

before(async () => {
  it = await begin();
  ({ call, dialog, page, row, show } = it);
  folder = await mkdtemp(join(tmpdir(), 'agentd-backup-'));
});
after(async () => {
  await it?.end();
  if (folder) await rm(folder, { recursive: true, force: true });
});

async function logIn(agent) {
  const response = await fetch(`${it.daemon.direct}/api/auth/login`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'User-Agent': agent },
    body: JSON.stringify({ username: 'owner', password: PASSPHRASE }),
  });
  return (await response.json()).token;
}
const opens = async (token) => (await fetch(`${it.daemon.direct}/api/agents`, { headers: { Authorization: `Bearer ${token}` } })).ok;

test('one session is ended, then all others', async () => {
  const tokens = [await logIn(FIREFOX), await logIn('a script \u00e9'), await logIn('curl/8.0')];
  await show('/settings/sessions');
  await row('This device').getByText(/Chrome/).waitFor();
  assert.equal(await row('This device').getByRole('button').count(), 0);
  await row('Firefox, Windows').getByText('127.0.0.1').waitFor();
  await row('Firefox, Windows').getByRole('button', { name: 'End session' }).click();
  await dialog().getByText('End session on Firefox, Windows?').waitFor();
  assert.deepEqual(await axe(page), []);
  await dialog().getByRole('button', { name: 'End session' }).click();
  await row('Firefox, Windows').waitFor({ state: 'detached' });
  assert.deepEqual([await opens(tokens[0]), await opens(tokens[2])], [false, true]);
  await page.getByRole('button', { name: 'End all other sessions' }).click();
  await dialog().getByRole('button', { name: 'End all other sessions' }).click();
  await page.getByText('2 sessions ended.').waitFor();
  await page.locator('main li').nth(1).waitFor({ state: 'detached' });
  assert.equal(await page.locator('main li').count(), 1);
  assert.equal(await opens(tokens[2]), false);
});

test('the Back button asks before discarding unsaved changes', async () => {
  await show('/settings/interface');
  await page.getByRole('link', { name: 'Profile', exact: true }).click();
  const name = page.getByLabel('Display name');
  await name.fill('Somebody else');
  const back = () => page.evaluate(() => history.back());
  await back();
  await dialog().getByText('Leave without saving?').waitFor();
  assert.ok(page.url().endsWith('/settings/profile'), page.url());
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  assert.equal(await name.inputValue(), 'Somebody else');
  await back();
  await dialog().getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('heading', { level: 1, name: 'Interface' }).waitFor();
  assert.ok(page.url().endsWith('/settings/interface'), page.url());
  // Discarded changes are not asked about again, and Forward works.
  await page.evaluate(() => history.forward());
  await page.getByRole('heading', { level: 1, name: 'Profile' }).waitFor();
  assert.equal(await name.inputValue(), 'Owner');
});

test('a backup with secrets is created, downloaded, deleted and uploaded', async () => {
  await call('PUT', '/api/providers/openai/key', { api_key: 'sk-any', base_url: 'http://127.0.0.1:9/v1' });
  await show('/settings/backup');
  await page.getByText('No backups yet').waitFor();
  await page.getByRole('button', { name: 'Create backup' }).click();
  await dialog().getByRole('checkbox', { name: /^Include keys and passwords/ }).check();
  await dialog().getByLabel('Passphrase', { exact: true }).fill(PASSPHRASE);
  await dialog().getByLabel('Confirm passphrase').fill('another');
  await dialog().getByText('The passphrases don’t match.').waitFor();
  assert.deepEqual(await axe(page), []);
  await dialog().getByLabel('Confirm passphrase').fill(PASSPHRASE);
  await dialog().getByRole('button', { name: 'Create backup' }).click();
  await it.confirmPassword();
  const made = row('backup-');
  await made.getByText('With keys and passwords', { exact: true }).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), made.getByRole('button', { name: 'Download' }).click()]);
  const file = join(folder, 'archive.tar.gz');
  await copyFile(await download.path(), file);
  assert.match(download.suggestedFilename(), /^backup-.*\.tar\.gz$/);

  await made.getByRole('button', { name: /^Actions for/ }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No backups yet').waitFor();
  const input = page.getByLabel('Upload backup');
  await input.setInputFiles({ name: 'nonsense.tar.gz', mimeType: 'application/gzip', buffer: Buffer.from('no archive') });
  await page.getByText(/The archive cannot be used/).waitFor();
  await input.setInputFiles(file);
  await row('upload-').waitFor();
});

test('a restore requires the backup name and shows its result', async () => {
  await call('POST', '/api/agents', { svc_name: 'later', user_name: 'Owner', archetype: 'assistant' });
  await call('PUT', '/api/providers/mistral/key', { api_key: 'sk-later' });
  await show('/settings/backup');
  const { name } = (await call('GET', '/api/backups')).backups[0];
  await row('upload-').getByRole('button', { name: /^Actions for/ }).click();
  await page.getByRole('menuitem', { name: 'Restore' }).click();
  await dialog().getByText('You may have to sign in again').waitFor();
  assert.deepEqual(await axe(page), []);
  const replace = dialog().getByRole('button', { name: 'Restore and replace all data' });
  assert.equal(await replace.isDisabled(), true);
  await dialog().getByLabel(/^Type upload-/).fill(name);
  await dialog().getByLabel('Passphrase').fill('a wrong passphrase');
  await replace.click();
  await page.getByRole('alert').getByText(/The passphrase does not open the secrets/).waitFor({ timeout: 30_000 });
  await call('GET', '/api/agents/later');

  await row('upload-').getByRole('button', { name: /^Actions for/ }).click();
  await page.getByRole('menuitem', { name: 'Restore' }).click();
  await dialog().getByLabel(/^Type upload-/).fill(name);
  await dialog().getByLabel('Passphrase').fill(PASSPHRASE);
  await replace.click();
  await page.getByRole('status').getByText(`${name} restored.`).waitFor({ timeout: 60_000 });
  await page.getByText('You don’t need to enter anything again.').waitFor();
  const agents = (await call('GET', '/api/agents')).agents.map(({ svc_name }) => svc_name);
  assert.deepEqual(agents, ['ada']);
});

test('an import lists unchanged safety settings and applies them on request', async () => {
  const file = { settings: { interface: { show_token_usage: true }, sandbox: { backend: 'none' }, security: { allowed_hosts: ['169.254.169.254'] } } };
  await show('/settings/data');
  const input = page.getByLabel('Import settings');
  await input.setInputFiles({ name: 'settings.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(file)) });
  await dialog().getByRole('button', { name: 'Import settings' }).click();
  await dialog().getByText('Safety settings were not changed').waitFor();
  await dialog().getByText('sandbox.backend').waitFor();
  await dialog().getByText(/auto → none/).waitFor();
  assert.equal(await dialog().getByText('Weaker').count(), 2);
  assert.deepEqual(await axe(page), []);
  assert.equal((await call('GET', '/api/sandbox/config')).backend, 'auto');

  await dialog().getByRole('button', { name: 'Apply anyway' }).click();
  const password = page.getByRole('dialog', { name: 'Confirm your password' });
  const weakened = page.getByRole('dialog', { name: 'These safety settings are now weaker' });
  await password.or(weakened).first().waitFor();
  if (await password.isVisible()) await it.confirmPassword();
  await dialog().getByText('These safety settings are now weaker').waitFor();
  await dialog().getByText('security.allowed_hosts').waitFor();
  await dialog().getByRole('button', { name: 'Close' }).last().click();
  assert.equal((await call('GET', '/api/sandbox/config')).backend, 'none');
  await call('PUT', '/api/sandbox/config', { backend: 'auto' });
  await call('PUT', '/api/settings/security', { allowed_hosts: [] });
});

test('a custom tool is validated, created, edited and deleted', async () => {
  await show('/settings/custom');
  await page.getByRole('button', { name: 'New tool' }).click();
  await dialog().getByLabel('Name', { exact: true }).fill('shout');
  await dialog().getByLabel('Description').fill('Says it in capitals.');
  await dialog().getByLabel(/^Input/).fill('[]');
  await dialog().getByLabel('Code').fill('def run(input):\n    return input["text"].upper()');
  await dialog().getByRole('button', { name: 'Create' }).click();
  await dialog().getByText('Not a valid JSON object.').waitFor();
  await dialog().getByLabel(/^Input/).fill('{"type": "object", "properties": {"text": {"type": "string"}}}');
  await dialog().getByRole('button', { name: 'Create' }).click();
  await row('shout').waitFor();
  const [tool] = (await call('GET', '/api/settings/skills/custom')).tools;
  assert.deepEqual([tool.kind, tool.source_code], ['python', 'def run(input):\n    return input["text"].upper()']);
  await page.getByRole('button', { name: 'Actions for shout' }).click();
  await page.getByRole('menuitem', { name: 'Edit' }).click();
  await dialog().getByLabel('Type').selectOption('http');
  await dialog().getByLabel('URL').fill('https://shout.example/{{input.text}}');
  await dialog().getByLabel(/^Secret headers/).fill('{"Authorization": "Bearer abc"}');
  await dialog().getByRole('button', { name: 'Save' }).click();
  await row('HTTP request').waitFor();
  assert.deepEqual((await call('GET', '/api/settings/skills/custom')).tools[0].request.secret_headers, { authorization: { set: true } });
  await page.getByRole('button', { name: 'Actions for shout' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No custom tools yet').waitFor();
});

test('the section list on a phone asks before discarding unsaved changes', async () => {
  await page.setViewportSize(PHONE);
  await show('/settings/profile');
  const sections = page.getByRole('combobox', { name: 'Settings sections' });
  await page.getByLabel('Display name').fill('Somebody else');
  await sections.selectOption({ label: 'Interface' });
  await dialog().getByText('Leave without saving?').waitFor();
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  await page.waitForFunction(() => document.querySelector('select').value === 'profile');
  await sections.selectOption({ label: 'Interface' });
  await dialog().getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('heading', { level: 1, name: 'Interface' }).waitFor();
  assert.ok(page.url().endsWith('/settings/interface'), page.url());
  await page.setViewportSize(DESKTOP);
});

test('the backup schedule can be changed', async () => {
  await show('/settings/backup');
  await page.getByLabel('Automatic backups').selectOption('daily');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved', { exact: true }).waitFor();
  assert.equal((await call('GET', '/api/settings/backup')).schedule, 'daily');
  await call('PUT', '/api/settings/backup', { schedule: 'off' });
});

const VIEWS = ['/settings/sessions', '/settings/backup'];
test('sessions and backup conform to WCAG 2.2 AA without overflow', async () => {
  assert.deepEqual(await checkViews(it, VIEWS), []);
});

test('sessions and backup are reachable by Tab', async () => {
  assert.deepEqual(await checkTabOrder(it, VIEWS), []);
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
