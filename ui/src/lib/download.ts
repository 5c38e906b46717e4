import { errorOf, send, takeTicket } from './api';

/** Downloads a file of the API; throws an `ApiError` if the request fails. */
export async function download(path: string, name: string): Promise<void> {
  // Only a request by script can show an error or ask for the password. Its body is discarded.
  const check = new AbortController();
  const response = await send(path, { signal: check.signal });
  if (!response.ok) throw await errorOf(response);
  check.abort();
  // The download is a navigation, which does not hold the file in memory.
  const link = document.createElement('a');
  link.href = `${path}${path.includes('?') ? '&' : '?'}ticket=${encodeURIComponent(await takeTicket())}`;
  link.download = name;
  link.click();
}
