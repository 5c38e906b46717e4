/** Number of memory changes made by this page, on which views reload. */
class Changes {
  count = $state(0);
}

export const changes = new Changes();
