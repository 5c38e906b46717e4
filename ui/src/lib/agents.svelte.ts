import { SvelteMap } from 'svelte/reactivity';
import { api, ok, type Schemas } from './api';

export type Agent = Schemas['AgentView'];
export type AgentEntry = Schemas['AgentListView']['agents'][number];

/** Cache of agents. Other resources refer to an agent by its id, which the list of agents does not contain. */
class Agents {
  list = $state<AgentEntry[]>([]);
  #whole = new SvelteMap<string, Agent | null>();
  #asked = new Set<string>();

  async load() {
    this.take((await ok(api.GET('/api/agents'))).agents);
  }

  take(list: AgentEntry[]) {
    this.list = list;
    this.#whole.clear();
    this.#asked.clear();
  }

  /** The agent with an id or a `svc_name`; undefined until it is loaded, null if it does not exist. */
  get(name: string | null | undefined): Agent | null | undefined {
    if (!name) return null;
    const known = this.#whole.get(name);
    if (known === undefined && !this.#asked.has(name)) {
      this.#asked.add(name);
      void this.#fetch(name);
    }
    return known;
  }

  name(id: string | null | undefined): string {
    return this.get(id)?.name ?? '';
  }

  async #fetch(name: string) {
    const answer = await api.GET('/api/agents/{name}', { params: { path: { name } } }).catch(() => null);
    // The daemon is unreachable; the next call retries.
    if (!answer) this.#asked.delete(name);
    else if (answer.data) {
      this.#whole.set(answer.data.id, answer.data);
      this.#whole.set(answer.data.svc_name, answer.data);
    } else this.#whole.set(name, null);
  }
}

export const agents = new Agents();
