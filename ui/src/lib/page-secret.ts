// The page's half of its session. The other half is a cookie, which reaches every server under the daemon's host name
// and is therefore no credential by itself; this half only the page's origin can read.

const KEY = 'page-secret';
/** A copy for the push worker, which cannot read localStorage. */
const WORKER_CACHE = 'session';
const WORKER_PATH = '/page-secret';

export const pageSecret = () => localStorage.getItem(KEY);

export async function storePageSecret(secret: string) {
  localStorage.setItem(KEY, secret);
  // Caches and workers exist in secure contexts only.
  if ('caches' in window) await (await caches.open(WORKER_CACHE)).put(WORKER_PATH, new Response(secret));
}

export async function deletePageSecret() {
  localStorage.removeItem(KEY);
  if ('caches' in window) await caches.delete(WORKER_CACHE);
}

/** What each request to the API carries: the page secret, and the header without which a cookie changes nothing. */
export function pageHeaders(): Record<string, string> {
  const secret = pageSecret();
  return { 'X-Svc-Csrf': '1', ...(secret && { 'X-Svc-Page': secret }) };
}
