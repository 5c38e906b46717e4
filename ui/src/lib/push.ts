// Push notifications of this device.
import { api, ok } from './api';
import { navigate } from './router.svelte';

const WORKER = '/push-worker.js';
const APPROVAL = 'approval:';

/** Whether this browser supports push notifications, or why not. */
export type PushSupport = 'yes' | 'insecure' | 'install' | 'no';

export function pushSupport(): PushSupport {
  if (!isSecureContext) return 'insecure';
  if ('serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window) return 'yes';
  // iPhone and iPad support push only for pages on the home screen.
  const isApple = /iPhone|iPad/.test(navigator.userAgent) || (navigator.platform === 'MacIntel' && navigator.maxTouchPoints > 1);
  return isApple ? 'install' : 'no';
}

const registration = async () => ('serviceWorker' in navigator ? navigator.serviceWorker.getRegistration('/') : undefined);

function bytesOf(base64url: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** This device's subscription, if it has one. */
export async function ownSubscription(): Promise<PushSubscription | null> {
  return (await (await registration())?.pushManager?.getSubscription()) ?? null;
}

/** Returns the id of a subscription in the daemon's list. */
export async function digestOf(endpoint: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(endpoint));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Subscribes this device with the daemon's current key and registers the subscription. */
export async function subscribe(): Promise<void> {
  const { public_key } = await ok(api.GET('/api/notifications/push/key'));
  const key = bytesOf(public_key);
  await navigator.serviceWorker.register(WORKER, { updateViaCache: 'none' });
  const { pushManager } = await navigator.serviceWorker.ready;
  // A subscription unknown to the daemon has another key or has expired at the push service.
  await (await pushManager.getSubscription())?.unsubscribe();
  const subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { endpoint, keys } = subscription.toJSON();
  const body = { endpoint: endpoint ?? '', keys: { p256dh: keys?.p256dh ?? '', auth: keys?.auth ?? '' } };
  await ok(api.POST('/api/notifications/push/subscriptions', { body }));
}

/** Closes notifications of approvals that have been decided. */
export async function closeAnswered(pending: string[]): Promise<void> {
  const shown = await (await registration())?.getNotifications?.();
  for (const notification of shown ?? []) {
    const { tag } = notification;
    if (tag.startsWith(APPROVAL) && !pending.includes(tag.slice(APPROVAL.length))) notification.close();
  }
}

/** Navigates to the target of a clicked notification while the page is open. */
export function followClicks(): () => void {
  if (!('serviceWorker' in navigator)) return () => {};
  const take = ({ data }: MessageEvent<{ open?: unknown }>) => {
    if (typeof data?.open === 'string' && data.open.startsWith('/')) void navigate(data.open);
  };
  navigator.serviceWorker.addEventListener('message', take);
  return () => navigator.serviceWorker.removeEventListener('message', take);
}
