import { agents, type AgentEntry } from './agents.svelte';
import { api } from './api';
import { session } from './session.svelte';

/** The agent of requests that name none, where the settings name one. */
export function defaultAgent(): AgentEntry | null {
  const name = session.settings?.interface.default_agent;
  if (!name) return null;
  const find = (svc_name: string | undefined) => agents.list.find((agent) => agent.svc_name === svc_name) ?? null;
  return find(name) ?? find(agents.get(name)?.svc_name);
}

/** The `svc_name` of the agent that is selected where nobody has chosen one yet. */
export const preselectedAgent = () => (defaultAgent() ?? agents.list[0])?.svc_name ?? '';

/** Reads the setting again after agents were created or deleted: the daemon changes it then. */
export async function reloadDefaultAgent() {
  const { data } = await api.GET('/api/settings/interface').catch(() => ({ data: undefined }));
  if (data && session.settings) session.settings.interface = data;
}
