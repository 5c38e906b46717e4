import { errorOf, send, takeTicket } from './api';

/** Saves a file of the API; throws an `ApiError` if it is refused. */
export async function download(path: string, name: string): Promise<void> {
  // Only a request by script can be refused visibly and ask for the password. Its body is not read.
  const check = new AbortController();
  const response = await send(path, { signal: check.signal });
  if (!response.ok) throw await errorOf(response);
  check.abort();
  // The download itself is a navigation, which sends no headers and needs no memory for the file.
  const link = document.createElement('a');
  link.href = `${path}${path.includes('?') ? '&' : '?'}ticket=${encodeURIComponent(await takeTicket())}`;
  link.download = name;
  link.click();
}
