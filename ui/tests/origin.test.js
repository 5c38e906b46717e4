// A server on another port of the daemon's host name receives the session cookie and can set cookies: it must gain nothing.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { begin, PASSWORD } from './harness.js';

const TOKEN = /svc_session=(sess_[0-9a-f]{64})/;
/** Cookie paths that cover the requests of the owner's page, including the session's own. */
const PLANTED = ['/', '/api', '/api/', '/api/auth', '/api/auth/', '/api/auth/login', '/api/chat', '/api/chat/', '/api/chat/conversations'];

let it;
let page;
let hostile;
let received = [];

before(async () => {
  it = await begin();
  page = it.page;
  const server = createServer((request, response) => {
    received.push(request.headers.cookie ?? '');
    const paths = request.url === '/plant-some' ? ['/api', '/api/'] : request.url === '/plant' ? PLANTED : [];
    const planted = paths.map((path) => `svc_session=sess_${'0'.repeat(64)}; Path=${path}; HttpOnly`);
    response.writeHead(200, { 'Content-Type': 'text/html', 'Set-Cookie': planted }).end('<!doctype html><title>A neighbour</title><form method="post" enctype="text/plain"><input name="x"></form>');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  hostile = { url: `http://127.0.0.1:${server.address().port}`, stop: () => (server.close(), server.closeAllConnections()) };
});
after(async () => {
  hostile?.stop();
  await it?.end();
});

const keyNames = async () => (await it.call('GET', '/api/auth/keys')).keys.map(({ name }) => name).sort();

/** Opens the neighbouring server in another tab of the owner's browser. */
async function visit(path = '/') {
  const tab = await it.context.newPage();
  await tab.goto(hostile.url + path);
  return tab;
}

async function signInAgain() {
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('Username').fill('owner');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('the cookie that a neighbouring port receives opens nothing from its server', async () => {
  await it.show('/settings/keys');
  await (await visit()).close();
  const [, token] = received.at(-1).match(TOKEN) ?? [];
  assert.ok(token, `the neighbour received ${JSON.stringify(received)}`);
  const Cookie = `svc_session=${token}`;
  const attempts = [
    { Cookie },
    { Cookie, 'X-Svc-Csrf': '1' },
    { Cookie, 'X-Svc-Csrf': '1', 'X-Svc-Page': token },
    { Cookie, 'X-Svc-Csrf': '1', 'X-Svc-Page': `page_${'0'.repeat(64)}` },
    { Cookie, 'X-Svc-Csrf': '1', Origin: it.daemon.url, 'Sec-Fetch-Site': 'same-origin' },
    { Authorization: `Bearer ${token}` },
    { 'X-API-Key': token },
  ];
  for (const headers of attempts) {
    for (const path of ['/api/agents', '/api/settings/export', '/v1/models', '/api/events/stream']) {
      const response = await fetch(it.daemon.direct + path, { headers });
      await response.body?.cancel();
      assert.ok([401, 404].includes(response.status), `${path} with ${Object.keys(headers)}: ${response.status}`);
    }
    for (const path of ['/api/auth/keys', '/api/auth/ticket', '/api/auth/reauthenticate']) {
      const response = await fetch(it.daemon.direct + path, { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify({ name: 'stolen', password: PASSWORD }) });
      assert.ok([401, 403].includes(response.status), `${path} with ${Object.keys(headers)}: ${response.status}`);
    }
  }
  assert.deepEqual(await keyNames(), ['page']);
});

test('a page of a neighbouring port opens nothing from the owner’s browser', async () => {
  const tab = await visit();
  const statuses = [];
  tab.on('response', (response) => {
    if (response.url().startsWith(it.daemon.url)) statuses.push(response.status());
  });
  const outcome = await tab.evaluate(async (daemon) => {
    const read = (path, init) => fetch(daemon + path, { credentials: 'include', ...init }).then((response) => response.text(), () => 'blocked');
    const json = { 'Content-Type': 'application/json' };
    const found = {
      read: await read('/api/agents'),
      create: await read('/api/auth/keys', { method: 'POST', headers: { ...json, 'X-Svc-Csrf': '1' }, body: '{"name":"stolen"}' }),
      signIn: await read('/api/auth/login', { method: 'POST', headers: json, body: '{"username":"owner","password":"correct horse battery","cookie":true}' }),
    };
    // Requests that need no preflight; the response cannot be read.
    await fetch(`${daemon}/api/agents`, { mode: 'no-cors', credentials: 'include' });
    await fetch(`${daemon}/api/auth/keys`, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"name":"stolen"}' });
    await new Promise((resolve) => Object.assign(new Image(), { onload: resolve, onerror: resolve, src: `${daemon}/api/agents` }));
    found.socket = await new Promise((resolve) => {
      const socket = new WebSocket(`${daemon.replace('http', 'ws')}/api/browser/stream`);
      socket.onopen = () => resolve('open');
      socket.onerror = () => resolve('blocked');
    });
    const frame = Object.assign(document.createElement('iframe'), { src: daemon });
    await new Promise((resolve) => ((frame.onload = resolve), document.body.append(frame)));
    try {
      found.frame = frame.contentWindow.localStorage.getItem('page-secret');
    } catch {
      found.frame = 'blocked';
    }
    return found;
  }, it.daemon.url);
  assert.deepEqual(outcome, { read: 'blocked', create: 'blocked', signIn: 'blocked', socket: 'blocked', frame: 'blocked' });
  // A form submitted as a navigation.
  await tab.evaluate((daemon) => {
    document.forms[0].action = `${daemon}/api/auth/keys`;
    document.forms[0].x.name = '{"name":"stolen","x":"';
    document.forms[0].x.value = '"}';
  }, it.daemon.url);
  const [answer] = await Promise.all([tab.waitForResponse(`${it.daemon.url}/api/auth/keys`), tab.evaluate(() => document.forms[0].submit())]);
  assert.equal(answer.status(), 401);
  assert.ok(statuses.length >= 4, `${statuses}`);
  assert.deepEqual(statuses.filter((status) => ![401, 403, 204, 200].includes(status)), []);
  await tab.close();
  assert.deepEqual(await keyNames(), ['page']);
  await it.show('/settings/keys');
});

test('cookies that a neighbouring port sets beside the session do no harm', async () => {
  await (await visit('/plant-some')).close();
  const sent = (await it.context.cookies(`${it.daemon.url}/api/agents`)).filter(({ name }) => name === 'svc_session');
  assert.equal(sent.length, 3);
  await it.show('/settings/sessions');
  await it.row('This device').waitFor();
  await it.show('/memory');
});

test('cookies that a neighbouring port sets in place of the session cannot lock the owner out', async () => {
  await (await visit('/plant')).close();
  await page.goto(`${it.daemon.url}/settings/keys`);
  await signInAgain();
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  // Cookies left for other paths no longer matter.
  await it.show('/chat');
  await page.getByRole('textbox', { name: /^Message to/ }).waitFor();
  await page.reload();
  await page.getByRole('textbox', { name: /^Message to/ }).waitFor();
});

test('a key is created only after the password was confirmed', async () => {
  await it.show('/settings/keys');
  const create = async (name) => {
    await page.getByRole('button', { name: 'Create key' }).click();
    await it.dialog().getByLabel('Name', { exact: true }).fill(name);
    await it.dialog().getByRole('button', { name: 'Create key' }).click();
  };
  await create('laptop');
  const asked = page.getByRole('dialog', { name: 'Confirm your password' });
  await asked.getByRole('textbox', { name: 'Password' }).fill('a wrong password');
  await asked.getByRole('button', { name: 'Confirm' }).click();
  await asked.getByText('Incorrect password.').waitFor();
  await asked.getByRole('button', { name: 'Cancel' }).click();
  await it.dialog().getByRole('alert').getByText(/Enter your password again/).waitFor();
  assert.deepEqual(await keyNames(), ['page']);
  await it.dialog().getByRole('button', { name: 'Create key' }).click();
  await it.confirmPassword();
  await page.getByText(/^svc_[0-9a-f]{64}$/).first().waitFor();
  assert.deepEqual(await keyNames(), ['laptop', 'page']);
});

test('signing in explains what to do when the browser sends no cookie', async () => {
  await it.show('/settings/sessions');
  await it.context.clearCookies();
  await page.reload();
  await page.route('**/api/health', async (route) => {
    await it.context.clearCookies();
    await route.continue();
  });
  await signInAgain();
  await page.getByRole('alert').getByText(/Allow cookies for 127\.0\.0\.1/).waitFor();
  await page.unroute('**/api/health');
  await signInAgain();
  await it.row('This device').waitFor();
});

test('the API documentation works under its own policy', async () => {
  await page.goto(`${it.daemon.url}/api/docs`);
  await page.locator('.opblock').first().waitFor({ timeout: 60_000 });
  await page.locator('.opblock-summary-control').first().click();
  await page.locator('.opblock-body').first().waitFor();
});

test('no script of the owner’s page failed, and no policy was violated', () => {
  assert.deepEqual(it.problems, []);
});
