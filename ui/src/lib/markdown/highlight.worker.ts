import { highlight } from './highlight';
import { answer } from './task';

export interface HighlightTask {
  code: string;
  language: string;
}

answer(({ code, language }: HighlightTask) => highlight(code, language));
