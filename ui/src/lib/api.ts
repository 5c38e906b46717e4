import createClient from 'openapi-fetch';
import type { components, paths } from './api-types';
import { pageHeaders } from './page-secret';
import { reauthentication } from './reauthentication.svelte';
import { common } from './texts';

export type Schemas = components['schemas'];

/** A failed request: a message for the user and the request id, which the daemon's log contains. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly fields: { field: string; message: string }[] = [],
    readonly requestId: string | null = null,
  ) {
    super(message);
  }

  /** The validation message of a field. */
  field(name: string): string | undefined {
    return this.fields.find((problem) => problem.field === name)?.message;
  }
}

let signedOut: () => Promise<boolean> = () => Promise.resolve(false);
/** Called when the session has expired; resolves to whether the user has signed in again. */
export function onSignedOut(call: () => Promise<boolean>) {
  signedOut = call;
}

export const noteSignedOut = () => void signedOut();

/** Requests whose 401 refers to a password, not to the session. */
const PASSWORD_CHECKS = ['/api/auth/login', '/api/auth/register', '/api/auth/reauthenticate'];

/**
 * Sends an authenticated request. All API requests except uploads with progress go through here.
 *
 * Asks for the password or a new sign-in if the daemon requires it, then repeats the request. Cancelling returns the
 * error response.
 */
export async function send(path: string | Request, init?: RequestInit): Promise<Response> {
  for (;;) {
    const request = new Request(path instanceof Request ? path.clone() : path, { credentials: 'same-origin', ...init });
    for (const [name, value] of Object.entries(pageHeaders())) request.headers.set(name, value);
    const response = await fetch(request).catch(() => {
      throw new ApiError(common('unreachable'), 0, 'unreachable');
    });
    if (!(await shouldRepeat(request, response))) return response;
  }
}

async function shouldRepeat({ url }: Request, response: Response): Promise<boolean> {
  if (response.status === 401) return !PASSWORD_CHECKS.includes(new URL(url).pathname) && signedOut();
  if (response.status !== 403) return false;
  const refusal = (await response.clone().json().catch(() => null)) as Schemas['ErrorBody'] | null;
  return refusal?.code === 'reauthentication_required' && reauthentication.ask();
}

/** The daemon's API, typed from its OpenAPI document: `await ok(api.GET('/api/agents'))`. */
export const api = createClient<paths>({ fetch: (request) => send(request) });

/** A single-use ticket, for what a browser requests without headers: a WebSocket, a download. */
export const takeTicket = async () => (await ok(api.POST('/api/auth/ticket'))).ticket;

export async function errorOf(response: Response, body?: unknown): Promise<ApiError> {
  const known = (body ?? (await response.json().catch(() => null))) as Schemas['ErrorBody'] | null;
  const id = known?.error_id ?? response.headers.get('X-Request-Id');
  if (!known?.error) return new ApiError(common('unexpected'), response.status, 'unexpected', [], id);
  return new ApiError(known.error, response.status, known.code, known.fields, id);
}

/** Returns the data of a response; throws an `ApiError` if the request failed. */
export async function ok<T>(request: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<NonNullable<T>> {
  const { data, error, response } = await request;
  if (response.ok) return (data ?? {}) as NonNullable<T>;
  throw await errorOf(response, error);
}

/** Converts any error to an `ApiError`. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error), 0, 'page');
}

/** Sends a request whose path is only known at run time; the caller states the response type. */
export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await send(path, {
    method,
    headers: body === undefined ? undefined : { 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
}
