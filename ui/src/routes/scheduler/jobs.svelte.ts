import { api, ok, type Schemas } from '../../lib/api';
import { joined } from '../../lib/lists';
import type { LiveEvent } from '../../lib/live.svelte';

export type Job = Schemas['JobView'];
export type Run = Schemas['RunView'];
export type Schedule = Schemas['ScheduleSpec'];
export type JobStatus = Schemas['ScheduledJobStatus'];
export type Kind = 'plain' | 'good' | 'warn' | 'bad' | 'accent';

const PAGE_SIZE = 100;

export const jobKinds: Record<JobStatus, Kind> = { active: 'good', paused: 'warn', completed: 'plain', failed: 'bad' };
export const runKinds: Record<string, Kind> = { scheduled: 'accent', pending: 'plain', running: 'accent', success: 'good', failed: 'bad', timeout: 'bad', cancelled: 'plain', skipped: 'warn' };
export const isOver = (run: Run) => run.status !== 'pending' && run.status !== 'running';

/** Jobs, shared by the list, the dialogs and the chains. */
class Jobs {
  list = $state<Job[] | null>(null);
  count = $state(0);
  problem = $state<unknown>(null);
  status = $state<JobStatus | 'failing' | ''>('');
  agent = $state('');

  async load(more = false) {
    const filter = this.status === 'failing' ? { failing: true } : { status: this.status || undefined };
    const query = { ...filter, agent_id: this.agent || undefined };
    try {
      const shown = more ? (this.list ?? []) : [];
      // A reload keeps the number of loaded entries.
      const limit = more ? PAGE_SIZE : Math.min(200, Math.max(PAGE_SIZE, this.list?.length ?? 0));
      const found = await ok(api.GET('/api/scheduler/jobs', { params: { query: { ...query, limit, offset: shown.length } } }));
      this.list = joined(shown, found.jobs, ({ id }) => id);
      this.count = found.count;
      this.problem = null;
    } catch (error) {
      this.problem = error;
    }
  }

  take(job: Job) {
    if (this.list) this.list = this.list.map((other) => (other.id === job.id ? job : other));
  }

  pause = (job: Job) => this.#act('/api/scheduler/jobs/{id}/pause', job);
  resume = (job: Job) => this.#act('/api/scheduler/jobs/{id}/resume', job);

  async #act(path: '/api/scheduler/jobs/{id}/pause' | '/api/scheduler/jobs/{id}/resume', job: Job): Promise<Job> {
    const changed = await ok(api.POST(path, { params: { path: { id: job.id } } }));
    this.take(changed);
    return changed;
  }

  run = (job: Job) => ok(api.POST('/api/scheduler/jobs/{id}/trigger', { params: { path: { id: job.id } } }));

  async delete(job: Job) {
    await ok(api.DELETE('/api/scheduler/jobs/{id}', { params: { path: { id: job.id } } }));
    if (this.list) this.list = this.list.filter((other) => other.id !== job.id);
    this.count = Math.max(0, this.count - 1);
  }
}

export const jobs = new Jobs();

/** Returns the job id of an event. */
export const jobOf = (event: LiveEvent): string | null => event.data.job_id ?? null;
