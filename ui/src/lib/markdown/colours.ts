import type { HighlightTask } from './highlight.worker';
import { TaskQueue } from './task';

// A queue of its own: code that takes long to colour keeps no text waiting.
const queue = new TaskQueue<HighlightTask>(() => new Worker(new URL('./highlight.worker.ts', import.meta.url), { type: 'module' }));

/** Coloured runs of each piece of the code; null for a language that is not known, and where colouring takes too long. */
export function highlighted(code: string, language: string): Promise<(string | null)[] | null> {
  return queue.run<(string | null)[] | null>({ code, language }).catch(() => null);
}

/** Nodes of one piece's runs, which come as JSON. */
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
