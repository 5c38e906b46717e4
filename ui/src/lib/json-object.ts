import { ApiError } from './api';
import { common } from './texts';

/** Parses the JSON object in `field`; null if the text is empty. */
export function parseObject(text: string, field: string): Record<string, unknown> | null {
  if (!text.trim()) return null;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw new ApiError(common('noJson'), 0, 'page', [{ field, message: common('noJson') }]);
}

export const formatJson = (value: unknown) => JSON.stringify(value, null, 2);
