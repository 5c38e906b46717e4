import { language } from './text.svelte';

/** Formatters are expensive to create. */
const made = new Map<string, Intl.DateTimeFormat | Intl.NumberFormat | Intl.RelativeTimeFormat>();
function once<T extends Intl.DateTimeFormat | Intl.NumberFormat | Intl.RelativeTimeFormat>(name: string, make: (language: string) => T): T {
  const key = `${language.current} ${name}`;
  let format = made.get(key) as T | undefined;
  if (!format) made.set(key, (format = make(language.current)));
  return format;
}

export function number(value: number, digits = 0): string {
  return once(`n${digits}`, (of) => new Intl.NumberFormat(of, { maximumFractionDigits: digits })).format(value);
}

/** Formats 12,345 as 12.3K. */
export function compact(value: number): string {
  return once('compact', (of) => new Intl.NumberFormat(of, { notation: 'compact', maximumFractionDigits: 1 })).format(value);
}

export function percent(share: number, digits = 0): string {
  return once(`p${digits}`, (of) => new Intl.NumberFormat(of, { style: 'percent', maximumFractionDigits: digits })).format(share);
}

/** Formats a cost in US dollars; an unknown cost is a dash, never 0. */
export function cost(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  const digits = value === 0 || value >= 1 ? 2 : value >= 0.01 ? 3 : 5;
  return once(`c${digits}`, (of) => new Intl.NumberFormat(of, { style: 'currency', currency: 'USD', maximumFractionDigits: digits })).format(value);
}

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${number(value, unit && value < 100 ? 1 : 0)} ${units[unit]}`;
}

/** Formats a duration in its two largest units, without a second one that is 0. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${number(ms / 1000, 1)} s`;
  const seconds = Math.round(ms / 1000);
  const both = (whole: number, unit: string, rest: number, part: string) => `${whole} ${unit}${rest ? ` ${rest} ${part}` : ''}`;
  if (seconds < 3600) return both(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  if (seconds < 86_400) return both(Math.floor(seconds / 3600), 'h', Math.floor((seconds % 3600) / 60), 'min');
  return both(Math.floor(seconds / 86_400), 'd', Math.floor((seconds % 86_400) / 3600), 'h');
}

export function dateTime(at: string | Date): string {
  return once('dt', (of) => new Intl.DateTimeFormat(of, { dateStyle: 'medium', timeStyle: 'short' })).format(new Date(at));
}

export function date(at: string | Date): string {
  return once('d', (of) => new Intl.DateTimeFormat(of, { dateStyle: 'medium' })).format(new Date(at));
}

export function time(at: string | Date): string {
  return once('t', (of) => new Intl.DateTimeFormat(of, { timeStyle: 'short' })).format(new Date(at));
}

/** “5 minutes ago”, “in 2 days”; a date beyond 30 days. */
export function relative(at: string | Date, now = Date.now()): string {
  const format = once('r', (of) => new Intl.RelativeTimeFormat(of, { numeric: 'auto' }));
  const seconds = (new Date(at).getTime() - now) / 1000;
  if (Math.abs(seconds) >= 2_592_000) return date(at);
  const steps: [Intl.RelativeTimeFormatUnit, number][] = [['day', 86_400], ['hour', 3600], ['minute', 60]];
  for (const [unit, size] of steps) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  // Elapsed seconds are not counted, to avoid constant updates.
  return format.format(seconds < 0 ? 0 : Math.trunc(seconds), 'second');
}

export { visible, visibleProse } from './visible';
