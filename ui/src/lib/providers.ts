import { ApiError, api, ok, type Schemas } from './api';

export type Provider = Schemas['ProviderView'];

export interface NewKey {
  api_key?: string;
  base_url?: string;
  default_model?: string;
}

/** Configures a provider and tests it; a first key that fails is removed again. */
export async function tryProvider(provider: Provider, given: NewKey): Promise<Schemas['ProviderTestView']> {
  const path = { id: provider.id };
  // An omitted key is kept; an empty address or model restores the default.
  const { api_key, base_url, default_model } = given;
  const body = { ...(api_key && { api_key }), base_url: base_url || null, default_model: default_model || null };
  await ok(api.PUT('/api/providers/{id}/key', { params: { path }, body }));
  const result = await ok(api.POST('/api/providers/{id}/test', { params: { path } }));
  if (!result.ok) {
    if (!provider.configured) await ok(api.DELETE('/api/providers/{id}/key', { params: { path } }));
    throw new ApiError(result.error ?? '', 502, result.code ?? 'provider');
  }
  return result;
}
