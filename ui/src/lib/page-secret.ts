// The page's half of its session. The other half is a cookie, which is sent to every port of the daemon's host and is
// therefore not sufficient; only the page's origin can read this half.

const STORAGE_KEY = 'page-secret';
/** Cache entry for the push worker, which cannot read localStorage. */
const WORKER_CACHE = 'session';
const WORKER_PATH = '/page-secret';

export const pageSecret = () => localStorage.getItem(STORAGE_KEY);

export async function storePageSecret(secret: string) {
  localStorage.setItem(STORAGE_KEY, secret);
  // Caches and workers exist in secure contexts only.
  if ('caches' in window) await (await caches.open(WORKER_CACHE)).put(WORKER_PATH, new Response(secret));
}

export async function deletePageSecret() {
  localStorage.removeItem(STORAGE_KEY);
  if ('caches' in window) await caches.delete(WORKER_CACHE);
}

/** Headers of API requests: the page secret and the CSRF header. */
export function pageHeaders(): Record<string, string> {
  const secret = pageSecret();
  return { 'X-Svc-Csrf': '1', ...(secret && { 'X-Svc-Page': secret }) };
}
