/** Languages of the editor; `text` is prose or an unknown format. */
export type EditorLanguage = 'python' | 'json' | 'markdown' | 'text';

const EXTENSIONS: Record<string, EditorLanguage> = { py: 'python', pyi: 'python', json: 'json', md: 'markdown', markdown: 'markdown' };

export function languageOfFile(name: string): EditorLanguage {
  return EXTENSIONS[name.toLowerCase().split('.').pop() ?? ''] ?? 'text';
}
