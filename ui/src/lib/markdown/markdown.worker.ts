import { outline, render } from './parse';
import { answer } from './task';

export type MarkdownTask = { render: string } | { outline: string };

answer((task: MarkdownTask) => ('render' in task ? render(task.render) : outline(task.outline)));
