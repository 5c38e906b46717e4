/** Calls a function periodically while the page is visible: `$effect(() => every(15_000, load))`. */
export function every(ms: number, call: () => void): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) call();
  }, ms);
  return () => clearInterval(timer);
}
