import { agents, type AgentEntry } from './agents.svelte';
import { api } from './api';
import { session } from './session.svelte';

/** Returns the default agent of the settings, if there is one. */
export function defaultAgent(): AgentEntry | null {
  const name = session.settings?.interface.default_agent;
  if (!name) return null;
  const find = (svc_name: string | undefined) => agents.list.find((agent) => agent.svc_name === svc_name) ?? null;
  return find(name) ?? find(agents.get(name)?.svc_name);
}

/** Returns the `svc_name` of the agent to preselect. */
export const preselectedAgent = () => (defaultAgent() ?? agents.list[0])?.svc_name ?? '';

/** Reloads the setting, which the daemon changes when agents are created or deleted. */
export async function reloadDefaultAgent() {
  const { data } = await api.GET('/api/settings/interface').catch(() => ({ data: undefined }));
  if (data && session.settings) session.settings.interface = data;
}
