import { asApiError } from '../api';
import { common } from '../texts';

export interface Toast {
  id: number;
  kind: 'good' | 'bad' | 'plain';
  text: string;
  detail?: string;
  action?: { label: string; run: () => void };
}

class Toasts {
  shown = $state<Toast[]>([]);
}

export const toasts = new Toasts();
let last = 0;

/** Shows a toast. Errors stay until they are closed. */
export function toast(text: string, { kind = 'plain', detail, action }: Partial<Omit<Toast, 'id' | 'text'>> = {}) {
  const id = (last += 1);
  toasts.shown = [...toasts.shown.filter((other) => other.text !== text), { id, kind, text, detail, action }].slice(-4);
  if (kind !== 'bad') setTimeout(() => dismiss(id), action ? 8000 : 4000);
}

export function dismiss(id: number) {
  toasts.shown = toasts.shown.filter((other) => other.id !== id);
}

/** Shows an error with its request id. */
export function toastError(error: unknown) {
  const known = asApiError(error);
  toast(known.message, { kind: 'bad', detail: known.requestId ? common('request', { id: known.requestId }) : undefined });
}
