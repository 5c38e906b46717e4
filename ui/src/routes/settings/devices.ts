// Readable names of user agents.

const BROWSERS: [sign: RegExp, name: string][] = [
  [/\bEdg(e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(Chrome|Chromium|CriOS|HeadlessChrome)\//, 'Chrome'],
  [/\bVersion\/.*\bSafari\//, 'Safari'],
];
const SYSTEMS: [sign: RegExp, name: string][] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b|\bX11\b/, 'Linux'],
];

/** Returns “Firefox, Windows”, or the user agent itself if it is unknown. */
export function deviceOf(agent: string | null): string | null {
  if (!agent) return null;
  const find = (known: [RegExp, string][]) => known.find(([sign]) => sign.test(agent))?.[1];
  const named = [find(BROWSERS), find(SYSTEMS)].filter(Boolean).join(', ');
  return named || agent.slice(0, 80);
}
