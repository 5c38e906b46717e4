import type { Schemas } from '../../lib/api';

export interface ToolCall {
  id: string;
  tool: string;
  input: unknown;
  output: unknown;
  status: Schemas['CallStatus'];
  /** Local start time; the duration is known only after the end. */
  startedAt?: number;
  durationMs?: number | null;
  /** The pending approval. */
  approval?: { id: string; expiresAt: string; sources: string[] };
}

export type Part = { kind: 'text'; text: string } | { kind: 'tool'; call: ToolCall };

export interface Message {
  /** Stable render key, also after the message receives its id. */
  key: string;
  id: string | null;
  role: Schemas['Role'];
  parts: Part[];
  status: Schemas['MessageStatus'];
  sessionId: string | null;
  at: string;
  /** Provider and model of the reply. */
  model?: string | null;
  tokens?: { input: number; output: number };
  /** In US dollars; null if a price is unknown. */
  cost?: number | null;
  error?: { code: string; message: string };
}

export function textOf(message: Message): string {
  return message.parts.map((part) => (part.kind === 'text' ? part.text : '')).filter(Boolean).join('\n\n');
}

/** Converts a stored message. */
export function shown(message: Schemas['MessageView']): Message {
  const { provider, model, input_tokens, output_tokens, cost_estimate } = message;
  return {
    key: message.id,
    id: message.id,
    role: message.role,
    parts: message.parts.flatMap(shownPart),
    status: message.status,
    sessionId: message.session_id ?? null,
    at: message.created_at,
    model: provider && model ? `${provider}/${model}` : null,
    tokens: { input: input_tokens ?? 0, output: output_tokens ?? 0 },
    cost: cost_estimate ?? null,
  };
}

function shownPart(part: Schemas['MessagePart']): Part[] {
  if (part.type === 'text') return [{ kind: 'text', text: part.text }];
  // The tool card shows the outcome of the approval.
  if (part.type === 'approval') return [];
  const { call_id, name, input, output, status, duration_ms } = part;
  return [{ kind: 'tool', call: { id: call_id, tool: name, input, output: output ?? null, status, durationMs: duration_ms } }];
}
