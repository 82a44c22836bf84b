// A form from a JSON Schema. Parts are planned when they are shown, so that a recursive schema costs nothing until its
// part is opened.
import type { ComponentChildren } from 'preact';
import { useId, useMemo, useRef, useState } from 'preact/hooks';
import { t } from '../i18n';
import { fromPlain, parse, stringify } from '../json/lossless';
import { plain, shortened } from '../text';
import { Chosen, type Draft, EMPTY, Entries, RawText, draftOf, draftOfPlain, textOf } from './draft';
import { guess, initial, itemSchema, sameText, unfit } from './fit';
import { kindName, typeName } from './messages';
import { type Plan, type Property, onlyValue, plan } from './schema';

export interface FormContext {
  root: unknown;
  /** Messages by JSON pointer. */
  problems: ReadonlyMap<string, string>;
  /** Whether to show problems of untouched fields too. */
  showAll: boolean;
  /** Whether fields are labelled with their titles. Arguments are labelled with their names, which code needs. */
  titles?: boolean;
  /** Whether fields that are not in the schema are left to another form. */
  only?: boolean;
}

interface FieldProps {
  form: FormContext;
  schema: unknown;
  name: string;
  label?: string;
  path: string;
  required: boolean;
  draft: Draft;
  onChange(draft: Draft): void;
  depth: number;
}

/** The top of the form: the properties of the arguments. */
export function SchemaForm({ form, draft, onChange }: { form: FormContext; draft: Draft; onChange(draft: Draft): void }) {
  const top = useMemo(() => plan(form.root, form.root), [form.root]);
  if (draft instanceof RawText || top.control !== 'object') {
    return <JsonField form={form} path="" label={t('form.arguments')} draft={draft instanceof Entries && draft.pairs.length === 0 ? undefined : draft} onChange={onChange} plan={top} />;
  }
  if (top.properties.length === 0 && top.rest === null) return <p class="quiet">{t('form.none')}</p>;
  return <ObjectFields form={form} plan={top} path="" draft={draft} onChange={onChange} depth={0} />;
}

function Field(props: FieldProps) {
  const { form, schema, name, draft, onChange, path, required, depth } = props;
  const [asJson, setAsJson] = useState(false);
  const [touched, setTouched] = useState(false);
  const planned = useMemo(() => plan(schema, form.root, name), [schema, form.root, name]);
  const id = useId();
  const label = plain(props.label ?? (form.titles ? planned.title : undefined) ?? name);
  const said = touched || form.showAll || draft !== undefined ? form.problems.get(path) : undefined;
  const problem = said !== undefined && planned.control === 'number' && draft instanceof RawText && !asJson && !isNumber(draft.text) ? t('problem.number') : said;
  const isNull = planned.nullable === true && draft === null;
  const isGroup = planned.control === 'object' || planned.control === 'list' || planned.control === 'map' || planned.control === 'union';
  const showJson = asJson || planned.control === 'json' || (!isNull && unfit(planned, draft));
  const describedBy = [planned.description && `${id}-description`, problem && `${id}-problem`].filter(Boolean).join(' ') || undefined;
  const toggle = planned.control !== 'json' && (!form.titles || showJson) && (
    <button
      type="button"
      class="link small"
      aria-pressed={showJson}
      aria-label={t('form.editAsJson', { name: label })}
      title={t('form.editAsJson', { name: label })}
      onClick={() => {
        if (showJson) onChange(reread(draft));
        setAsJson(!showJson);
      }}
    >
      {'{ }'}
    </button>
  );
  const clear = draft !== undefined && !required && (
    <button type="button" class="link small" aria-label={t('form.clear', { name: label })} onClick={() => { onChange(undefined); setAsJson(false); }}>
      {t('form.unset')}
    </button>
  );
  const backFromNull = isNull && required && (
    <button type="button" class="link small" aria-label={t('form.clear', { name: label })} onClick={() => onChange(undefined)}>{t('form.unset')}</button>
  );
  const asNull = planned.nullable && draft !== null && (
    <button type="button" class="link small" aria-label={t('form.setNull', { name: label })} onClick={() => onChange(null)}>null</button>
  );
  const head = (
    <span class="label-line">
      {(isGroup || isNull) && !showJson ? <span class="label">{label}</span> : <label class="label" for={id}>{label}</label>}
      {required && <span class="required" title={t('form.required')}>*</span>}
      {!form.titles && <span class="type">{typeName(planned)}</span>}
      <span class="grow" />
      {asNull}
      {clear}{backFromNull}
      {toggle}
    </span>
  );
  const body = showJson
    ? <JsonArea id={id} describedBy={describedBy} invalid={problem !== undefined} draft={draft} onChange={onChange} />
    : isNull ? <output class="is-null">null</output>
    : <Control {...props} label={label} id={id} plan={planned} describedBy={describedBy} invalid={problem !== undefined} depth={depth} />;
  const texts = (
    <>
      {planned.description && <span class="description" id={`${id}-description`}>{shortened(planned.description, 600)}</span>}
      {problem && <span class="problem" id={`${id}-problem`} role="alert">{plain(problem)}</span>}
    </>
  );
  if (isGroup && !showJson && !isNull) {
    return <fieldset class="field group" aria-label={label} onFocusOut={() => setTouched(true)}>{head}{texts}{body}</fieldset>;
  }
  return <div class="field" onFocusOut={() => setTouched(true)}>{head}{body}{texts}</div>;
}

interface ControlProps extends FieldProps {
  id: string;
  plan: Plan;
  describedBy: string | undefined;
  invalid: boolean;
}

function Control({ id, plan: planned, describedBy, invalid, draft, onChange, ...rest }: ControlProps) {
  const common = { id, 'aria-describedby': describedBy, 'aria-invalid': invalid, 'aria-required': rest.required };
  const placeholder = planned.default === undefined ? undefined : t('form.default', { value: shownDefault(planned.default) });
  switch (planned.control) {
    case 'text': {
      const value = typeof draft === 'string' ? draft : '';
      const set = (text: string) => onChange(text === '' && !rest.required ? undefined : text);
      return planned.multiline
        ? <textarea {...common} rows={4} placeholder={placeholder} value={value} onInput={(event) => set(event.currentTarget.value)} spellcheck={false} />
        : <input {...common} type={inputType(planned.format, value)} placeholder={placeholder ?? formatHint(planned.format)} value={value} autocomplete="off" onInput={(event) => set(event.currentTarget.value)} />;
    }
    case 'number': {
      const value = draft instanceof RawText ? draft.text : '';
      return <input {...common} type="text" inputMode={planned.integer ? 'numeric' : 'decimal'} class="number" placeholder={placeholder} value={value} autocomplete="off"
        onInput={(event) => { const text = event.currentTarget.value.trim(); onChange(text === '' ? undefined : new RawText(text)); }} />;
    }
    case 'boolean':
      return (
        <select {...common} value={draft === undefined ? '' : String(draft)} onChange={(event) => { const value = event.currentTarget.value; onChange(value === '' ? undefined : value === 'true'); }}>
          <option value="">{placeholder ?? t('form.notSet')}</option>
          <option value="true">{t('form.yes')}</option>
          <option value="false">{t('form.no')}</option>
        </select>
      );
    case 'null':
      return (
        <select {...common} value={draft === null ? 'null' : ''} onChange={(event) => onChange(event.currentTarget.value === 'null' ? null : undefined)}>
          <option value="">{t('form.notSet')}</option>
          <option value="null">null</option>
        </select>
      );
    case 'choice': {
      const current = draft === undefined ? '' : String(planned.values.findIndex((value) => sameText(value, draft)));
      return (
        <select {...common} value={current} onChange={(event) => { const index = event.currentTarget.value; onChange(index === '' ? undefined : draftOfPlain(planned.values[Number(index)])); }}>
          <option value="">{placeholder ?? t('form.notSet')}</option>
          {planned.values.map((value, index) => <option key={index} value={String(index)}>{typeof value === 'string' && value !== '' ? shortened(value, 100) : shortened(stringify(fromPlain(value)), 100)}</option>)}
        </select>
      );
    }
    case 'object':
      return <Optional {...rest} label={rest.label ?? rest.name} draft={draft} onChange={onChange} empty={initial(rest.schema, rest.form.root)}>
        <ObjectFields form={rest.form} plan={planned} path={rest.path} draft={draft} onChange={onChange} depth={rest.depth + 1} />
      </Optional>;
    case 'map':
      return <MapFields {...rest} plan={planned} draft={draft} onChange={onChange} />;
    case 'list':
      return <ListFields {...rest} plan={planned} draft={draft} onChange={onChange} />;
    case 'union':
      return <UnionField {...rest} id={id} describedBy={describedBy} plan={planned} draft={draft} onChange={onChange} />;
    case 'json':
      return null;
  }
}

/** A nested object that is absent until somebody adds it. */
function Optional({ draft, onChange, empty, required, label, children, depth }: Pick<FieldProps, 'draft' | 'onChange' | 'required' | 'name' | 'depth'> & { label: string; empty: Draft; children: ComponentChildren }) {
  if (draft === undefined && (!required || depth > 6)) {
    return <button type="button" class="small" onClick={() => onChange(empty)}>{t('form.add', { name: plain(label) })}</button>;
  }
  return <div class="nested">{children}</div>;
}

function ObjectFields({ form, plan: planned, path, draft, onChange, depth }: { form: FormContext; plan: Plan & { control: 'object' }; path: string; draft: Draft; onChange(draft: Draft): void; depth: number }) {
  const entries = draft instanceof Entries ? draft : EMPTY;
  const latest = useRef(entries);
  latest.current = entries;
  const known = new Set(planned.properties.map((property) => property.name));
  const others = form.only && depth < 2 ? [] : entries.pairs.filter(([name]) => !known.has(name));
  const field = (name: string, schema: unknown, required: boolean) => (
    <Field key={name} form={form} schema={schema} name={name} path={`${path}/${pointerName(name)}`} required={required} draft={entries.get(name)} depth={depth}
      onChange={(value) => onChange(latest.current.with(name, value))} />
  );
  // With titles, a field whose only possible value is already set is hidden.
  const isSettled = ({ name, schema }: Property) => form.titles === true && entries.get(name) !== undefined && onlyValue(schema, form.root) !== null;
  const [newName, setNewName] = useState('');
  return (
    <>
      {planned.properties.filter((property) => !isSettled(property)).map((property) => field(property.name, property.schema, property.required))}
      {others.map(([name]) => field(name, planned.rest ?? true, false))}
      {planned.rest !== null && (
        <div class="row">
          <input aria-label={t('form.newName')} placeholder={t('form.newName')} value={newName} onInput={(event) => setNewName(event.currentTarget.value)} />
          <button type="button" class="small" disabled={newName === ''} onClick={() => { onChange(entries.with(newName, initial(planned.rest, form.root) ?? '')); setNewName(''); }}>{t('form.addMember')}</button>
        </div>
      )}
    </>
  );
}

function MapFields({ form, plan: planned, path, draft, onChange, depth, required }: Omit<FieldProps, 'schema'> & { plan: Plan & { control: 'map' } }) {
  const entries = draft instanceof Entries ? draft : EMPTY;
  const set = (index: number, name: string, value: Draft) => onChange(new Entries(entries.pairs.map((pair, at) => (at === index ? [name, value] : pair)), true));
  return (
    <div class="nested">
      {entries.pairs.map(([name, value], index) => (
        <div class="entry" key={index}>
          <input aria-label={t('form.newName')} value={name} onInput={(event) => set(index, event.currentTarget.value, value)} />
          <Field form={form} schema={planned.values} name={name} label={t('form.valueOf', { name })} path={`${path}/${pointerName(name)}`} required={true} draft={value} depth={depth + 1} onChange={(inner) => set(index, name, inner)} />
          <button type="button" class="link small" aria-label={t('form.remove', { name })} onClick={() => { const pairs = entries.pairs.filter((_, at) => at !== index); onChange(pairs.length === 0 && !required ? undefined : new Entries(pairs, true)); }}>✕</button>
        </div>
      ))}
      <button type="button" class="small" onClick={() => onChange(new Entries([...entries.pairs, ['', initial(planned.values, form.root)]], true))}>{t('form.addMember')}</button>
    </div>
  );
}

const MAX_SHOWN_ITEMS = 200;
const MAX_ADDED_ITEMS = 20;

function ListFields({ form, plan: planned, path, name, draft, onChange, depth, required }: Omit<FieldProps, 'schema'> & { plan: Plan & { control: 'list' } }) {
  const items = Array.isArray(draft) ? draft : [];
  const latest = useRef(items);
  latest.current = items;
  const keys = useRef<number[]>([]);
  const lastKey = useRef(0);
  while (keys.current.length < items.length) keys.current.push((lastKey.current += 1));
  const change = (next: Draft[]) => onChange(next.length === 0 && !required ? undefined : next);
  // Adds all required items at once.
  const add = () => {
    const count = Math.min(Math.max(1, planned.first.length - items.length, planned.min - items.length), MAX_ADDED_ITEMS);
    change([...items, ...Array.from({ length: count }, (_, at) => initial(itemSchema(planned, items.length + at), form.root))]);
  };
  const move = (from: number, to: number) => {
    const next = [...items];
    next.splice(to, 0, ...next.splice(from, 1));
    keys.current.splice(to, 0, ...keys.current.splice(from, 1));
    change(next);
  };
  return (
    <div class="nested">
      {items.slice(0, MAX_SHOWN_ITEMS).map((item, index) => (
        <div class="entry" key={keys.current[index]}>
          <Field form={form} schema={itemSchema(planned, index)} name={name} label={itemLabel(planned, index, form)} path={`${path}/${index}`} required={true} draft={item} depth={depth + 1}
            onChange={(value) => change(latest.current.map((old, at) => (at === index ? value : old)))} />
          <span class="entry-tools">
            <button type="button" class="link small" disabled={index === 0} aria-label={t('form.up', { name: String(index + 1) })} onClick={() => move(index, index - 1)}>↑</button>
            <button type="button" class="link small" disabled={index === items.length - 1} aria-label={t('form.down', { name: String(index + 1) })} onClick={() => move(index, index + 1)}>↓</button>
            <button type="button" class="link small" aria-label={t('form.remove', { name: String(index + 1) })} onClick={() => { keys.current.splice(index, 1); change(items.filter((_, at) => at !== index)); }}>✕</button>
          </span>
        </div>
      ))}
      {items.length > MAX_SHOWN_ITEMS && <p class="quiet">{t('form.moreItems', { count: items.length - MAX_SHOWN_ITEMS })}</p>}
      <button type="button" class="small" disabled={items.length >= planned.max} onClick={add}>{t('form.addItem')}</button>
    </div>
  );
}

/** The position of an item, and its title if items differ. */
function itemLabel(planned: Plan & { control: 'list' }, index: number, form: FormContext): string {
  const title = index < planned.first.length ? plan(planned.first[index], form.root).title : undefined;
  return title === undefined ? `${index + 1}` : `${index + 1} ${shortened(title, 60)}`;
}

function UnionField({ form, plan: planned, id, describedBy, draft, onChange, path, name, label, required, depth }: Omit<FieldProps, 'schema'> & { plan: Plan & { control: 'union' }; id: string; describedBy: string | undefined }) {
  const chosen = draft instanceof Chosen ? draft.option : draft === undefined ? -1 : guess(planned, draft, form.root);
  const option = planned.options[chosen];
  const inner = draft instanceof Chosen ? draft.value : draft;
  const placeholder = planned.default === undefined ? t('form.notSet') : t('form.default', { value: shownDefault(planned.default) });
  const isNull = option !== undefined && plan(option.schema, form.root).control === 'null';
  return (
    <>
      <select id={id} aria-label={t('form.variant', { name: label ?? plain(name) })} aria-describedby={describedBy} value={String(chosen)}
        onChange={(event) => {
          const index = Number(event.currentTarget.value);
          const schema = planned.options[index]?.schema;
          onChange(index < 0 ? undefined : new Chosen(index, plan(schema, form.root).control === 'null' ? null : initial(schema, form.root)));
        }}>
        <option value="-1">{placeholder}</option>
        {planned.options.map((option, index) => <option key={index} value={String(index)}>{plain(kindName(option.label))}</option>)}
      </select>
      {option && !isNull && (
        <Field key={chosen} form={form} schema={option.schema} name={name} label={kindName(option.label)} path={path} required={required} draft={inner} depth={depth + 1}
          onChange={(value) => onChange(new Chosen(chosen, value))} />
      )}
    </>
  );
}

function JsonField({ form, path, label, draft, onChange, plan: planned }: { form: FormContext; path: string; label: string; draft: Draft; onChange(draft: Draft): void; plan: Plan }) {
  const id = useId();
  const problem = form.problems.get(path);
  return (
    <div class="field">
      <span class="label-line">
        <label class="label" for={id}>{label}</label>
        <span class="grow" />
        {planned.control === 'object' && draft instanceof RawText && (
          <button type="button" class="link small" onClick={() => onChange(reread(draft) ?? EMPTY)}>{t('form.asForm')}</button>
        )}
      </span>
      <JsonArea id={id} describedBy={problem && `${id}-problem`} invalid={problem !== undefined} draft={draft} onChange={onChange} />
      {problem && <span class="problem" id={`${id}-problem`} role="alert">{plain(problem)}</span>}
    </div>
  );
}

function JsonArea({ id, describedBy, invalid, draft, onChange }: { id: string; describedBy: string | undefined; invalid: boolean; draft: Draft; onChange(draft: Draft): void }) {
  return (
    <textarea id={id} class="code" rows={4} spellcheck={false} aria-describedby={describedBy} aria-invalid={invalid} placeholder="JSON" value={textOf(draft)}
      onInput={(event) => { const text = event.currentTarget.value; onChange(text.trim() === '' ? undefined : new RawText(text)); }} />
  );
}

/** Converts a draft edited as JSON for controls again; unchanged while it is not valid JSON. */
function reread(draft: Draft): Draft {
  if (!(draft instanceof RawText)) return draft;
  try {
    return draftOf(parse(draft.text));
  } catch {
    return draft;
  }
}

const isNumber = (text: string) => /^\s*-?\d+(\.\d+)?([eE][+-]?\d+)?\s*$/.test(text);

/** A default as shown by the control. */
function shownDefault(text: string): string {
  if (text === 'true' || text === 'false') return t(text === 'true' ? 'form.yes' : 'form.no');
  const value = /^"[^]+"$/.test(text) ? (JSON.parse(text) as string) : text;
  return shortened(value.trim() === '' ? text : value, 60);
}

function pointerName(name: string): string {
  return name.replace(/~/g, '~0').replace(/\//g, '~1');
}

function inputType(format: string | undefined, value: string): string {
  switch (format) {
    case 'password':
      return 'password';
    case 'date':
      // A date input cannot show other text.
      return value === '' || /^\d{4}-\d\d-\d\d$/.test(value) ? 'date' : 'text';
    case 'email':
      return 'email';
    case 'uri':
      return 'url';
    default:
      return 'text';
  }
}

function formatHint(format: string | undefined): string | undefined {
  if (format === 'date-time') return '2026-01-31T12:00:00Z';
  if (format === 'time') return '12:00:00Z';
  if (format === 'duration') return 'PT1H30M';
  return format;
}
