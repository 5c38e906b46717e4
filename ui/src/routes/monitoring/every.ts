/** Calls now and then while somebody looks; for `$effect(() => every(15_000, load))`. */
export function every(ms: number, call: () => void): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) call();
  }, ms);
  return () => clearInterval(timer);
}
