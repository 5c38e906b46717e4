/** Counts what this page changed in memory: whoever shows a part of it loads it anew. */
class Changes {
  count = $state(0);
}

export const changes = new Changes();
