import { asApiError } from '../../lib/api';

/** A message to send, with an idempotency key. */
export interface Unsent {
  content: string;
  key: string;
  body?: string;
}

export function unsent(content: string): Unsent {
  return { content, key: randomKey() };
}

/** Whether the daemon is still replying in this conversation, or overloaded. */
export function isRetryable(problem: unknown): boolean {
  const { status, code } = asApiError(problem);
  return [408, 409, 429].includes(status) && code !== 'budget_exhausted';
}

/** Whether a token budget rejected the message, which the conversation shows as a notice. */
export const isBudget = (problem: unknown) => asApiError(problem).code === 'budget_exhausted';

/** Whether the request was rejected permanently. */
export function isRefusal(problem: unknown): boolean {
  const { status, code } = asApiError(problem);
  return (status >= 400 && status < 500 && code !== 'still_under_way') || code === 'no_model';
}

export function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
