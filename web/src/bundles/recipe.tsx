// The recipe builder: a sequence composed of steps. Each step has the form of its tool; a value may refer to arguments
// and to results of earlier steps. A trial calls the steps one by one, so that fields of their results can be selected.
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, type ToolDetail, getTool, may, send, toolPath } from '../api';
import { type Draft, EMPTY, Entries, RawText, draftOf, draftOfPlain, textOf, valueOf } from '../form/draft';
import { SchemaForm } from '../form/form';
import { draftMessage } from '../form/messages';
import { duration, language, t } from '../i18n';
import { type Json, type JsonObject, fromPlain, parse, stringify, toExact, toPlain } from '../json/lossless';
import { ArgumentsEditor } from './arguments';
import { type Known, holds, isReference, resolve, suggestions } from './references';
import { stepSchema } from './schemas';
import { b } from './texts';
import { plain, shortened } from '../text';
import { tools } from '../toolbox';
import { Failure, Notice } from '../ui/parts';
import { type Outcome, ResultView } from '../ui/result';
import { call, failed } from '../screens/tester';

/** One step being edited. */
interface Step {
  key: number;
  id: string;
  tool: string;
  args: Draft;
  /** `forEach`, `if` and similar, as stored. */
  more: JsonObject;
}

export interface Recipe {
  slug: string;
  version: string;
  displayName: string;
  description: string;
  argSchema: Draft;
  steps: Step[];
  output: Draft;
  /** `timeoutMs` and similar, as stored. */
  more: JsonObject;
}

const MAX_TRIED_ITEMS = 20;
let lastKey = 0;

const newStep = (number: number): Step => ({ key: (lastKey += 1), id: `step${number}`, tool: '', args: EMPTY, more: new Map() });

export function newRecipe(): Recipe {
  return { slug: '', version: 'v1', displayName: '', description: '', argSchema: draftOfPlain({ type: 'object', properties: {}, additionalProperties: false }), steps: [newStep(1)], output: undefined, more: new Map() };
}

/** Converts a stored sequence for editing, as a new version or under another name. */
export function recipeOf(stored: Record<string, unknown>): Recipe {
  const text = (name: string) => (typeof stored[name] === 'string' ? stored[name] : '');
  const impl = fromPlain(stored['impl'] ?? {});
  const fields: JsonObject = impl instanceof Map ? impl : new Map();
  const listed = fields.get('steps');
  const steps = (Array.isArray(listed) ? listed : []).filter((step): step is JsonObject => step instanceof Map).map((step) => {
    const own = ['id', 'tool', 'args'];
    return { key: (lastKey += 1), id: String(step.get('id') ?? ''), tool: String(step.get('tool') ?? ''), args: draftOf(step.get('args') ?? new Map()), more: new Map([...step].filter(([name]) => !own.includes(name))) };
  });
  const output = fields.get('output');
  return {
    slug: text('slug'), version: text('version'), displayName: text('displayName'), description: text('description'),
    argSchema: draftOfPlain(stored['argSchema'] ?? {}), steps, output: output === undefined ? undefined : draftOf(output),
    more: new Map([...fields].filter(([name]) => name !== 'steps' && name !== 'output')),
  };
}

/** The body to store, or the problem with it. */
export function bodyOf(recipe: Recipe): { body: Record<string, unknown> | null; problem: string | null } {
  const schema = valueOf(recipe.argSchema);
  const output = valueOf(recipe.output);
  const problems = [...schema.problems, ...output.problems];
  const steps: Json[] = recipe.steps.map((step) => {
    const { value, problems: found } = valueOf(step.args);
    problems.push(...found);
    return new Map<string, Json>([['id', step.id], ['tool', step.tool], ['args', value ?? new Map()], ...step.more]);
  });
  if (problems.length > 0) return { body: null, problem: draftMessage(problems[0]!) };
  const impl = new Map<string, Json>([...recipe.more, ['steps', steps]]);
  if (output.value !== undefined) impl.set('output', output.value);
  const body: Record<string, unknown> = { type: 'sequence', argSchema: toExact(schema.value ?? new Map()), impl: toExact(impl) };
  if (recipe.displayName !== '') body['displayName'] = recipe.displayName;
  if (recipe.description !== '') body['description'] = recipe.description;
  return { body, problem: null };
}

export function RecipeForm({ initial, path, onDone }: { initial: Recipe; path(slug: string, version: string): string; onDone(saved: string | null): void }) {
  const [recipe, setRecipe] = useState(initial);
  const [problem, setProblem] = useState<unknown>(null);
  const [trialArgs, setTrialArgs] = useState<Draft>(EMPTY);
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map());
  const [running, setRunning] = useState<string | null>(null);
  const stop = useRef<AbortController | null>(null);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    form.current?.scrollIntoView({ block: 'start' });
    form.current?.querySelector('input')?.focus({ preventScroll: true });
    return () => stop.current?.abort();
  }, []);
  const change = (part: Partial<Recipe>) => setRecipe({ ...recipe, ...part });
  const changeStep = (key: number, part: Partial<Step>) => change({ steps: recipe.steps.map((step) => (step.key === key ? { ...step, ...part } : step)) });
  const move = (index: number, by: number) => {
    const steps = [...recipe.steps];
    const [step] = steps.splice(index, 1);
    steps.splice(index + by, 0, step!);
    change({ steps });
  };
  const schema = useMemo(() => { const { value } = valueOf(recipe.argSchema); return value instanceof Map ? toPlain(value) : {}; }, [recipe.argSchema]);
  const known = useMemo<Known>(() => {
    const steps = new Map<string, Json>();
    for (const [id, outcome] of outcomes) if (!outcome.isError) steps.set(id, jsonOf(outcome));
    return { args: valueOf(trialArgs).value ?? new Map(), steps };
  }, [outcomes, trialArgs]);

  /** Calls the steps up to this one, each with the earlier results. */
  const tryUntil = async (last: number) => {
    const control = new AbortController();
    stop.current = control;
    const results = new Map<string, Outcome>();
    const values = new Map<string, Json>();
    const args = valueOf(trialArgs).value ?? new Map();
    for (const step of recipe.steps.slice(0, last + 1)) {
      setRunning(step.id);
      const started = performance.now();
      let outcome: Outcome;
      try {
        outcome = await tryStep(step, { args, steps: values }, control.signal);
      } catch (error) {
        outcome = failed(error, control.signal, started);
      }
      results.set(step.id, outcome);
      setOutcomes(new Map(results));
      if (outcome.isError) break;
      values.set(step.id, jsonOf(outcome));
    }
    setRunning(null);
    stop.current = null;
  };

  const save = async () => {
    setProblem(null);
    const { body, problem: found } = bodyOf(recipe);
    if (body === null) {
      setProblem(new Error(found ?? ''));
      return;
    }
    try {
      await send('PUT', path(recipe.slug, recipe.version), body);
      onDone(`${recipe.slug} ${recipe.version}`);
    } catch (error) {
      setProblem(error);
    }
  };

  const problemAt = (pointer: string) => (problem instanceof ApiError && problem.pointer?.startsWith(pointer) ? problem.message : undefined);
  const hasArguments = Object.keys((schema as { properties?: object }).properties ?? {}).length > 0;
  return (
    <form class="card recipe" ref={form} noValidate aria-label={t('recipe.title')} onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <h2>{t('recipe.title')}</h2>
      <div class="row wrap">
        <Text name={b('slug')} value={recipe.slug} onChange={(slug) => change({ slug })} />
        <Text name={b('version')} value={recipe.version} onChange={(version) => change({ version })} />
        <Text name={b('displayName')} value={recipe.displayName} onChange={(displayName) => change({ displayName })} />
      </div>
      <Text name={b('description')} value={recipe.description} onChange={(description) => change({ description })} />
      <ArgumentsEditor draft={recipe.argSchema} problem={problemAt('/argSchema')} onChange={(argSchema) => change({ argSchema })} />
      {hasArguments && (
        <details open>
          <summary>{b('trialFirst')}</summary>
          <SchemaForm form={{ root: schema, problems: new Map(), showAll: false }} draft={trialArgs} onChange={setTrialArgs} />
        </details>
      )}
      <ol class="plain-list steps">
        {recipe.steps.map((step, index) => (
          <li key={step.key} class="card">
            <div class="row wrap">
              <span class="quiet">{index + 1}</span>
              <Text name={b('step')} value={step.id} onChange={(id) => changeStep(step.key, { id })} />
              <ToolPicker value={step.tool} onChange={(tool) => changeStep(step.key, { tool, args: tool === step.tool ? step.args : EMPTY })} />
              <span class="grow" />
              <button type="button" class="small" disabled={index === 0} aria-label={t('form.up', { name: step.id })} onClick={() => move(index, -1)}>↑</button>
              <button type="button" class="small" disabled={index === recipe.steps.length - 1} aria-label={t('form.down', { name: step.id })} onClick={() => move(index, 1)}>↓</button>
              <button type="button" class="small danger" aria-label={t('form.remove', { name: step.id })} onClick={() => change({ steps: recipe.steps.filter((other) => other.key !== step.key) })}>✕</button>
            </div>
            <StepArguments step={step} references={suggestions(schema, recipe.steps.slice(0, index).map((other) => other.id), known, itemOf(step))} onChange={(args) => changeStep(step.key, { args })} />
            <StepOptions step={step} references={suggestions(schema, recipe.steps.slice(0, index).map((other) => other.id), known, null)} onChange={(more) => changeStep(step.key, { more })} />
            {problemAt(`/impl/steps/${index}`) && <p class="problem" role="alert">{plain(problemAt(`/impl/steps/${index}`) ?? '')}</p>}
            <div class="row">
              <button type="button" class="small" disabled={running !== null || step.tool === '' || !may('invoke')} onClick={() => void tryUntil(index)}>{t('recipe.runTo', { name: step.id })}</button>
              {running === step.id && <><span class="quiet" role="status">{t('tester.running')}</span><button type="button" class="small" onClick={() => stop.current?.abort()}>{t('tester.stop')}</button></>}
              {outcomes.has(step.id) && running !== step.id && <span class="quiet">{duration(outcomes.get(step.id)!.durationMs)}</span>}
            </div>
            {outcomes.has(step.id) && <ResultView outcome={outcomes.get(step.id)!} />}
          </li>
        ))}
      </ol>
      <button type="button" onClick={() => change({ steps: [...recipe.steps, newStep(recipe.steps.length + 1)] })}>{t('recipe.add')}</button>
      <details open={recipe.output !== undefined}>
        <summary>{t('recipe.output')}</summary>
        <References references={suggestions(schema, recipe.steps.map((step) => step.id), known, null)} label={t('recipe.insert', { name: b('result') })} onPick={(reference) => change({ output: reference })} />
        <p class="quiet">{b('resultHint')}</p>
        <JsonText label={b('result')} draft={recipe.output} onChange={(output) => change({ output })} />
      </details>
      {problem !== null && <Failure error={problem} />}
      <Notice>{t('recipe.hint')}</Notice>
      <div class="row actions">
        <button type="submit" class="primary" disabled={recipe.slug === '' || recipe.version === '' || recipe.steps.some((step) => step.tool === '' || step.id === '')}>{t('save')}</button>
        <button type="button" onClick={() => onDone(null)}>{t('cancel')}</button>
      </div>
    </form>
  );
}

function jsonOf(outcome: Outcome): Json {
  if (outcome.json === null) return outcome.text ?? null;
  try {
    return parse(outcome.json);
  } catch {
    return outcome.json;
  }
}

const itemOf = (step: Step): string | null => (step.more.has('forEach') ? String(step.more.get('as') ?? 'item') : null);

async function tryStep(step: Step, known: Known, signal: AbortSignal): Promise<Outcome> {
  const condition = step.more.get('if');
  const started = performance.now();
  const skipped = (): Outcome => ({ isError: false, json: stringify(step.more.get('default') ?? null), text: null, parts: [], durationMs: performance.now() - started, note: t('recipe.skipped') });
  if (condition !== undefined) {
    const isTurned = typeof condition === 'string' && condition.startsWith('!');
    const value = resolve(isTurned ? condition.slice(1) : condition, known);
    if (holds(value) === isTurned) return skipped();
  }
  const args = valueOf(step.args).value ?? new Map();
  const list = step.more.get('forEach');
  if (list === undefined) return call(step.tool, stringify(resolve(args, known)), false, signal, () => undefined);
  const items = resolve(list, known);
  if (!Array.isArray(items)) throw new Error(t('recipe.noList'));
  const values: Json[] = [];
  for (const [index, value] of items.slice(0, MAX_TRIED_ITEMS).entries()) {
    const outcome = await call(step.tool, stringify(resolve(args, { ...known, item: { name: itemOf(step) ?? 'item', value, index } })), false, signal, () => undefined);
    if (outcome.isError) return outcome;
    values.push(jsonOf(outcome));
  }
  const note = items.length > MAX_TRIED_ITEMS ? t('recipe.firstItems', { count: MAX_TRIED_ITEMS }) : undefined;
  return { isError: false, json: stringify(values), text: null, parts: [], durationMs: performance.now() - started, note };
}

function Text({ name, value, onChange }: { name: string; value: string; onChange(value: string): void }) {
  return <label class="field"><span class="label">{name}</span><input value={value} autocomplete="off" onInput={(event) => onChange(event.currentTarget.value)} /></label>;
}

function JsonText({ label, draft, onChange }: { label: string; draft: Draft; onChange(draft: Draft): void }) {
  const text = typeof draft === 'string' ? JSON.stringify(draft) : textOf(draft);
  const isWrong = valueOf(draft).problems.length > 0;
  return <label class="field"><span class="label">{label}</span><textarea rows={5} spellcheck={false} aria-invalid={isWrong} value={text} onInput={(event) => onChange(event.currentTarget.value.trim() === '' ? undefined : new RawText(event.currentTarget.value))} /></label>;
}

function ToolPicker({ value, onChange }: { value: string; onChange(tool: string): void }) {
  const [text, setText] = useState(value);
  const id = useId();
  useEffect(() => setText(value), [value]);
  const enabled = useMemo(() => tools.value.filter((tool) => tool.isEnabled), [tools.value]);
  const names = useMemo(() => enabled.map((tool) => tool.name), [enabled]);
  const shown = useMemo(() => enabled.filter((tool) => `${tool.name} ${tool.summary}`.toLowerCase().includes(text.trim().toLowerCase())).slice(0, 100), [enabled, text]);
  return (
    <>
      <label class="field grow">
        <span class="label">{b('tool')}</span>
        <input list={id} value={text} placeholder={b('findTool')} autocomplete="off" spellcheck={false} aria-invalid={text.trim() !== '' && !names.includes(text.trim())}
          onInput={(event) => { const name = event.currentTarget.value.trim(); setText(event.currentTarget.value); if (names.includes(name)) onChange(name); }} onChange={(event) => onChange(event.currentTarget.value.trim())} />
      </label>
      <datalist id={id}>{shown.map((tool) => <option key={tool.name} value={tool.name}>{shortened(tool.summary, 80)}</option>)}</datalist>
    </>
  );
}

/** Describes a reference in words. */
function labelOf(reference: string): string {
  const [, root = '', rest = ''] = /^\$\{(\w+)([^]*)\}$/.exec(reference) ?? [];
  if (root === 'args') return b('ofArgument', { name: rest.replace(/^\./, '') });
  const [, id, path = ''] = /^\.([^.[]+)\.(.*)$/.exec(rest) ?? [];
  if (root !== 'steps' || id === undefined) return root === 'index' ? b('ofIndex') : b('ofItem', { name: `${root}${rest}` });
  if (path === 'ok') return b('ofSuccess', { name: id });
  return path === 'value' ? b('ofStep', { name: id }) : `${id}: ${path.replace(/^value\.?/, '')}`;
}

function References({ references, label, onPick }: { references: string[]; label: string; onPick(reference: string): void }) {
  if (references.length === 0) return null;
  return (
    <select class="small" aria-label={label} value="" onChange={(event) => { const picked = event.currentTarget.value; event.currentTarget.value = ''; if (picked !== '') onPick(picked); }}>
      <option value="">{t('recipe.reference')}</option>
      {references.map((reference) => <option key={reference} value={reference}>{shortened(labelOf(reference), 80)}</option>)}
    </select>
  );
}

/** The form of a step's tool; each argument may be a reference instead. */
function StepArguments({ step, references, onChange }: { step: Step; references: string[]; onChange(args: Draft): void }) {
  const [detail, setDetail] = useState<ToolDetail | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    setDetail(null);
    setError(null);
    if (step.tool === '') return;
    const control = new AbortController();
    getTool(toolPath(step.tool), control.signal).then(setDetail, (problem: unknown) => { if (!control.signal.aborted) setError(problem); });
    return () => control.abort();
  }, [step.tool]);
  if (error !== null) return <Failure error={error} />;
  if (step.tool === '' || detail === null) return null;
  const schema = detail.inputSchema as { properties?: Record<string, unknown>; required?: string[] } & Record<string, unknown>;
  const names = Object.keys(schema.properties ?? {});
  const entries = step.args instanceof Entries ? step.args : EMPTY;
  if (names.length === 0) return <p class="quiet">{t('form.none')}</p>;
  return (
    <div class="step-arguments">
      {names.map((name) => {
        const value = entries.get(name);
        const set = (draft: Draft) => onChange(entries.with(name, draft));
        return (
          <div key={name} class="row argument">
            <div class="grow">
              {isReference(value)
                ? <label class="field"><span class="label-line"><span class="label">{plain(name)}</span><span class="grow" /><button type="button" class="link small" aria-label={t('form.clear', { name: plain(name) })} onClick={() => set(undefined)}>{t('form.unset')}</button></span><input class="code" aria-label={plain(name)} value={value} spellcheck={false} autocomplete="off" onInput={(event) => set(event.currentTarget.value === '' ? undefined : event.currentTarget.value)} /></label>
                : <SchemaForm form={{ root: { ...schema, properties: { [name]: schema.properties?.[name] }, required: (schema.required ?? []).filter((other) => other === name), additionalProperties: false }, problems: new Map(), showAll: false }} draft={value === undefined ? EMPTY : new Entries([[name, value]])} onChange={(draft) => set(draft instanceof Entries ? draft.get(name) : undefined)} />}
            </div>
            <References references={references} label={t('recipe.insert', { name: plain(name) })} onPick={set} />
          </div>
        );
      })}
    </div>
  );
}

function StepOptions({ step, references, onChange }: { step: Step; references: string[]; onChange(more: JsonObject): void }) {
  const schema = useMemo(stepSchema, [language.value]);
  const [draft, setDraft] = useState<Draft>(() => draftOf(step.more));
  const update = (next: Draft) => {
    setDraft(next);
    const { value, problems } = valueOf(next);
    if (problems.length === 0 && value instanceof Map) onChange(value);
  };
  const entries = draft instanceof Entries ? draft : EMPTY;
  return (
    <details open={step.more.size > 0}>
      <summary>{t('recipe.options')}</summary>
      <div class="row">
        <References references={references} label={t('recipe.insert', { name: b('forEach') })} onPick={(reference) => update(entries.with('forEach', reference))} />
        <References references={references} label={t('recipe.insert', { name: b('if') })} onPick={(reference) => update(entries.with('if', reference))} />
      </div>
      <SchemaForm form={{ root: schema, problems: new Map(), showAll: false, titles: true }} draft={draft} onChange={update} />
    </details>
  );
}
