// Pairing, listing and removing devices.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { encode } from 'uqr';
import { axe, begin, checkViews, program, checkTabOrder } from './harness.js';

const HOSTILE = '<img src="http://evil.test/a.png" onerror="window.harmed=1">\u202egnp';
const folder = mkdtempSync(join(tmpdir(), 'agentd-device-'));
let it;
let page;
let device;

before(async () => {
  it = await begin();
  page = it.page;
});
after(async () => {
  device?.kill('SIGKILL');
  await it?.end();
  rmSync(folder, { recursive: true, force: true });
});

test('a device is paired by code and appears without a reload', async () => {
  await it.show('/devices');
  await page.getByRole('heading', { name: 'No devices yet' }).waitFor();
  await page.getByRole('button', { name: 'Pair device' }).click();
  await it.dialog().getByLabel('Device name').fill("Ada's bench");
  await it.dialog().getByLabel('Address of this server').fill('https://agents.example.com');
  const drawing = it.dialog().getByRole('img', { name: /^QR code/ });
  await drawing.and(page.getByLabel(/agents\.example\.com/)).waitFor();
  const code = (await it.dialog().locator('code').first().innerText()).trim();
  assert.match(code, /^\d{6}$/);
  const command = `agentd device join https://agents.example.com ${code} --name 'Ada'\\''s bench' --allow-shell`;
  assert.equal((await it.dialog().locator('code').nth(1).innerText()).replace(/\s+/g, ' ').trim(), command);
  assert.equal(await drawing.getAttribute('aria-label'), `QR code of the command: ${command}`);
  const { data } = encode(command, { ecc: 'M', border: 3 });
  const dark = data.flat().filter(Boolean).length;
  assert.equal((await drawing.locator('path').getAttribute('d')).match(/M/g).length, dark);
  assert.deepEqual(await axe(page), []);

  // A command that is too long replaces the QR code by a message.
  await it.dialog().getByLabel('Address of this server').fill(`https://${'a'.repeat(2040)}`);
  await it.dialog().getByLabel('Device name').fill("'".repeat(64));
  await it.dialog().getByText('The command is too long for a QR code.').waitFor();
  assert.equal(await drawing.count(), 0);
  await it.dialog().getByLabel('Device name').fill('bench');
  await drawing.waitFor();

  device = spawn(program, ['device', 'join', it.daemon.direct, code, '--name', 'workshop', '--allow-shell', '--no-sandbox', '--state', folder], { stdio: 'ignore' });
  await it.dialog().getByText('workshop is connected').waitFor();
  await it.dialog().getByRole('button', { name: 'Done' }).click();
  const row = it.row('workshop');
  await row.getByText('Connected', { exact: true }).waitFor();
  await row.getByText('1 tool').click();
  await row.getByText('device_workshop_shell').waitFor();
});

test('device metadata is not interpreted as markup', async () => {
  const { code } = await it.call('POST', '/api/auth/device/code');
  await it.call('POST', '/api/auth/device/pair', { code, name: HOSTILE, platform: HOSTILE, metadata: { [HOSTILE]: HOSTILE } });
  await it.show('/devices');
  const row = it.row('evil.test');
  await row.getByText('Never connected').waitFor();
  await row.getByText('Details').click();
  assert.match(await row.locator('dd').last().innerText(), /^<img src="http:\/\/evil.test\/a.png" onerror="window.harmed=1">\\u\{202e\}gnp$/);
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('a device is removed only after confirmation, and its connection is closed', async () => {
  const ended = new Promise((resolve) => device.once('exit', resolve));
  await it.show('/devices');
  const remove = async (answer) => {
    await page.getByRole('button', { name: 'Actions for workshop' }).click();
    await page.getByRole('menuitem', { name: 'Remove' }).click();
    await it.dialog().getByRole('button', { name: answer }).click();
  };
  await remove('Cancel');
  assert.equal((await it.call('GET', '/api/devices')).total, 2);
  await remove('Remove');
  await page.getByRole('button', { name: 'Actions for workshop' }).waitFor({ state: 'detached' });
  assert.equal((await it.call('GET', '/api/devices')).total, 1);
  await ended;
});

const VIEWS = ['/devices', '/devices?pair=1'];

test('devices conform to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, VIEWS), []));
test('devices are reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, VIEWS.slice(0, 1)), []));

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
