// The daemon's browser: live view, control, requests, recordings and sign-ins. Drives a real Chromium.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { axe, begin, DESKTOP, PHONE, checkTabOrder } from './harness.js';

let site;
let it;
let call, dialog, page, row, show;

/** Starts a shop whose order button can be replaced or removed. */
function startSite() {
  const state = { button: '<button id="order">Order</button>', ordered: [] };
  const shop = () => `<!doctype html><title>Coffee \u202eshop</title>
    <form onsubmit="event.preventDefault(); fetch('/api/order?of=' + encodeURIComponent(who.value + ' ' + secret.value)).then((answer) => answer.text()).then((text) => (said.textContent = text))">
      <label>Name <input id="who"></label> <label>Password <input id="secret" type="password"></label>
      <label>Size <select id="size"><option>Small</option><option>Large</option></select></label>
      ${state.button} <output id="said"></output>
    </form>
    <p><button onclick="document.title = prompt('Which title?')">Rename</button> <a href="/about" target="_blank">About us</a></p>
    <div style="height: 3000px"></div>
    <script>
      addEventListener('scroll', () => (document.title = 'Scrolled ' + (scrollY > 100)));
      document.cookie = 'visit=1'; localStorage.visit = 1;
    </script>`;
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://site');
    const send = (status, type, body) => response.writeHead(status, { 'Content-Type': type }).end(body);
    if (pathname === '/') send(200, 'text/html; charset=utf-8', shop());
    else if (pathname === '/pad') send(200, 'text/html', '<!doctype html><title>Pad</title><div onclick="document.title = `Clicked ${Math.round((event.clientX / innerWidth) * 100)}`" ondblclick="document.title = `Twice`" oncontextmenu="document.title = `Menu`" style="position: fixed; inset: 0"></div>');
    else if (pathname === '/three') send(200, 'text/html', `<!doctype html><title>Three</title>${['First', 'Second', 'Third'].map((name) => `<p><button id="${name}" onclick="document.title = this.id; this.remove()">${name}</button></p>`).join('')}`);
    else if (pathname === '/about') send(200, 'text/html', '<!doctype html><title>About us</title><h1>About us</h1>');
    else if (pathname === '/api/order') {
      state.ordered.push(searchParams.get('of'));
      send(200, 'text/plain', 'Thank you');
    } else send(404, 'text/plain', 'no');
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(Object.assign(state, { url: `http://127.0.0.1:${server.address().port}/`, stop: () => server.close() }))));
}

const act = (action, fields) => call('POST', '/api/browser/action', { action, ...fields });

before(async () => {
  [site, it] = await Promise.all([startSite(), begin()]);
  ({ call, dialog, page, row, show } = it);
  await call('PUT', '/api/providers/openai/key', { api_key: 'any', base_url: site.url, default_model: 'fake-model' });
  await call('PUT', '/api/settings/agent', { default_provider: 'openai' });
  await call('PUT', '/api/browser/config', { ssrf_allowlist: ['127.0.0.1'], stream_fps: 2 });
});

after(async () => {
  await it?.end();
  site?.stop();
});

const frame = () => page.getByRole('application');
/** Waits until `check` holds. */
async function until(check, message) {
  for (const end = Date.now() + 10_000; ; ) {
    if (await check()) return;
    assert.ok(Date.now() < end, message);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
const titled = (title) => until(async () => (await call('GET', '/api/browser/tabs')).tabs.some((tab) => tab.title === title), `no tab is titled ${title}`);

test('the view without Chromium explains how to install it', async () => {
  const problem = 'the browser is unavailable: Chromium not found; install Chromium (`apt-get install chromium` on Debian)';
  await page.route('**/api/settings/skills/builtin', (route) => route.fulfill({ json: { tools: [{ name: 'browser_open', description: '', effect: 'acts', enabled: true, available: false, problem }], total: 1 } }));
  await show('/browser');
  await page.getByRole('alert').getByText(problem).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.unroute('**/api/settings/skills/builtin');
  await page.route('**/api/browser/status', (route) => route.fulfill({ status: 404, json: { error: 'Path not found', code: 'not_found', fields: [] } }));
  await show('/browser');
  await page.getByText('Browser not available').waitFor();
  await page.unroute('**/api/browser/status');
});

test('a page is opened, shown live, and controlled by keys, wheel and the element list', async () => {
  await show('/browser');
  await page.getByText('No page open').waitFor();
  await page.getByLabel('Address').fill(site.url.replace('http://', ''));
  await page.getByLabel('Address').press('Enter');
  await page.locator('main canvas:visible').waitFor();
  // Direction marks in a title are shown escaped.
  await page.getByRole('list', { name: 'Tabs' }).getByText('Coffee \\u{202e}shop').waitFor();
  const colours = () => page.locator('main canvas').evaluate((canvas) => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, 200).data).size);
  await until(async () => (await colours()) > 4, 'the canvas is empty');

  await page.keyboard.press('Escape');
  assert.equal(await frame().count(), 0);
  await page.getByRole('button', { name: 'Take control' }).click();
  await page.getByText('You’re in control.').waitFor();
  await page.getByRole('button', { name: 'Type into Name' }).click();
  await page.getByLabel('Text for Name').fill('Ada');
  await page.getByLabel('Text for Name').press('Enter');
  await page.getByText('value "Ada"').waitFor();
  // Tab and the shortcut `g` go to the controlled page.
  await frame().focus();
  await page.keyboard.press('Tab');
  await page.keyboard.type('g?');
  await page.keyboard.press('Enter');
  await until(() => site.ordered.includes('Ada g?'), `ordered: ${site.ordered}`);
  await frame().hover();
  await page.mouse.wheel(0, 400);
  await titled('Scrolled true');
  assert.equal(await page.evaluate(() => scrollY + document.querySelector('main').scrollTop), 0);

  await page.getByRole('button', { name: 'Click Rename' }).click();
  await page.getByText('Which title?').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByLabel('Answer').fill('Renamed');
  await page.getByRole('button', { name: 'OK', exact: true }).click();
  await titled('Renamed');
  await frame().focus();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await frame().waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Take control' }).waitFor();
});

test('clicks in the live view hit the same position of the page', async () => {
  await act('goto', { url: `${site.url}pad` });
  await titled('Pad');
  await page.getByRole('button', { name: 'Take control' }).click();
  const { x, y, width, height } = await page.locator('main canvas').boundingBox();
  await page.mouse.click(x + width * 0.25, y + height / 2);
  await titled('Clicked 25');
  await page.mouse.dblclick(x + width * 0.75, y + height / 2);
  await titled('Twice');
  await page.mouse.click(x + width / 2, y + height / 2, { button: 'right' });
  await titled('Menu');
  await page.getByRole('button', { name: 'Release control' }).click();
  await act('goto', { url: site.url });
});

test('clicks and keys are sent in order, and releasing control drops pending ones', async () => {
  await act('goto', { url: `${site.url}pad` });
  await titled('Pad');
  const sent = [];
  await page.route('**/api/browser/action', async (route) => {
    const { action, key, selector } = route.request().postDataJSON();
    sent.push(key ?? `${action} ${Math.round(Number(/=(\d+)/.exec(selector)[1]) / 10)}`);
    await route.continue();
  });
  const take = () => page.getByRole('button', { name: 'Take control' }).click();
  await take();
  const { x, y, width, height } = await page.locator('main canvas').boundingBox();
  const at = (percent) => [x + (width * percent) / 100, y + height / 2];
  await page.mouse.click(...at(21));
  await page.mouse.click(...at(61));
  await page.keyboard.press('x');
  await until(() => sent.length === 3, `sent: ${sent}`);
  // The second click of a slow double click, after the first was sent.
  await page.mouse.click(...at(31));
  await until(() => sent.length === 4, `sent: ${sent}`);
  await page.mouse.down({ clickCount: 2 });
  await page.mouse.up({ clickCount: 2 });
  await until(() => sent.length === 5, `sent: ${sent}`);
  await page.evaluate(([clientX, clientY]) => {
    document.querySelector('main canvas').dispatchEvent(new MouseEvent('click', { clientX, clientY, detail: 1, bubbles: true }));
    [...document.querySelectorAll('button')].find(({ textContent }) => textContent.includes('Release control')).click();
  }, at(81));
  await take();
  await page.mouse.click(...at(51));
  await until(() => sent.some((one) => one.endsWith(' 5')), `sent: ${sent}`);
  assert.deepEqual(sent, ['click 2', 'click 6', 'x', 'click 3', 'click 3', 'click 5']);
  await page.unroute('**/api/browser/action');
  await page.getByRole('button', { name: 'Release control' }).click();
  await act('goto', { url: site.url });
});

test('the element list acts on the named element after renumbering, and ignores outdated snapshots', async () => {
  await act('goto', { url: `${site.url}three` });
  await titled('Three');
  await page.getByRole('button', { name: 'Take control' }).click();
  await page.getByRole('button', { name: 'Click Third' }).waitFor();
  const waiting = [];
  let holds = true;
  await page.route('**/api/browser/snapshot*', (route) => void (holds ? waiting.push(route) : route.continue()));
  await act('click', { selector: '#First' });
  await until(() => waiting.length, 'no new snapshot was requested');
  // Another snapshot renumbers the elements: @2 is now the third.
  await call('GET', '/api/browser/snapshot');
  await page.getByRole('button', { name: 'Click Second' }).click();
  await titled('Second');
  await until(() => waiting.length > 1, 'no new snapshot was requested');
  holds = false;
  await waiting.pop().continue();
  await page.getByRole('button', { name: 'Click Second' }).waitFor({ state: 'detached' });
  await Promise.all([page.waitForResponse(/snapshot/), waiting[0].fulfill({ json: { snapshot: '@1 button "Old"', element_count: 1, url: '', truncated: false } })]);
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.equal(await page.getByRole('button', { name: 'Click Old' }).count(), 0);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.getByRole('button', { name: 'Release control' }).click();
  await act('goto', { url: site.url });
});

test('typed keys go to the tab that was shown when they were pressed', async () => {
  const listed = async () => (await call('GET', '/api/browser/tabs')).tabs;
  const first = (await listed()).find(({ active }) => active).tab_id;
  const sent = [];
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route('**/api/browser/action', async (route) => {
    if (sent.push(route.request().postDataJSON()) === 1) await held;
    await route.continue();
  });
  await page.getByRole('button', { name: 'Take control' }).click();
  await frame().focus();
  await page.keyboard.type('abc');
  await until(() => sent.length === 1, 'nothing was sent');
  const second = (await call('POST', '/api/browser/tabs', { url: `${site.url}about` })).tab_id;
  await page.locator('[aria-current=true]').getByText('About us').waitFor();
  release();
  await page.keyboard.press('d');
  await until(() => sent.length > 1, 'no further key was sent');
  assert.deepEqual(sent.map(({ key, tab_id }) => [key, tab_id]), [['a', first], ['d', second]]);
  await page.unroute('**/api/browser/action');
  await page.getByRole('button', { name: 'Release control' }).click();
  await call('DELETE', `/api/browser/tabs/${second}`);
  await page.getByRole('list', { name: 'Tabs' }).getByText('About us').waitFor({ state: 'detached' });
});

test('a page dialog is shown and answered in its own tab', async () => {
  const tabs = page.getByRole('list', { name: 'Tabs' });
  await page.getByRole('button', { name: 'Take control' }).click();
  await page.getByRole('button', { name: 'Click Rename' }).click();
  await page.getByText('Which title?').waitFor();
  const second = (await call('POST', '/api/browser/tabs', { url: `${site.url}about` })).tab_id;
  await page.locator('[aria-current=true]').getByText('About us').waitFor();
  await page.getByText('Which title?').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Reload', exact: true }).click();
  await tabs.getByRole('button').first().click();
  await page.getByLabel('Answer').fill('Asked');
  await page.getByRole('button', { name: 'OK', exact: true }).click();
  await titled('Asked');
  await page.getByText('Which title?').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Release control' }).click();
  await call('DELETE', `/api/browser/tabs/${second}`);
  await tabs.getByText('About us').waitFor({ state: 'detached' });
  await act('goto', { url: site.url });
});

test('tabs and popups are listed, selected and closed, and a blocked address is reported', async () => {
  await act('click', { selector: 'text=About us' });
  const tabs = page.getByRole('list', { name: 'Tabs' });
  await tabs.getByText('About us').waitFor();
  await tabs.getByRole('button', { name: 'About us', exact: true }).click();
  await page.waitForFunction((url) => document.querySelector('main form input').value === url, `${site.url}about`);
  await page.getByRole('button', { name: 'Close About us' }).click();
  await tabs.getByText('About us').waitFor({ state: 'detached' });
  await page.getByLabel('Address').fill('http://169.254.169.254/');
  await page.getByLabel('Address').press('Enter');
  await page.getByRole('alert').getByText(/ssrf_allowlist/).waitFor();
});

test('requests are listed live, filtered, mocked, and recorded as a HAR', async () => {
  await show('/browser/requests?type=fetch');
  await row('/api/order').first().waitFor();
  await page.getByLabel('Type').selectOption('');
  await row('document').first().waitFor();
  await page.getByLabel('URL contains').fill('/api/order');
  await row('document').first().waitFor({ state: 'detached' });
  await row('/api/order').first().getByRole('button').click();
  await dialog().getByText('text/plain').waitFor();
  await dialog().getByRole('button', { name: 'Mock this request' }).click();
  await dialog().getByLabel('Body').fill('Sold out');
  await dialog().getByLabel('Status').fill('503');
  await dialog().getByLabel('Headers').fill('Cache-Control no-store');
  await dialog().getByRole('button', { name: 'Add' }).click();
  await dialog().getByText('use “Name: value”: Cache-Control no-store').waitFor();
  await dialog().getByLabel('Headers').fill('Cache-Control: no-store\n');
  await dialog().getByRole('button', { name: 'Add' }).click();
  await dialog().getByRole('list', { name: 'Mocks' }).getByText('Sold out').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Record HAR' }).click();
  const end = page.getByRole('button', { name: 'Stop and download HAR' });
  await end.waitFor();
  await page.getByLabel('URL contains').fill(`${site.url}api/order`);
  const before = site.ordered.length;
  await act('goto', { url: site.url });
  await act('click', { selector: '#order' });
  // The list updates live.
  await row('mock').getByText('503').waitFor();
  assert.equal(site.ordered.length, before);
  const [download] = await Promise.all([page.waitForEvent('download'), end.click()]);
  const har = JSON.parse(await readFile(await download.path(), 'utf8'));
  assert.ok(har.log.entries.some(({ response }) => response.content.text === 'Sold out'));
  await page.getByRole('button', { name: 'Mocks' }).click();
  await dialog().getByRole('button', { name: /^Remove mock for/ }).click();
  await page.getByText('Mock removed.').waitFor();
  assert.equal((await call('GET', '/api/browser/mock')).total, 0);
});

test('a recording has screenshots but no secrets, and its replay reports page changes', async () => {
  await show('/browser/recordings');
  await page.getByText('No recordings yet').waitFor();
  await page.getByRole('button', { name: 'Record' }).click();
  await dialog().getByLabel('Name').fill('Order <img src=x onerror="window.harmed=1">');
  await dialog().getByRole('button', { name: 'Record' }).click();
  await page.getByRole('button', { name: 'Stop (0 steps)' }).waitFor();
  await act('goto', { url: site.url });
  await act('type_text', { selector: '#who', text: 'Grace' });
  await act('type_text', { selector: '#secret', text: 'hunter2' });
  await act('click', { selector: '#order' });
  await page.getByRole('button', { name: 'Stop (4 steps)' }).click();
  await page.getByText('4 steps recorded').waitFor();
  await row('Order <img').getByRole('button').click();
  const steps = dialog().getByRole('list', { name: 'Steps' }).locator('> li');
  await steps.nth(3).getByText('click button "Order"').waitFor();
  await until(() => dialog().locator('img').first().evaluate((image) => image.complete && image.naturalWidth > 100), 'the first step has no screenshot');
  assert.doesNotMatch(await dialog().innerText(), /hunter2/);
  assert.deepEqual(await axe(page), []);

  const replay = async () => {
    await dialog().getByRole('button', { name: 'Replay' }).first().click();
    await dialog().getByLabel('Secret 1').fill('hunter2');
    await dialog().getByLabel('Secret 1').press('Enter');
  };
  const done = () => site.ordered.filter((of) => of === 'Grace hunter2').length;
  const before = done();
  await replay();
  await dialog().getByText('All 4 steps replayed.').waitFor();
  await until(() => done() === before + 1, 'the replay did not order');
  site.button = '<p><button id="buy">Order</button></p>';
  await replay();
  await dialog().getByText('1 step differs from the recorded page.').waitFor();
  await steps.nth(3).getByText('Done, page changed').waitFor();
  site.button = '';
  await replay();
  await dialog().getByText('Step 4 failed.').waitFor({ timeout: 30_000 });
  await dialog().getByAltText('Page when the step failed').waitFor();
  assert.deepEqual(await axe(page), []);

  await dialog().getByRole('button', { name: 'Create video' }).click();
  await dialog().locator('video').waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), dialog().getByRole('button', { name: /^Download \(/ }).click()]);
  assert.match((await readFile(await download.path())).subarray(0, 64).toString('latin1'), /ftyp/);
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('sign-ins are saved and restored after confirmation', async () => {
  await act('goto', { url: site.url });
  await show('/browser/signins');
  await page.getByText('No saved sign-ins yet').waitFor();
  await page.getByRole('button', { name: 'Save sign-in' }).click();
  await dialog().getByLabel('Name').fill('shop');
  await dialog().getByRole('button', { name: 'Save' }).click();
  await row('shop').getByText(/1 cookie · storage for 1 site/).waitFor();
  await call('DELETE', '/api/browser/cookies');
  await row('shop').getByRole('button', { name: 'Restore shop' }).click();
  await dialog().getByRole('button', { name: 'Restore' }).click();
  await page.getByText('Sign-in restored. Reload open pages.').waitFor();
  assert.equal((await call('GET', '/api/browser/cookies')).cookies[0].name, 'visit');
});

test('the live view is not streamed while the page is hidden', async () => {
  const sockets = [];
  page.on('websocket', (socket) => void (new URL(socket.url()).pathname === '/api/browser/stream' && sockets.push(socket)));
  await show('/browser');
  await page.locator('main canvas:visible').waitFor();
  const see = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  const frames = () => page.locator('[data-frames]').getAttribute('data-frames');
  await see(true);
  await until(() => sockets.length === 1 && sockets[0].isClosed(), 'the stream is still open');
  const before = Number(await frames());
  await see(false);
  await until(async () => Number(await frames()) > before, 'the stream did not resume');
  assert.equal(sockets.length, 2);
});

for (const [size, viewport] of [['desktop', DESKTOP], ['phone', PHONE]]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`the browser view conforms to WCAG 2.2 AA without overflow: ${size}, ${colorScheme}`, async () => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      const violations = [];
      const check = async (view) => {
        violations.push(...(await axe(page)).map((line) => `${view} ${line}`));
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (overflow > 0 || (await fits()) > 0) violations.push(`${view} is wider than the window`);
      };
      const fits = () => page.locator('main').evaluate((main) => main.scrollWidth - main.clientWidth);
      const { recordings } = await call('GET', '/api/browser/recordings');
      for (const view of ['/browser', '/browser/requests', '/browser/recordings', `/browser/recordings?recording=${recordings[0].recording_id}`, '/browser/signins']) {
        await show(view);
        await check(view);
      }
      await show('/browser');
      await page.locator('main canvas:visible').waitFor();
      await page.getByRole('button', { name: 'Take control' }).click();
      await page.getByRole('button', { name: 'Click Rename' }).waitFor();
      await check('in control');
      await page.getByRole('button', { name: 'Release control' }).click();
    });
  }
}

test('the browser view is reachable by Tab, and a recording is deleted only after confirmation', async () => {
  await page.emulateMedia({ colorScheme: 'light' });
  const { recordings } = await call('GET', '/api/browser/recordings');
  const opened = `/browser/recordings?recording=${recordings[0].recording_id}`;
  assert.deepEqual(await checkTabOrder(it, ['/browser', '/browser/requests', '/browser/recordings', opened, '/browser/signins']), []);
  await show('/browser/recordings');
  await row('Order <img').getByRole('button').click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No recordings yet').waitFor();
});

test('the browser is closed after confirmation, and the view shows the next page', async () => {
  await show('/browser');
  await page.locator('main canvas:visible').waitFor();
  await page.getByRole('button', { name: 'Close browser' }).click();
  await dialog().getByRole('button', { name: 'Close browser' }).click();
  await page.getByText('No page open').waitFor();
  await act('goto', { url: site.url });
  await page.locator('main canvas:visible').waitFor();
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
