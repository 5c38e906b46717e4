/** Throttles calls: `call` runs once after a delay, for all requests in between. */
export function throttle(call: () => void, ms = 400): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  return () => {
    timer ??= setTimeout(() => {
      timer = null;
      call();
    }, ms);
  };
}
