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
  fields?: FormField[];
}

/** Fields with a separate view. */
const SEPARATE_FIELDS = ['push_approvals', 'push_alerts'];

export function formOf(category: string): { path: string; fields: FormField[] } {
  const form = (forms as unknown as Record<string, { path: string; fields: FormField[] }>)[category]!;
  return { ...form, fields: form.fields.filter(({ name }) => !SEPARATE_FIELDS.includes(name)) };
}

export const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** Returns the default of a field; an object's default consists of those of its fields. */
export function defaultOf(field: FormField): unknown {
  if (field.type === 'object' && field.fields) return Object.fromEntries(field.fields.map((inner) => [inner.name, defaultOf(inner)]));
  return field.default ?? (field.nullable ? null : undefined);
}
