import { visible } from '../../lib/format';
import { common } from '../../lib/texts';
import { confirm } from '../../lib/ui/confirm.svelte';
import { toastError } from '../../lib/ui/toast.svelte';
import { jobs, type Job } from './jobs.svelte';
import { t } from './texts';

/** Deletes a job after confirmation; returns whether it was deleted. */
export async function remove(job: Job): Promise<boolean> {
  if (!(await confirm({ title: t('deleteTitle', { name: visible(job.name) }), text: t('deleteText'), action: common('delete'), danger: true }))) return false;
  try {
    await jobs.delete(job);
    return true;
  } catch (error) {
    toastError(error);
    return false;
  }
}
