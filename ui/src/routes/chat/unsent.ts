import { asApiError } from '../../lib/api';

/** What is to be said, and the request that says it once however often it is sent. */
export interface Unsent {
  content: string;
  key: string;
  body?: string;
}

export function unsent(content: string): Unsent {
  return { content, key: randomKey() };
}

/** The daemon is not done with the former reply, or writes one that was asked for elsewhere; or it has too much to do. */
export function isForLater(problem: unknown): boolean {
  const { status, code } = asApiError(problem);
  return [408, 409, 429].includes(status) && code !== 'budget_exhausted';
}

/** A token budget refused the message; the conversation says so itself. */
export const isBudget = (problem: unknown) => asApiError(problem).code === 'budget_exhausted';

/** Nothing was begun, and the same request will be refused again. */
export function isRefusal(problem: unknown): boolean {
  const { status, code } = asApiError(problem);
  return (status >= 400 && status < 500 && code !== 'still_under_way') || code === 'no_model';
}

export function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
