// Generates the API's types. Fields with a default are optional in requests but always present in responses, so they
// are marked as required in schemas that only responses use.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const document = JSON.parse(readFileSync('../docs/openapi.json', 'utf8'));
const schemas = document.components.schemas;

function collect(part, found) {
  if (part === null || typeof part !== 'object') return;
  const name = part.$ref?.split('/').pop();
  if (name && !found.has(name)) {
    found.add(name);
    collect(schemas[name], found);
  }
  for (const value of Object.values(part)) collect(value, found);
}

const sent = new Set();
for (const path of Object.values(document.paths)) {
  for (const operation of Object.values(path)) {
    collect(operation.requestBody, sent);
    collect(operation.parameters, sent);
  }
}

function complete(part) {
  if (part === null || typeof part !== 'object') return;
  if (part.properties) {
    const withDefault = Object.keys(part.properties).filter((name) => 'default' in part.properties[name]);
    part.required = [...new Set([...(part.required ?? []), ...withDefault])];
  }
  for (const value of Object.values(part)) complete(value);
}
for (const [name, schema] of Object.entries(schemas)) if (!sent.has(name)) complete(schema);

// Settings forms are generated from the fields in the OpenAPI document.
const CATEGORIES = { sandbox: '/api/sandbox/config' };
for (const name of ['profile', 'interface', 'agent', 'strategy', 'proactive', 'memory', 'browser', 'email', 'security', 'backup']) CATEGORIES[name] = `/api/settings/${name}`;

const target = (part) => (part.$ref ? schemas[part.$ref.split('/').pop()] : part);

function field(name, part) {
  const choices = (part.oneOf ?? [part]).map(target);
  const main = choices.find((choice) => choice.writeOnly) ?? choices.find((choice) => choice.type !== 'null');
  const types = choices.flatMap((choice) => choice.type);
  const type = [main.type].flat().find((each) => each !== 'null');
  return {
    name,
    type: main.writeOnly ? 'secret' : main.enum ? 'enum' : type,
    nullable: types.includes('null') || undefined,
    enum: main.enum,
    minimum: main.minimum,
    maximum: main.maximum,
    maxLength: main.maxLength,
    default: part.default,
    fields: type === 'object' ? Object.entries(main.properties ?? {}).map(([inner, of]) => field(inner, of)) : undefined,
  };
}

const forms = Object.fromEntries(
  Object.entries(CATEGORIES).map(([name, path]) => {
    const { put } = document.paths[path];
    const patch = target(put.requestBody.content['application/json'].schema);
    const fields = Object.entries(patch.properties).filter(([each]) => each !== 'in_force').map(([each, part]) => field(each, part));
    return [name, { path, fields }];
  }),
);
writeFileSync('src/lib/settings-forms.json', JSON.stringify(forms));

// These types verify the page's labels of fields and choices against the document.
const paths = (inside, fields) => fields.flatMap((each) => [{ ...each, path: `${inside}.${each.name}` }, ...paths(`${inside}.${each.name}`, each.fields ?? [])]);
const all = Object.entries(forms).flatMap(([category, { fields }]) => paths(category, fields));
const union = (names) => names.map((name) => `\n  | ${JSON.stringify(name)}`).join('');
const settings = [
  `export type SettingsField =${union(all.map(({ path }) => path))};`,
  `export type SettingsChoice =${union(all.flatMap(({ path, enum: choices = [] }) => choices.map((choice) => `${path}=${choice}`)))};`,
];
const types = astToString(await openapiTS(document, { defaultNonNullable: false, emptyObjectsUnknown: true }));
writeFileSync('src/lib/api-types.ts', ["// Made from docs/openapi.json by scripts/api-types.js.", types, ...settings, ''].join('\n'));
