// Push notifications: subscription, delivery, display and clicks.
import assert from 'node:assert/strict';
import { createDecipheriv, createECDH, hkdfSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { after, afterEach, before, test } from 'node:test';
import { axe, begin, DESKTOP, checkViews, PHONE, checkTabOrder } from './harness.js';
import { KEY, startProvider } from './provider.js';

let it;
let page;
let provider;
let service;
let worker;

/** Starts a push service that decrypts messages with the subscription's keys. */
async function startPushService() {
  const key = createECDH('prime256v1');
  key.generateKeys();
  const auth = randomBytes(16);
  const received = [];
  const waiting = [];
  const answers = [];
  const read = (body) => {
    const [salt, sender, record] = [body.subarray(0, 16), body.subarray(21, 86), body.subarray(86)];
    const hkdf = (secret, salt, info, length) => Buffer.from(hkdfSync('sha256', secret, salt, info, length));
    const info = Buffer.concat([Buffer.from('WebPush: info\0'), key.getPublicKey(), sender]);
    const input = hkdf(key.computeSecret(sender), auth, info, 32);
    const decipher = createDecipheriv('aes-128-gcm', hkdf(input, salt, 'Content-Encoding: aes128gcm\0', 16), hkdf(input, salt, 'Content-Encoding: nonce\0', 12));
    decipher.setAuthTag(record.subarray(-16));
    const content = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()]);
    return content.subarray(0, content.lastIndexOf(2)).toString();
  };
  const server = createServer(async (request, response) => {
    const pieces = await request.toArray();
    received.push(read(Buffer.concat(pieces)));
    response.writeHead(answers.shift() ?? 201).end();
    waiting.splice(0).forEach((call) => call());
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    subscription: { endpoint: `http://127.0.0.1:${server.address().port}/push/this`, keys: { p256dh: key.getPublicKey('base64url'), auth: auth.toString('base64url') } },
    answers,
    async next() {
      while (!received.length) await new Promise((resolve) => waiting.push(resolve));
      return received.shift();
    },
    stop: () => server.close(),
  };
}

/** Notifications that are displayed on the device. */
const shown = () => page.evaluate(async () => (await (await navigator.serviceWorker.getRegistration('/')).getNotifications()).map(({ title, body, tag, data }) => ({ title, body, tag, data })));

async function until(wanted) {
  for (const end = Date.now() + 15_000; ; ) {
    const now = await shown();
    if (wanted(now)) return now;
    assert.ok(Date.now() < end, `displayed: ${JSON.stringify(now)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

before(async () => {
  [provider, service, it] = await Promise.all([startProvider(), startPushService(), begin()]);
  ({ page } = it);
  await it.call('PUT', '/api/settings/security', { allowed_hosts: ['127.0.0.1'] });
  await it.call('PUT', '/api/providers/openai/key', { api_key: KEY, base_url: provider.url, default_model: 'fake-model' });
  await it.call('PUT', '/api/settings/agent', { default_provider: 'openai' });
});
after(async () => {
  await it?.end();
  provider?.stop();
  service?.stop();
});

// AGENTD_TEST_PICTURES is a folder for a final screenshot of each test.
afterEach(async (t) => {
  if (process.env.AGENTD_TEST_PICTURES) await page.screenshot({ path: `${process.env.AGENTD_TEST_PICTURES}/${t.name.replace(/\W+/g, '-')}.png` });
});

test('the switch explains why notifications are unsupported', async () => {
  await page.addInitScript(() => {
    if (sessionStorage.getItem('without')) Object.defineProperty(window, 'isSecureContext', { value: false });
  });
  await it.show('/settings/notifications');
  await page.evaluate(() => sessionStorage.setItem('without', '1'));
  await it.show('/settings/notifications');
  await page.getByText('Push notifications require HTTPS or localhost.').waitFor();
  assert.ok(await page.getByRole('switch', { name: 'Push notifications' }).isDisabled());
  await page.getByRole('heading', { name: 'No devices yet' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.evaluate(() => sessionStorage.clear());
});

// Chromium subscribes at Google's push service, which tests cannot reach, so the subscription is faked. The service
// worker, the permission, the messages and their display are real.
test('enabling notifications adds the device to the list', async () => {
  await it.context.grantPermissions(['notifications'], { origin: it.daemon.url });
  await page.addInitScript((given) => {
    let kept = sessionStorage.getItem('subscribed');
    const of = (key) => ({
      endpoint: given.endpoint,
      options: { applicationServerKey: Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0)).buffer },
      toJSON: () => given,
      unsubscribe: async () => {
        window.ended = true;
        sessionStorage.removeItem('subscribed');
        kept = null;
        return true;
      },
    });
    PushManager.prototype.getSubscription = async () => kept && of(kept);
    PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
      if (!userVisibleOnly || applicationServerKey.length !== 65) throw new DOMException('no key', 'InvalidAccessError');
      kept = btoa(String.fromCharCode(...applicationServerKey));
      sessionStorage.setItem('subscribed', kept);
      return of(kept);
    };
  }, service.subscription);
  await it.show('/settings/notifications');
  const on = page.getByRole('switch', { name: 'Push notifications' });
  assert.equal(await on.getAttribute('aria-checked'), 'false');
  await on.click();
  await it.row('This device').getByText('Chrome').waitFor();
  await page.getByRole('switch', { name: 'Push notifications', checked: true }).waitFor();
  const { subscriptions } = await it.call('GET', '/api/notifications/push/subscriptions');
  assert.equal(subscriptions.length, 1);
  assert.ok(!JSON.stringify(subscriptions).includes('/push/this'));
  worker = await page.evaluate(async () => (await navigator.serviceWorker.ready).active.scriptURL);
  assert.equal(new URL(worker).pathname, '/push-worker.js');
  const file = await page.request.get(worker);
  assert.equal(file.headers()['cache-control'], 'no-cache');
});

let registration;

/** Delivers a message to the service worker. The DevTools session stays open, because closing it may lose the message. */
async function push(data) {
  registration ??= await registered();
  await registration.cdp.send('ServiceWorker.deliverPushMessage', { origin: it.daemon.url, registrationId: registration.id, data });
}

async function registered() {
  // A worker that is still activating receives nothing.
  await page.waitForFunction(async () => (await navigator.serviceWorker.ready).active.state === 'activated');
  const cdp = await it.context.newCDPSession(page);
  const id = new Promise((resolve) => cdp.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
    const living = registrations.find(({ isDeleted }) => !isDeleted);
    if (living) resolve(living.registrationId);
  }));
  await cdp.send('ServiceWorker.enable');
  return { cdp, id: await id };
}

test('a test notification is shown by the service worker', async () => {
  await it.show('/settings/notifications');
  await page.getByRole('button', { name: /^Actions for Chrome/ }).click();
  await page.getByRole('menuitem', { name: 'Send test notification' }).click();
  const message = await service.next();
  await page.getByText('Test notification sent to').waitFor();
  await push(message);
  const [notification] = await until((now) => now.length === 1);
  for (const size of [PHONE, DESKTOP]) {
    await page.setViewportSize(size);
    if (process.env.AGENTD_TEST_PICTURES) await page.screenshot({ path: `${process.env.AGENTD_TEST_PICTURES}/notifications-${size.width}.png` });
  }
  assert.equal(notification.title, 'Push notifications work');
  assert.deepEqual(notification.data, { url: '/settings/notifications' });
});

test('an unreadable message is shown, and external links are ignored', async () => {
  await push('not json <img src=x onerror=alert(1)>');
  await push(JSON.stringify({ title: '<b>x</b>', body: 7, url: 'https://evil.test/', tag: 'evil' }));
  const now = await until((now) => now.length === 3);
  assert.ok(now.some(({ title, body }) => title === 'agentd' && body === ''));
  await click('evil');
  await page.waitForURL(`${it.daemon.url}/chat`);
});

/** Dispatches a click on a notification, which Playwright cannot do. */
async function click(tag) {
  const [running] = it.context.serviceWorkers();
  await running.evaluate(async (tag) => {
    const [notification] = await self.registration.getNotifications({ tag });
    try {
      self.dispatchEvent(new NotificationEvent('notificationclick', { notification }));
    } catch {
      // `waitUntil` is not allowed for untrusted events.
    }
  }, tag);
}

test('an approval notifies the device, a click opens it, and its answer closes the notification', async () => {
  const { id } = await it.call('POST', '/api/chat/conversations', { agent_id: 'ada', execution_mode: 'approval_required' });
  await it.show('/monitoring');
  await page.evaluate(([headers, id]) => void fetch('/api/chat/messages/stream', { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify({ conversation_id: id, content: 'write a file' }) }), [it.headers, id]);
  const message = await service.next();
  const asked = JSON.parse(message);
  assert.equal(asked.title, 'ada asks for approval');
  assert.equal(asked.body, 'May ada use write_file?');
  await push(message);
  await until((now) => now.some(({ tag }) => tag === asked.tag));
  await click(asked.tag);
  await page.waitForURL(it.daemon.url + asked.url);
  const card = page.locator('main li').filter({ hasText: 'write_file' });
  await card.waitFor();
  await page.waitForFunction(() => document.activeElement?.matches('main li') && document.activeElement.textContent.includes('write_file'));
  // Displayed again, as on another device.
  await push(message);
  await until((now) => now.some(({ tag }) => tag === asked.tag));
  await card.getByRole('button', { name: 'Reject' }).click();
  await until((now) => !now.some(({ tag }) => tag === asked.tag));
  const answered = JSON.parse(await service.next());
  assert.deepEqual([answered.tag, answered.close], [asked.tag, true], 'other devices still display it');
});

test('an approval answered elsewhere closes the notification without an open page', async () => {
  const { id } = await it.call('POST', '/api/chat/conversations', { agent_id: 'ada', execution_mode: 'approval_required' });
  // No page is open that could close the notification.
  await page.goto(`${it.daemon.url}/icon.svg`);
  const stream = page.request.post(`${it.daemon.url}/api/chat/messages/stream`, { data: { conversation_id: id, content: 'write a file' }, headers: it.headers, timeout: 60_000 });
  const asked = JSON.parse(await service.next());
  const [running] = it.context.serviceWorkers();
  const shownTo = (tag) => running.evaluate(async (tag) => (await self.registration.getNotifications({ tag })).map(({ title, silent }) => ({ title, silent })), tag);
  const untilWorker = async (wanted) => {
    for (const end = Date.now() + 15_000; ; ) {
      const now = await shownTo(asked.tag);
      if (wanted(now)) return;
      assert.ok(Date.now() < end, `displayed: ${JSON.stringify(now)}`);
    }
  };
  await push(JSON.stringify(asked));
  await untilWorker((now) => now[0]?.title === 'ada asks for approval');
  const { approvals } = await it.call('GET', '/api/chat/approvals?status=pending');
  await it.call('POST', `/api/chat/approvals/${approvals[0].id}`, { decision: 'reject' });
  const answered = JSON.parse(await service.next());
  assert.deepEqual([answered.tag, answered.close, answered.silent], [asked.tag, true, true]);
  await push(JSON.stringify(answered));
  await untilWorker((now) => now.length === 0);
  await stream;
  const { notifications } = await it.call('GET', '/api/notifications?platform=push&status=dead_letter');
  assert.deepEqual(notifications, []);
});

test('notification types can be turned off', async () => {
  await it.show('/settings/notifications');
  await page.getByRole('switch', { name: 'Firing alerts' }).click();
  await page.getByRole('switch', { name: 'Firing alerts', checked: false }).waitFor();
  await page.waitForFunction(async (headers) => !(await (await fetch('/api/settings/proactive', { headers })).json()).push_alerts, it.headers);
  await it.show('/settings/proactive');
  assert.equal(await page.getByText('Firing alerts').count(), 0, 'the setting appears in one place only');
});

test('notification settings conform to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, ['/settings/notifications']), []));
test('notification settings are reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, ['/settings/notifications']), []));

test('a device is removed after confirmation, or when its push service reports it gone', async () => {
  await it.show('/settings/notifications');
  const act = async (name) => {
    await page.getByRole('button', { name: /^Actions for Chrome/ }).click();
    await page.getByRole('menuitem', { name }).click();
  };
  await act('Remove device');
  assert.deepEqual(await axe(page), []);
  await it.dialog().getByRole('button', { name: 'Remove device' }).click();
  await page.getByRole('heading', { name: 'No devices yet' }).waitFor();
  await page.getByRole('switch', { name: 'Push notifications', checked: false }).click();
  await it.row('This device').waitFor();
  service.answers.push(410);
  await act('Send test notification');
  await service.next();
  await page.getByText('the subscription has expired').waitFor();
  await page.getByRole('heading', { name: 'No devices yet' }).waitFor();
  // The browser still holds the expired subscription.
  await page.evaluate(() => (window.ended = false));
  await page.getByRole('switch', { name: 'Push notifications', checked: false }).click();
  await it.row('This device').waitFor();
  assert.ok(await page.evaluate(() => window.ended));
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
