import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './api-types';
import { common } from './texts';

export type Schemas = components['schemas'];

/** An answer that is no success: a sentence for the person, and what finds it in the daemon's log. */
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

  /** What is wrong with one field of what was sent. */
  field(name: string): string | undefined {
    return this.fields.find((problem) => problem.field === name)?.message;
  }
}

/** A request that carries the cookie and changes something needs this header, which no form of another site can send. */
export const CSRF = { 'X-Svc-Csrf': '1' };

let signedOut: () => void = () => {};
/** Called when the daemon no longer knows who asks. */
export function onSignedOut(call: () => void) {
  signedOut = call;
}

export const noteSignedOut = () => signedOut();

const watchSession: Middleware = {
  onResponse({ response, schemaPath }) {
    if (response.status === 401 && !schemaPath.startsWith('/api/auth/')) signedOut();
  },
  onError() {
    return new ApiError(common('unreachable'), 0, 'unreachable');
  },
};

/** The daemon's API, typed from its OpenAPI document: `await ok(api.GET('/api/agents'))`. */
export const api = createClient<paths>({ credentials: 'same-origin', headers: CSRF });
api.use(watchSession);

export async function errorOf(response: Response, body?: unknown): Promise<ApiError> {
  const known = (body ?? (await response.json().catch(() => null))) as Schemas['ErrorBody'] | null;
  const id = known?.error_id ?? response.headers.get('X-Request-Id');
  if (!known?.error) return new ApiError(common('unexpected'), response.status, 'unexpected', [], id);
  return new ApiError(known.error, response.status, known.code, known.fields, id);
}

/** What a request answered; throws an `ApiError` where it was refused. */
export async function ok<T>(request: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<NonNullable<T>> {
  const { data, error, response } = await request;
  if (response.ok) return (data ?? {}) as NonNullable<T>;
  throw await errorOf(response, error);
}

/** Any failure as one that can be shown. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error), 0, 'page');
}

/** A request whose path is only known as it runs; what it answers is for the caller to know. */
export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await fetch(path, {
    method,
    credentials: 'same-origin',
    headers: { ...CSRF, ...(body !== undefined && { 'Content-Type': 'application/json' }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch(() => {
    throw new ApiError(common('unreachable'), 0, 'unreachable');
  });
  if (response.status === 401) signedOut();
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
}
