import { ApiError, noteSignedOut, type Schemas } from '../../lib/api';
import { pageHeaders } from '../../lib/page-secret';
import { common } from '../../lib/texts';

/** Uploads a file with progress, which `fetch` does not report. */
export function upload(path: string, file: File, progress: (share: number) => void): Promise<Schemas['Backup']> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', path);
    request.responseType = 'json';
    for (const [name, value] of Object.entries({ ...pageHeaders(), 'Content-Type': 'application/gzip' })) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 0);
    request.onerror = () => reject(new ApiError(common('unreachable'), 0, 'unreachable'));
    request.onload = () => {
      if (request.status === 201) return resolve(request.response as Schemas['Backup']);
      if (request.status === 401) noteSignedOut();
      const body = request.response as Schemas['ErrorBody'] | null;
      const id = request.getResponseHeader('X-Request-Id');
      reject(new ApiError(body?.error ?? common('unexpected'), request.status, body?.code ?? 'unexpected', body?.fields, id));
    };
    request.send(file);
  });
}
