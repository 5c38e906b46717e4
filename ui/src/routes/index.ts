import Bot from '@lucide/svelte/icons/bot';
import Brain from '@lucide/svelte/icons/brain';
import Activity from '@lucide/svelte/icons/activity';
import CalendarClock from '@lucide/svelte/icons/calendar-clock';
import Globe from '@lucide/svelte/icons/globe';
import Inbox from '@lucide/svelte/icons/inbox';
import Laptop from '@lucide/svelte/icons/laptop';
import MessageSquare from '@lucide/svelte/icons/message-square';
import MessagesSquare from '@lucide/svelte/icons/messages-square';
import Settings from '@lucide/svelte/icons/settings';
import Zap from '@lucide/svelte/icons/zap';
import type { Component } from 'svelte';
import { approvals } from '../lib/approvals.svelte';
import { match } from '../lib/router.svelte';
import { trouble } from '../lib/trouble.svelte';

export type Group = 'work' | 'agents' | 'automation' | 'operation';

export interface View {
  /** Segments that begin with `:` are parameters, optional if they end with `?`. */
  path: string;
  /** Loads the component, which receives `params`. */
  load: () => Promise<{ default: Component<any> }>;
  group: Group;
  icon: Component<{ size?: number }>;
  title: { en: string; de: string };
  /** Shortcut key after `g`. */
  key?: string;
  /** Whether the view is in the phone's tab bar, which has three slots. */
  phone?: boolean;
  badge?: () => number;
  /** Number of problems in the view. */
  trouble?: () => number;
}

/** All views, in navigation order. */
export const views: View[] = [
  { path: '/chat/:id?', load: () => import('./chat/Chat.svelte'), group: 'work', icon: MessageSquare, title: { en: 'Chat', de: 'Chat' }, key: 'c', phone: true },
  { path: '/approvals', load: () => import('./approvals/Approvals.svelte'), group: 'work', icon: Inbox, title: { en: 'Approvals', de: 'Freigaben' }, key: 'a', phone: true, badge: () => approvals.pending.length },
  { path: '/agents/:name?/:section?', load: () => import('./agents/Agents.svelte'), group: 'agents', icon: Bot, title: { en: 'Agents', de: 'Agenten' }, key: 'e' },
  { path: '/memory/:section?', load: () => import('./memory/Memory.svelte'), group: 'agents', icon: Brain, title: { en: 'Memory', de: 'Gedächtnis' }, key: 'm' },
  { path: '/browser/:section?', load: () => import('./browser/Browser.svelte'), group: 'agents', icon: Globe, title: { en: 'Browser', de: 'Browser' }, key: 'b' },
  { path: '/scheduler/:section?', load: () => import('./scheduler/Scheduler.svelte'), group: 'automation', icon: CalendarClock, title: { en: 'Scheduler', de: 'Zeitplan' }, key: 'j', trouble: () => trouble.counts.scheduler },
  { path: '/hooks/:section?', load: () => import('./hooks/Hooks.svelte'), group: 'automation', icon: Zap, title: { en: 'Hooks', de: 'Hooks' }, key: 'h', trouble: () => trouble.counts.hooks },
  { path: '/channels/:platform?', load: () => import('./channels/Channels.svelte'), group: 'automation', icon: MessagesSquare, title: { en: 'Channels', de: 'Kanäle' }, key: 'k', trouble: () => trouble.counts.channels },
  { path: '/devices', load: () => import('./devices/Devices.svelte'), group: 'automation', icon: Laptop, title: { en: 'Devices', de: 'Geräte' }, key: 'd' },
  { path: '/monitoring/:section?', load: () => import('./monitoring/Monitoring.svelte'), group: 'operation', icon: Activity, title: { en: 'Monitoring', de: 'Überwachung' }, key: 'o', trouble: () => trouble.counts.monitoring },
  { path: '/settings/:section?', load: () => import('./settings/Settings.svelte'), group: 'operation', icon: Settings, title: { en: 'Settings', de: 'Einstellungen' }, key: 's', phone: true },
];

export const address = (view: View) => view.path.replace(/\/:.*$/, '');

export function viewAt(path: string): { view: View; params: Record<string, string> } | null {
  for (const view of views) {
    const params = match(view.path, path);
    if (params) return { view, params };
  }
  return null;
}
