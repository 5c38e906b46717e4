/** Asks for the password when the daemon requires it; waiting requests share one dialog. */
class Reauthentication {
  isAsking = $state(false);
  #pending: Promise<boolean> | null = null;
  #resolve: (confirmed: boolean) => void = () => {};

  /** Whether the password was confirmed; false if the dialog was cancelled. */
  ask(): Promise<boolean> {
    this.isAsking = true;
    this.#pending ??= new Promise((resolve) => (this.#resolve = resolve));
    return this.#pending;
  }

  finish(confirmed: boolean) {
    this.isAsking = false;
    this.#pending = null;
    this.#resolve(confirmed);
  }
}

export const reauthentication = new Reauthentication();
