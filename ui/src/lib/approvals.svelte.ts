import { api, ok, type Schemas } from './api';
import { visible } from './format';
import { live } from './live.svelte';
import { closeAnswered } from './push';
import { navigate, place } from './router.svelte';
import { common } from './texts';
import { toast } from './ui/toast.svelte';

export type Approval = Schemas['Approval'];

/** The pending approvals. */
class Approvals {
  pending = $state<Approval[]>([]);
  loaded = $state(false);

  start(): () => void {
    void this.load();
    return live.on(['reset', 'approval.'], ({ type, data }) => {
      void this.load();
      // Views that show the approval need no toast.
      const isSeen = place.path === '/approvals' || place.path === `/chat/${data.conversation_id}`;
      if (type !== 'approval.requested' || isSeen) return;
      toast(common('asks', { tool: visible(String(data.tool)) }), { action: { label: common('show'), run: () => navigate('/approvals') } });
    });
  }

  #loading: Promise<void> | null = null;
  #again = false;

  /** Runs one load at a time; events during a load trigger another one. */
  load(): Promise<void> {
    if (this.#loading) {
      this.#again = true;
      return this.#loading;
    }
    return (this.#loading = this.#fetch().finally(() => {
      this.#loading = null;
      if (this.#again) {
        this.#again = false;
        void this.load();
      }
    }));
  }

  async #fetch() {
    const answer = await api.GET('/api/chat/approvals', { params: { query: { status: 'pending', limit: 200 } } }).catch(() => null);
    if (!answer?.data) return;
    this.pending = answer.data.approvals;
    this.loaded = true;
    void closeAnswered(this.pending.map(({ id }) => id)).catch(() => {});
  }

  async answer(id: string, decision: 'approve' | 'reject', reason?: string): Promise<Approval> {
    const approval = await ok(api.POST('/api/chat/approvals/{id}', { params: { path: { id } }, body: { decision, reason: reason || null } }));
    this.pending = this.pending.filter((other) => other.id !== id);
    return approval;
  }
}

export const approvals = new Approvals();
