import type { Schemas } from '../../lib/api';

export interface ToolCall {
  id: string;
  tool: string;
  input: unknown;
  output: unknown;
  status: Schemas['CallStatus'] | 'waiting';
  startedAt?: number;
  endedAt?: number;
  /** The owner is asked. */
  approval?: { id: string; expiresAt: string; sources: string[] };
}

export type Part = { kind: 'text'; text: string } | { kind: 'tool'; call: ToolCall };

export interface Message {
  /** Stays the same while the message gets its id, so that it is not drawn anew. */
  key: string;
  id: string | null;
  role: Schemas['Role'];
  parts: Part[];
  status: Schemas['MessageStatus'];
  sessionId: string | null;
  at: string;
  tokens?: { input: number; output: number };
  error?: { code: string; message: string };
}

export function textOf(message: Message): string {
  return message.parts.map((part) => (part.kind === 'text' ? part.text : '')).filter(Boolean).join('\n\n');
}

export function shown(message: Schemas['MessageView']): Message {
  const calls = message.tool_calls.map((call): Part => ({ kind: 'tool', call: { ...call, output: call.output ?? null } }));
  return {
    key: message.id,
    id: message.id,
    role: message.role,
    parts: message.content ? [...calls, { kind: 'text', text: message.content }] : calls,
    status: message.status,
    sessionId: message.session_id ?? null,
    at: message.created_at,
  };
}
