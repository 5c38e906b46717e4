// Shows push notifications, also while no page is open. Served unbuilt. It does not handle fetch events, so the page is
// never served from a cache.

/** Resolves a path of this page; anything else becomes the start page. */
function address(path) {
  const url = new URL(typeof path === 'string' && path.startsWith('/') ? path : '/', self.location.origin);
  return url.origin === self.location.origin ? url : new URL('/', self.location.origin);
}

/** Parses a push message. An unreadable one is still shown, because browsers require a notification for every push. */
function read(data) {
  const text = (value) => (typeof value === 'string' ? value : '');
  try {
    const { title, body, url, tag, silent, close } = data.json();
    return { title: text(title) || 'agentd', body: text(body), url: text(url), tag: text(tag), silent: silent === true, close: close === true };
  } catch {
    return { title: 'agentd', body: '', url: '/', tag: '', silent: false, close: false };
  }
}

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('push', (event) => {
  const { title, body, url, tag, silent, close } = read(event.data);
  const options = { body, icon: '/icon-192.png', badge: '/icon-192.png', data: { url }, silent };
  event.waitUntil(self.registration.showNotification(title, tag ? { ...options, tag, renotify: !silent } : options));
  // Browsers require a notification for every push, so a message that closes another one replaces it briefly. If the
  // browser stops this worker first, the replacement stays.
  if (close && tag) setTimeout(() => void closeNotifications(tag), 1000);
});

async function closeNotifications(tag) {
  for (const notification of await self.registration.getNotifications({ tag })) notification.close();
}

async function show(path) {
  const url = address(path);
  const pages = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const page = pages.find(({ focused }) => focused) ?? pages[0];
  if (!page) return self.clients.openWindow(url.href);
  page.postMessage({ open: url.pathname + url.search });
  return page.focus();
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(show(event.notification.data?.url));
});

/** Registers the new subscription after the browser has changed it. */
async function subscribeAgain({ oldSubscription, newSubscription }) {
  const options = oldSubscription?.options;
  const subscription = newSubscription ?? (options && (await self.registration.pushManager.subscribe(options)));
  if (!subscription) return;
  // The page stores its half of the session here, because a worker cannot read localStorage.
  const secret = await (await caches.match('/page-secret'))?.text();
  if (!secret) return;
  await fetch('/api/notifications/push/subscriptions', {
    method: 'POST',
    credentials: 'same-origin',
    headers: { 'Content-Type': 'application/json', 'X-Svc-Csrf': '1', 'X-Svc-Page': secret },
    body: JSON.stringify(subscription),
  });
}

self.addEventListener('pushsubscriptionchange', (event) => event.waitUntil(subscribeAgain(event)));
