export type Theme = 'system' | 'light' | 'dark';
const STORAGE_KEY = 'theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

class ThemeState {
  chosen = $state<Theme>((localStorage.getItem(STORAGE_KEY) as Theme | null) ?? 'system');
  system = $state<'light' | 'dark'>(dark.matches ? 'dark' : 'light');
  inForce = $derived(this.chosen === 'system' ? this.system : this.chosen);

  set(theme: Theme) {
    this.chosen = theme;
    localStorage.setItem(STORAGE_KEY, theme);
  }
}

export const theme = new ThemeState();
dark.addEventListener('change', () => (theme.system = dark.matches ? 'dark' : 'light'));
