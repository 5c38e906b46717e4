export type Theme = 'system' | 'light' | 'dark';
const KEPT = 'theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

class ThemeState {
  chosen = $state<Theme>((localStorage.getItem(KEPT) as Theme | null) ?? 'system');
  system = $state<'light' | 'dark'>(dark.matches ? 'dark' : 'light');
  inForce = $derived(this.chosen === 'system' ? this.system : this.chosen);

  set(theme: Theme) {
    this.chosen = theme;
    localStorage.setItem(KEPT, theme);
  }
}

export const theme = new ThemeState();
dark.addEventListener('change', () => (theme.system = dark.matches ? 'dark' : 'light'));
