import type { Schemas } from '../../lib/api';

export interface ToolCall {
  id: string;
  tool: string;
  input: unknown;
  output: unknown;
  status: Schemas['CallStatus'];
  /** When it began here; its duration is not known before its end. */
  startedAt?: number;
  durationMs?: number | null;
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
  /** Provider and model that answered. */
  model?: string | null;
  tokens?: { input: number; output: number };
  /** In US dollars; null where a price is not known. */
  cost?: number | null;
  error?: { code: string; message: string };
}

export function textOf(message: Message): string {
  return message.parts.map((part) => (part.kind === 'text' ? part.text : '')).filter(Boolean).join('\n\n');
}

/** A message as the daemon stores it. */
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
  // The card of the call shows what became of its approval.
  if (part.type === 'approval') return [];
  const { call_id, name, input, output, status, duration_ms } = part;
  return [{ kind: 'tool', call: { id: call_id, tool: name, input, output: output ?? null, status, durationMs: duration_ms } }];
}
