import { guardLeaving } from './router.svelte';
import { common } from './texts';
import { confirm } from './ui/confirm.svelte';

const ask = () => confirm({ title: common('leaveTitle'), text: common('leaveText'), action: common('leave'), danger: true });
const warn = (event: BeforeUnloadEvent) => event.preventDefault();

/** Asks before leaving while the component is mounted and has unsaved changes. */
export function guardUnsaved(changed: () => boolean) {
  $effect(() => {
    if (!changed()) return;
    guardLeaving(ask);
    addEventListener('beforeunload', warn);
    return () => {
      guardLeaving(null);
      removeEventListener('beforeunload', warn);
    };
  });
}
