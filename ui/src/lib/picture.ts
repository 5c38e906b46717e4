import type { Attachment } from 'svelte/attachments';
import { send } from './api';

/**
 * Shows a picture of the API in an `<img>`, which cannot send the required headers itself. A path is loaded when the
 * image comes into view; the image gets an `error` event on failure.
 */
export function picture(source: string | Blob): Attachment<HTMLImageElement> {
  return (image) => {
    const end = new AbortController();
    let url = '';
    const show = (content: Blob) => {
      if (end.signal.aborted) return;
      image.src = url = URL.createObjectURL(content);
    };
    const load = async (path: string) => {
      try {
        const response = await send(path, { signal: end.signal });
        if (!response.ok) throw new Error(response.statusText);
        show(await response.blob());
      } catch {
        if (!end.signal.aborted) image.dispatchEvent(new Event('error'));
      }
    };
    const view = new IntersectionObserver(
      ([entry]) => {
        if (!entry?.isIntersecting) return;
        view.disconnect();
        void load(source as string);
      },
      { rootMargin: '200px' },
    );
    if (source instanceof Blob) show(source);
    else view.observe(image);
    return () => {
      end.abort();
      view.disconnect();
      URL.revokeObjectURL(url);
    };
  };
}
