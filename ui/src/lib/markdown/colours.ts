import type { HighlightTask } from './highlight.worker';
import { TaskQueue } from './task';

// A separate worker, so that slow highlighting does not delay text.
const queue = new TaskQueue<HighlightTask>(() => new Worker(new URL('./highlight.worker.ts', import.meta.url), { type: 'module' }));

/** Returns the highlighted runs of each piece of the code; null if the language is unknown or highlighting takes too long. */
export function highlighted(code: string, language: string): Promise<(string | null)[] | null> {
  return queue.run<(string | null)[] | null>({ code, language }).catch(() => null);
}

/** Creates the nodes of a piece from its runs as JSON. */
export function drawRuns(data: string): DocumentFragment {
  const runs = JSON.parse(data) as string[];
  const fragment = document.createDocumentFragment();
  for (let i = 0; i < runs.length; i += 2) {
    const [scope, text] = [runs[i]!, document.createTextNode(runs[i + 1]!)];
    if (!scope) {
      fragment.appendChild(text);
      continue;
    }
    const span = document.createElement('span');
    span.className = `hljs-${scope}`;
    fragment.appendChild(span).appendChild(text);
  }
  return fragment;
}
