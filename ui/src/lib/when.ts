// Dates and times in the owner's time zone, which may differ from the browser's.
import { session } from './session.svelte';
import { language } from './text.svelte';

export const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const zone = () => session.settings?.profile.timezone || here;

const made = new Map<string, Intl.DateTimeFormat>();
function format(options: Intl.DateTimeFormatOptions, locale: string = language.current): Intl.DateTimeFormat {
  const key = JSON.stringify([locale, options]);
  let known = made.get(key);
  if (!known) made.set(key, (known = new Intl.DateTimeFormat(locale, options)));
  return known;
}

/** Returns the day of a time as `2026-01-31`. */
export function dayOf(at: string | number, timeZone = zone()): string {
  return format({ timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }, 'en-CA').format(new Date(at));
}

export function hourOf(at: string, timeZone = zone()): number {
  return Number(format({ timeZone, hour: '2-digit', hourCycle: 'h23' }, 'en-GB').format(new Date(at)));
}

/** Returns `2026-01-31T09:00`, the format of `<input type="datetime-local">`. */
export function localOf(at: string, timeZone = zone()): string {
  return `${dayOf(at, timeZone)}T${format({ timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }, 'en-GB').format(new Date(at))}`;
}

export function clockTime(at: string, timeZone = zone()): string {
  return format({ timeZone, timeStyle: 'short' }).format(new Date(at));
}

/** “Fri, 27 Nov 2026, 07:00”. */
export function slot(at: string, timeZone = zone()): string {
  return format({ timeZone, weekday: 'short', day: 'numeric', month: 'short', year: 'numeric', hour: 'numeric', minute: '2-digit' }).format(new Date(at));
}

// A day without time has no zone; it is handled as UTC.
const asDate = (day: string) => new Date(`${day}T00:00:00Z`);
const asDay = (date: Date) => date.toISOString().slice(0, 10);

export const isDay = (text: string | null): text is string => text !== null && /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(asDate(text).getTime());

export function addDays(day: string, days: number): string {
  const date = asDate(day);
  date.setUTCDate(date.getUTCDate() + days);
  return asDay(date);
}

export function addMonths(day: string, months: number): string {
  const date = asDate(day);
  const wanted = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + months);
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(wanted, last));
  return asDay(date);
}

/** Returns the Monday of the week. */
export const monday = (day: string) => addDays(day, -((asDate(day).getUTCDay() + 6) % 7));

/** Returns the weeks of a month, each of seven days. */
export function weeksOf(day: string): string[][] {
  const month = day.slice(0, 7);
  const weeks: string[][] = [];
  for (let at = monday(`${month}-01`); weeks.length === 0 || at.slice(0, 7) === month; at = addDays(at, 7)) weeks.push(weekOf(at));
  return weeks;
}

export const weekOf = (day: string) => Array.from({ length: 7 }, (_, i) => addDays(monday(day), i));

export const dayNumber = (day: string) => Number(day.slice(8));
export const longDay = (day: string) => format({ timeZone: 'UTC', weekday: 'long', day: 'numeric', month: 'long' }).format(asDate(day));
export const shortDay = (day: string) => format({ timeZone: 'UTC', day: 'numeric', month: 'short' }).format(asDate(day));
export const monthName = (day: string) => format({ timeZone: 'UTC', month: 'long', year: 'numeric' }).format(asDate(day));
export const weekday = (day: string, weekday: 'long' | 'short' = 'short') => format({ timeZone: 'UTC', weekday }).format(asDate(day));
