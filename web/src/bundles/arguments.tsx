// The arguments of a tool as a list: name, kind, description. Parts of an argument that a row cannot show are kept.
import { useId, useRef, useState } from 'preact/hooks';
import { type Draft, RawText, draftOf, textOf, valueOf } from '../form/draft';
import { draftMessage } from '../form/messages';
import { t } from '../i18n';
import { type Json, type JsonObject, fromPlain, parse, stringify } from '../json/lossless';
import { plain } from '../text';
import { b } from './texts';

const KINDS = ['text', 'integer', 'number', 'boolean', 'choice', 'list', 'other'] as const;
type Kind = (typeof KINDS)[number];

const TYPES: Record<Exclude<Kind, 'choice' | 'other'>, Json> = {
  text: fromPlain({ type: 'string' }), integer: fromPlain({ type: 'integer' }), number: fromPlain({ type: 'number' }), boolean: fromPlain({ type: 'boolean' }), list: fromPlain({ type: 'array', items: { type: 'string' } }),
};
/** Keywords that belong to the kind of an argument, and are removed when another is chosen. */
const OF_KIND = ['type', 'items', 'enum', 'format', 'default', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'anyOf', 'oneOf', 'allOf', '$ref', 'properties', 'additionalProperties', 'const'];

function kindOf(schema: Json): Kind {
  if (!(schema instanceof Map)) return 'other';
  const values = schema.get('enum');
  if (Array.isArray(values)) return values.length > 0 && values.every((value) => typeof value === 'string' && !value.includes(',')) ? 'choice' : 'other';
  if (schema.size === 0) return 'other';
  switch (schema.get('type')) {
    case 'string':
      return 'text';
    case 'integer':
    case 'number':
    case 'boolean':
      return schema.get('type') as Kind;
    case 'array': {
      const items = schema.get('items');
      return items instanceof Map && items.get('type') === 'string' ? 'list' : 'other';
    }
    default:
      return 'other';
  }
}

const kindName = (kind: Kind): string => (kind === 'other' ? b('other') : kind === 'list' ? b('listOfTexts') : t(`type.${kind}`));

/** The parts of an argument schema, if it is a list of properties. */
export function rowsOf(schema: Json | undefined): { properties: [string, Json][]; required: Set<string>; rest: JsonObject } | null {
  if (schema === undefined) return { properties: [], required: new Set(), rest: new Map() };
  if (!(schema instanceof Map)) return null;
  const properties = schema.get('properties') ?? new Map<string, Json>();
  const required = schema.get('required') ?? [];
  if (!(properties instanceof Map) || !Array.isArray(required) || (schema.get('type') ?? 'object') !== 'object') return null;
  return { properties: [...properties], required: new Set(required.filter((name) => typeof name === 'string')), rest: new Map([...schema].filter(([name]) => name !== 'properties' && name !== 'required')) };
}

export function ArgumentsEditor({ draft, onChange, problem }: { draft: Draft; onChange(draft: Draft): void; problem: string | undefined }) {
  const [asJson, setAsJson] = useState(false);
  const { value, problems } = valueOf(draft);
  const rows = problems.length === 0 ? rowsOf(value) : null;
  const id = useId();
  const keys = useRef<number[]>([]);
  const lastKey = useRef(0);
  while (keys.current.length < (rows?.properties.length ?? 0)) keys.current.push((lastKey.current += 1));
  const save = (properties: [string, Json][], required: Set<string>, rest: JsonObject) => {
    const names = [...required].filter((name) => properties.some(([other]) => other === name));
    onChange(draftOf(new Map<string, Json>([['type', 'object'], ...rest, ['properties', new Map(properties)], ...(names.length > 0 ? [['required', names] as [string, Json]] : [])])));
  };
  const said = problem ?? (problems[0] && draftMessage(problems[0]));
  return (
    <fieldset class="field group" aria-label={b('arguments')}>
      <span class="label-line">
        <span class="label">{b('arguments')}</span><span class="grow" />
        <button type="button" class="link small" disabled={asJson && rows === null} onClick={() => { if (asJson && value !== undefined) onChange(draftOf(value)); else onChange(new RawText(textOf(draft) || '{"type": "object", "properties": {}}')); setAsJson(!asJson); }}>{asJson ? b('asList') : b('asSchema')}</button>
      </span>
      <span class="description">{rows === null && !asJson ? b('notASchema') : b('argumentsHint')}</span>
      {said && <span class="problem" role="alert">{plain(said)}</span>}
      {asJson || rows === null
        ? <textarea class="code" rows={10} spellcheck={false} aria-label="argSchema" aria-invalid={said !== undefined} value={textOf(draft)} onInput={(event) => onChange(event.currentTarget.value.trim() === '' ? undefined : new RawText(event.currentTarget.value))} />
        : (
          <>
            {rows.properties.length === 0 && <p class="quiet">{b('noArguments')}</p>}
            {rows.properties.map(([name, schema], index) => (
              <Row key={keys.current[index]} id={`${id}-${keys.current[index]}`} name={name} schema={schema} isRequired={rows.required.has(name)}
                isTaken={(other) => rows.properties.some(([taken], at) => at !== index && taken === other)}
                onChange={(next, nextSchema, isRequired) => {
                  const required = new Set([...rows.required].filter((other) => other !== name));
                  if (isRequired) required.add(next);
                  save(rows.properties.map((row, at) => (at === index ? [next, nextSchema] : row)), required, rows.rest);
                }}
                onRemove={() => { keys.current.splice(index, 1); save(rows.properties.filter((_, at) => at !== index), rows.required, rows.rest); }} />
            ))}
            <button type="button" class="small" onClick={() => save([...rows.properties, [freeName(rows.properties), TYPES.text]], rows.required, rows.rest)}>{b('addArgument')}</button>
          </>
        )}
    </fieldset>
  );
}

function freeName(properties: [string, Json][]): string {
  for (let number = properties.length + 1; ; number += 1) if (!properties.some(([name]) => name === `argument${number}`)) return `argument${number}`;
}

interface RowProps {
  id: string;
  name: string;
  schema: Json;
  isRequired: boolean;
  isTaken(name: string): boolean;
  onChange(name: string, schema: Json, isRequired: boolean): void;
  onRemove(): void;
}

function Row({ id, name, schema, isRequired, isTaken, onChange, onRemove }: RowProps) {
  // An empty or duplicate name stays in the field until it is valid.
  const [typed, setTyped] = useState(name);
  const isWrong = typed !== name;
  const kind = kindOf(schema);
  const own: JsonObject = schema instanceof Map ? schema : new Map();
  const set = (key: string, value: Json | undefined) => {
    const next = new Map(own);
    if (value === undefined) next.delete(key);
    else next.set(key, value);
    onChange(name, next, isRequired);
  };
  const setKind = (next: Kind) => {
    const kept = [...own].filter(([key]) => !OF_KIND.includes(key));
    const parts: [string, Json][] = next === 'choice' ? [['type', 'string'], ['enum', ['a', 'b']]] : next === 'other' ? [] : [...(TYPES[next] as JsonObject)];
    onChange(name, new Map([...parts, ...kept]), isRequired);
  };
  const text = (key: string) => { const value = own.get(key); return typeof value === 'string' ? value : ''; };
  const values = own.get('enum');
  return (
    <div class="card argument-row" role="group" aria-label={plain(name)}>
      <div class="row wrap">
        <label class="field"><span class="label">{b('name')}</span>
          <input value={typed} autocomplete="off" spellcheck={false} aria-invalid={isWrong} onInput={(event) => { const next = event.currentTarget.value.trim(); setTyped(next); if (next !== '' && !isTaken(next)) onChange(next, schema, isRequired); }} /></label>
        <label class="field"><span class="label">{b('kind')}</span>
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>{KINDS.filter((other) => other !== 'other' || kind === 'other').map((other) => <option key={other} value={other}>{kindName(other)}</option>)}</select></label>
        <label class="inline"><input type="checkbox" checked={isRequired} onChange={() => onChange(name, schema, !isRequired)} /> {b('required')}</label>
        <button type="button" class="link small" aria-label={t('form.remove', { name: plain(name) })} onClick={onRemove}>✕</button>
      </div>
      <div class="row wrap">
        <label class="field grow"><span class="label">{b('description')}</span><input value={text('description')} autocomplete="off" onInput={(event) => set('description', event.currentTarget.value === '' ? undefined : event.currentTarget.value)} /></label>
        {kind === 'choice' && <ChoiceValues values={Array.isArray(values) ? (values as string[]) : []} onChange={(next) => set('enum', next)} />}
        {kind !== 'other' && kind !== 'list' && <DefaultValue key={kind} kind={kind} value={own.get('default')} onChange={(next) => set('default', next)} />}
      </div>
      {kind === 'other' && <OtherSchema id={id} schema={schema} onChange={(next) => onChange(name, next, isRequired)} />}
    </div>
  );
}

function ChoiceValues({ values, onChange }: { values: string[]; onChange(values: string[]): void }) {
  const [typed, setTyped] = useState(values.join(', '));
  return (
    <label class="field grow"><span class="label">{b('values')}</span>
      <input value={typed} autocomplete="off" onInput={(event) => {
        setTyped(event.currentTarget.value);
        const next = [...new Set(event.currentTarget.value.split(',').map((value) => value.trim()).filter((value) => value !== ''))];
        if (next.length > 0) onChange(next);
      }} />
    </label>
  );
}

/** A default as typed: text for strings, JSON for numbers. */
function DefaultValue({ kind, value, onChange }: { kind: Kind; value: Json | undefined; onChange(value: Json | undefined): void }) {
  const isText = kind === 'text' || kind === 'choice';
  const written = value === undefined ? '' : isText && typeof value === 'string' ? value : stringify(value);
  const [typed, setTyped] = useState(written);
  if (kind === 'boolean') {
    return (
      <label class="field"><span class="label">{b('default')}</span>
        <select value={written} onChange={(event) => onChange(event.currentTarget.value === '' ? undefined : event.currentTarget.value === 'true')}>
          <option value="">{t('form.notSet')}</option><option value="true">{t('form.yes')}</option><option value="false">{t('form.no')}</option>
        </select>
      </label>
    );
  }
  const read = (text: string): Json | undefined => {
    if (text.trim() === '') return undefined;
    if (isText) return text;
    try {
      return parse(text);
    } catch {
      return undefined;
    }
  };
  const isWrong = !isText && typed.trim() !== '' && read(typed) === undefined;
  return (
    <label class="field"><span class="label">{b('default')}</span>
      <input value={typed} size={10} autocomplete="off" inputMode={isText ? undefined : 'decimal'} aria-invalid={isWrong} onInput={(event) => { setTyped(event.currentTarget.value); onChange(read(event.currentTarget.value)); }} />
    </label>
  );
}

function OtherSchema({ id, schema, onChange }: { id: string; schema: Json; onChange(schema: Json): void }) {
  const [typed, setTyped] = useState(() => stringify(schema, 2));
  const [isWrong, setIsWrong] = useState(false);
  return (
    <label class="field" for={id}><span class="label">JSON Schema</span>
      <textarea id={id} class="code" rows={4} spellcheck={false} aria-invalid={isWrong} value={typed} onInput={(event) => {
        setTyped(event.currentTarget.value);
        try {
          onChange(parse(event.currentTarget.value));
          setIsWrong(false);
        } catch {
          setIsWrong(true);
        }
      }} />
    </label>
  );
}
