import { api } from './api';
import { live, type LiveEvent } from './live.svelte';
import { throttle } from './throttle';

const REFRESH_INTERVAL_MS = 60_000;
/** Delay after the start, so that the first view loads first. */
const START_DELAY_MS = 1_500;

type Area = 'scheduler' | 'hooks' | 'channels' | 'monitoring';

/** Counts of jobs whose last run failed, dead letters, failing channels and firing alerts. */
const counts: Record<Area, () => Promise<number | undefined>> = {
  scheduler: async () => (await api.GET('/api/scheduler/jobs', { params: { query: { failing: true, limit: 1 } } })).data?.count,
  hooks: async () => (await api.GET('/api/hooks/deliveries/queue-stats')).data?.stats.dead_letter,
  channels: async () => (await api.GET('/api/channels')).data?.channels.filter(({ status }) => status === 'error').length,
  monitoring: async () => (await api.GET('/api/monitoring/alerts')).data?.alerts.filter(({ state }) => state === 'firing').length,
};

/** Problem counts for the navigation. */
class Trouble {
  counts = $state<Record<Area, number>>({ scheduler: 0, hooks: 0, channels: 0, monitoring: 0 });

  /** Keeps the counts up to date; returns the stop function. */
  start(): () => void {
    const areas = Object.keys(counts) as Area[];
    const all = () => areas.forEach((area) => void this.#load(area));
    const later = Object.fromEntries(areas.map((area) => [area, throttle(() => void this.#load(area), 1_000)])) as Record<Area, () => void>;
    const first = setTimeout(all, START_DELAY_MS);
    const timer = setInterval(() => document.hidden || all(), REFRESH_INTERVAL_MS);
    const ends = [
      live.on(['task.'], ({ data }: LiveEvent) => void (data.job_id && later.scheduler())),
      live.on(['delivery.changed'], later.hooks),
      live.on(['channel.message.failed', 'channel.message.sent'], later.channels),
      live.on(['alert.'], later.monitoring),
      live.on(['reset'], all),
    ];
    return () => {
      clearTimeout(first);
      clearInterval(timer);
      ends.forEach((end) => end());
    };
  }

  async #load(area: Area) {
    const count = await counts[area]().catch(() => undefined);
    if (count !== undefined) this.counts[area] = count;
  }
}

export const trouble = new Trouble();
