import forms from '../../lib/settings-forms.json';

export interface FormField {
  name: string;
  type: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object' | 'enum' | 'secret';
  nullable?: boolean;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  default?: unknown;
  description?: string;
  fields?: FormField[];
}

export const formOf = (category: string) => (forms as unknown as Record<string, { path: string; fields: FormField[] }>)[category]!;

export const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** A field's default; an object's is made of those of its fields. */
export function defaultOf(field: FormField): unknown {
  if (field.type === 'object' && field.fields) return Object.fromEntries(field.fields.map((inner) => [inner.name, defaultOf(inner)]));
  return field.default ?? (field.nullable ? null : undefined);
}
