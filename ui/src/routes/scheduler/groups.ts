import type { Schemas } from '../../lib/api';
import { dayOf } from '../../lib/when';

export type Entry = Schemas['CalendarEntryView'];

/** Runs of one job on one day, or in one hour. */
export interface Group {
  jobId: string;
  name: string;
  entries: Entry[];
  /** The most important status. */
  status: string;
}

const order = ['failed', 'timeout', 'running', 'pending', 'skipped', 'cancelled', 'success', 'scheduled'];

export function group(entries: Entry[]): Group[] {
  const groups = new Map<string, Group>();
  for (const entry of entries) {
    const known = groups.get(entry.job_id);
    if (!known) groups.set(entry.job_id, { jobId: entry.job_id, name: entry.name, entries: [entry], status: entry.status });
    else {
      known.entries.push(entry);
      if (order.indexOf(entry.status) < order.indexOf(known.status)) known.status = entry.status;
    }
  }
  return [...groups.values()];
}

export function byDay(entries: Entry[], timeZone: string): Map<string, Group[]> {
  const days = new Map<string, Entry[]>();
  for (const entry of entries) {
    const day = dayOf(entry.at, timeZone);
    days.set(day, [...(days.get(day) ?? []), entry]);
  }
  return new Map([...days].map(([day, of]) => [day, group(of)]));
}

const looks: Record<string, string> = {
  scheduled: 'bg-accent-soft text-accent-text',
  success: 'bg-good-soft text-good',
  failed: 'bg-bad-soft text-bad',
  timeout: 'bg-bad-soft text-bad',
  skipped: 'bg-warn-soft text-warn',
};
const dots: Record<string, string> = { scheduled: 'bg-accent', success: 'bg-good', failed: 'bg-bad', timeout: 'bg-bad', skipped: 'bg-warn', running: 'bg-accent' };

export const look = (status: string) => looks[status] ?? 'bg-hover text-text';
export const dot = (status: string) => dots[status] ?? 'bg-control';
/** Icons, because colour alone is not accessible. */
export const sign = (status: string) => ({ success: '✓', failed: '✕', timeout: '✕', running: '●', skipped: '–', cancelled: '–' })[status] ?? '';
