// Devices: paired by a code, seen, and removed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { encode } from 'uqr';
import { axe, begin, lookAt, program, walkThrough } from './harness.js';

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

test('a device is paired by the code that is shown, and is there without a reload', async () => {
  await it.show('/devices');
  await page.getByRole('heading', { name: 'No device yet' }).waitFor();
  await page.getByRole('button', { name: 'Pair a device' }).click();
  await it.dialog().getByLabel('Name of the device').fill("Ada's bench");
  await it.dialog().getByLabel('Address of this daemon').fill('https://agents.example.com');
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

  // What no code holds is said, and the one before does not stay.
  await it.dialog().getByLabel('Address of this daemon').fill(`https://${'a'.repeat(2040)}`);
  await it.dialog().getByLabel('Name of the device').fill("'".repeat(64));
  await it.dialog().getByText('This is too long for a QR code.').waitFor();
  assert.equal(await drawing.count(), 0);
  await it.dialog().getByLabel('Name of the device').fill('bench');
  await drawing.waitFor();

  device = spawn(program, ['device', 'join', it.daemon.direct, code, '--name', 'workshop', '--allow-shell', '--no-sandbox', '--state', folder], { stdio: 'ignore' });
  await it.dialog().getByText('workshop has joined').waitFor();
  await it.dialog().getByRole('button', { name: 'Done' }).click();
  const row = it.row('workshop');
  await row.getByText('connected', { exact: true }).waitFor();
  await row.getByText('1 tool').click();
  await row.getByText('device_workshop_shell').waitFor();
});

test('what a device says of itself stays text, and what is not known is not made up', async () => {
  const { code } = await it.call('POST', '/api/auth/device/code');
  await it.call('POST', '/api/auth/device/pair', { code, name: HOSTILE, platform: HOSTILE, metadata: { [HOSTILE]: HOSTILE } });
  await it.show('/devices');
  const row = it.row('evil.test');
  await row.getByText('was never connected').waitFor();
  await row.getByText('Details').click();
  assert.match(await row.locator('dd').last().innerText(), /^<img src="http:\/\/evil.test\/a.png" onerror="window.harmed=1">\\u\{202e\}gnp$/);
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('a device is removed only after a question, and its connection ends', async () => {
  const ended = new Promise((resolve) => device.once('exit', resolve));
  await it.show('/devices');
  const remove = async (answer) => {
    await page.getByRole('button', { name: 'Actions of workshop' }).click();
    await page.getByRole('menuitem', { name: 'Remove' }).click();
    await it.dialog().getByRole('button', { name: answer }).click();
  };
  await remove('Cancel');
  assert.equal((await it.call('GET', '/api/devices')).total, 2);
  await remove('Remove');
  await page.getByRole('button', { name: 'Actions of workshop' }).waitFor({ state: 'detached' });
  assert.equal((await it.call('GET', '/api/devices')).total, 1);
  await ended;
});

const VIEWS = ['/devices', '/devices?pair=1'];

test('devices keep to WCAG 2.2 AA and fit', async () => assert.deepEqual(await lookAt(it, VIEWS), []));
test('devices can be walked through by Tab', async () => assert.deepEqual(await walkThrough(it, VIEWS.slice(0, 1)), []));

test('nothing left the daemon, and no script failed', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
