/** Asks for the password when the daemon requires it; waiting requests share one dialog. */
class Reauthentication {
  isOpen = $state(false);
  #pending: Promise<boolean> | null = null;
  #resolve: (confirmed: boolean) => void = () => {};

  /** Whether the password was confirmed; false if the dialog was cancelled. */
  ask(): Promise<boolean> {
    this.isOpen = true;
    this.#pending ??= new Promise((resolve) => (this.#resolve = resolve));
    return this.#pending;
  }

  finish(confirmed: boolean) {
    this.isOpen = false;
    this.#pending = null;
    this.#resolve(confirmed);
  }
}

export const reauthentication = new Reauthentication();
