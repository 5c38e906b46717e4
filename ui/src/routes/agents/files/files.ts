import { ApiError, errorOf, noteSignedOut, send, type Schemas } from '../../../lib/api';
import { download as downloadPath } from '../../../lib/download';
import { pageHeaders } from '../../../lib/page-secret';
import { common } from '../../../lib/texts';
import { toastError } from '../../../lib/ui/toast.svelte';

export type AgentFile = Schemas['AgentFile'];
export type FileList = Schemas['AgentFileList'];

/** Maximum size of a text preview. */
export const MAX_PREVIEW_BYTES = 1_000_000;

/** Returns the page address of a folder or a file. */
export function placeOf(agent: string, path: string, kind: 'path' | 'file' = 'path'): string {
  return `/agents/${agent}/files${path ? `?${kind}=${encodeURIComponent(path)}` : ''}`;
}

export function contentUrl(agent: string, path: string): string {
  return `/api/agents/${encodeURIComponent(agent)}/files/content?path=${encodeURIComponent(path)}`;
}

/** Returns the parent folder; empty for the workspace. */
export const folderOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf('/')));
export const join = (folder: string, name: string) => (folder ? `${folder}/${name}` : name);

export const download = (agent: string, file: AgentFile) => downloadPath(contentUrl(agent, file.path), file.name).catch(toastError);

/** Preview of a file. */
export type Content = { etag: string } & (
  | { kind: 'text'; text: string; isWhole: boolean }
  | { kind: 'picture'; picture: Blob }
  | { kind: 'drawing'; url: string }
  | { kind: 'bytes' }
);

export async function read(agent: string, file: AgentFile): Promise<Content> {
  const url = contentUrl(agent, file.path);
  // An empty file has no range.
  const headers = file.size_bytes ? { Range: `bytes=0-${MAX_PREVIEW_BYTES - 1}` } : undefined;
  const response = await send(url, { cache: 'no-store', headers });
  if (!response.ok) throw await errorOf(response);
  const etag = response.headers.get('ETag') ?? '';
  if (response.headers.get('Content-Type')?.startsWith('image/')) {
    const isWhole = (file.size_bytes ?? 0) <= MAX_PREVIEW_BYTES;
    const whole = isWhole ? response : await send(url, { cache: 'no-store' });
    if (!whole.ok) throw await errorOf(whole);
    return { etag, kind: 'picture', picture: await whole.blob() };
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  const whole = Number(response.headers.get('Content-Range')?.split('/')[1] ?? bytes.length);
  const text = textOf(bytes, bytes.length < whole);
  if (text === null) return { etag, kind: 'bytes' };
  const isDrawing = /\.svg$/i.test(file.name) && bytes.length === whole && /<svg[\s>]/.test(text);
  // An SVG in an `<img>` runs no scripts, and `data:` URLs have an opaque origin.
  if (isDrawing) return { etag, kind: 'drawing', url: `data:image/svg+xml,${encodeURIComponent(text)}` };
  return { etag, kind: 'text', text, isWhole: bytes.length === whole };
}

/** Decodes UTF-8 text, or returns null. The last character may be truncated. */
function textOf(bytes: Uint8Array, isCut: boolean): string | null {
  if (bytes.includes(0)) return null;
  for (let left = 0; left <= (isCut ? 3 : 0); left += 1) {
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, bytes.length - left));
    } catch {
      // Retry without the truncated character.
    }
  }
  return null;
}

export interface Sending {
  headers?: Record<string, string>;
  signal?: AbortSignal;
  onprogress?: (share: number) => void;
}

/** Writes a file with upload progress, which `fetch` does not report. */
export function write(agent: string, path: string, body: Blob | string, { headers = {}, signal, onprogress }: Sending = {}): Promise<AgentFile> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('PUT', contentUrl(agent, path));
    for (const [name, value] of Object.entries({ ...pageHeaders(), 'Content-Type': 'application/octet-stream', ...headers })) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onprogress?.(event.total ? event.loaded / event.total : 0);
    request.onerror = () => reject(new ApiError(common('unreachable'), 0, 'unreachable'));
    request.onabort = () => reject(new ApiError('', 0, 'aborted'));
    request.onload = () => {
      if (request.status === 401) noteSignedOut();
      const id = request.getResponseHeader('X-Request-Id');
      const response = new Response(request.responseText, { status: request.status, headers: id ? { 'X-Request-Id': id } : {} });
      if (response.ok) resolve(JSON.parse(request.responseText) as AgentFile);
      else void errorOf(response).then(reject);
    };
    signal?.addEventListener('abort', () => request.abort());
    request.send(body);
  });
}

/** Highlighting language by file extension. */
const LANGUAGES: Record<string, string> = {
  c: 'c', h: 'c', cc: 'cpp', cpp: 'cpp', hpp: 'cpp', cs: 'csharp', css: 'css', diff: 'diff', patch: 'diff', go: 'go', htm: 'xml', html: 'xml', ini: 'ini', java: 'java',
  js: 'javascript', json: 'json', jsonl: 'json', md: 'markdown', mjs: 'javascript', php: 'php', py: 'python', rb: 'ruby', rs: 'rust', sh: 'bash', sql: 'sql', svg: 'xml',
  swift: 'swift', toml: 'ini', ts: 'typescript', xml: 'xml', yaml: 'yaml', yml: 'yaml',
};

export function languageOf(name: string): string {
  if (/^Dockerfile/.test(name)) return 'dockerfile';
  if (/^Makefile/.test(name)) return 'makefile';
  return LANGUAGES[name.split('.').pop()?.toLowerCase() ?? ''] ?? '';
}
