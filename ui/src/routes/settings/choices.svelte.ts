import { agents } from '../../lib/agents.svelte';
import { api } from '../../lib/api';

/** Options of fields that refer to agents, providers or models. */
class Choices {
  #providers = $state<string[] | null>(null);
  #models = $state<string[] | null>(null);

  async load() {
    const { data } = await api.GET('/api/providers');
    this.#providers = data?.providers.filter(({ configured }) => configured).map(({ id }) => id) ?? null;
    this.#models = data?.providers.find(({ id }) => id === 'local')?.local?.available_models ?? null;
  }

  /** Returns undefined for free text fields. The current value is always an option. */
  of(field: string, set?: string | null): string[] | undefined {
    const known = { default_provider: this.#providers, local_model: this.#models, default_agent: agents.list.map(({ svc_name }) => svc_name) }[field];
    if (!known) return undefined;
    return set && !known.includes(set) ? [set, ...known] : known;
  }
}

export const choices = new Choices();
