// The REST API as used by the page. Every address is same-origin; the token, if one is needed, is sent in a header, so
// that no other site can use it.
import { signal } from '@preact/signals';
import { fromPlain, hasLongNumbers, parse, stringify, toExact } from './json/lossless';
import type { ChartData } from './ui/chart';

export type Scope = 'read' | 'invoke' | 'admin';
export type ToolKind = 'native' | 'python' | 'mcp' | 'bundle';

export interface Session {
  version: string;
  project?: string;
  tokenRequired: boolean;
  scopes: Scope[];
}

export interface PackRow {
  name: string;
  kind: ToolKind;
  description: string;
  isEnabled: boolean;
  isSwitchable: boolean;
  toolCount: number;
  /** Where it is defined: a file, a server, a bundle's id. */
  origin?: string;
  note?: string;
}

export interface ToolRow {
  /** `pack.function` */
  name: string;
  pack: string;
  kind: ToolKind;
  summary: string;
  isEnabled: boolean;
  disabledReason?: string;
  tags?: string[];
}

export interface ToolDetail extends ToolRow {
  description: string;
  signature: string;
  inputSchema: unknown;
  outputSchema?: unknown;
  returns?: string;
  learned?: { times: number; shape: string };
  example?: string;
  origin?: string;
  versions?: { version: string; isEnabled: boolean; bundleID: string; slug: string; modifiedAt: string }[];
  use: { calls: number; errors: number; averageMs: number; lastAt?: string; errorTypes?: Record<string, number>; chart?: ChartData };
  recent: CallEvent[];
  failures: CallEvent[];
}

export interface SearchHit {
  kind: 'tool' | 'pack' | 'snippet' | 'alias';
  name: string;
  summary: string;
}

/** One call or run, active or ended. */
export interface CallEvent {
  id: number;
  kind: 'call' | 'run';
  run: string;
  name: string;
  /** When it ended, or when it started while it is active. */
  at: string;
  isUnderWay: boolean;
  /** Duration, or the time elapsed when this was reported. */
  durationMs?: number;
  caller: string;
  /** Who it is for: a token's name, a subject, or `stdio`, `local`, `anyone`. */
  principal: string;
  /** The server that runs it, if several share state. */
  node?: string;
  client?: string;
  door: string;
  error?: string;
  detail?: string;
  charsIn: number;
  charsOut: number;
}

export interface Part {
  kind: string;
  mimeType?: string;
  data?: string;
  text?: string;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint?: string,
    /** Pointer to the mistake in the body. */
    readonly pointer?: string,
  ) {
    super(message);
  }
}

const TOKEN_KEY = 'onetool.token';

function storedToken(): string | null {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

export const token = signal<string | null>(storedToken());
export const session = signal<Session | null>(null);

export function keepToken(value: string | null) {
  token.value = value;
  try {
    if (value === null) sessionStorage.removeItem(TOKEN_KEY);
    else sessionStorage.setItem(TOKEN_KEY, value);
  } catch {
    // Without storage, the token lasts as long as the page.
  }
}

export const may = (scope: Scope): boolean => session.value?.scopes.includes(scope) ?? false;

function headers(extra: Record<string, string> = {}): Headers {
  const result = new Headers(extra);
  if (token.value !== null) result.set('Authorization', `Bearer ${token.value}`);
  return result;
}

interface Options {
  method?: string;
  /** JSON text, sent unchanged. */
  body?: string;
  /** A file to send instead. */
  bytes?: Blob;
  type?: string;
  signal?: AbortSignal;
  accept?: string;
  /** The language of names and descriptions, instead of the browser's. */
  language?: string;
}

export async function request(path: string, options: Options = {}): Promise<Response> {
  const extra: Record<string, string> = { Accept: options.accept ?? 'application/json' };
  if (options.language !== undefined) extra['Accept-Language'] = options.language;
  if (options.body !== undefined || options.bytes !== undefined) extra['Content-Type'] = options.type ?? 'application/json';
  let response: Response;
  try {
    response = await fetch(path, {
      method: options.method ?? 'GET',
      headers: headers(extra),
      body: options.bytes ?? options.body,
      signal: options.signal,
      credentials: 'omit',
      cache: 'no-store',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, 'offline', 'the server does not answer');
  }
  if (response.ok) return response;
  if (response.status === 401) session.value = session.value && { ...session.value, scopes: [] };
  throw await failure(response);
}

async function failure(response: Response): Promise<ApiError> {
  try {
    const body = (await response.json()) as { error?: { code: string; message: string; hint?: string; pointer?: string } };
    if (body.error) return new ApiError(response.status, body.error.code, body.error.message, body.error.hint, body.error.pointer);
  } catch {
    // The answer is not from our API; only the status is used.
  }
  return new ApiError(response.status, 'http', `HTTP ${response.status}`);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await request(path, { signal })).json()) as T;
}

/** Gets a document to edit: all stored languages, with exact numbers. */
export async function getStored<T>(path: string): Promise<T> {
  return exact(await (await request(path, { language: 'und' })).text()) as T;
}

/** Gets a tool, with exact numbers in its schemas. */
export async function getTool(path: string, signal?: AbortSignal): Promise<ToolDetail> {
  const text = await (await request(path, { signal })).text();
  const tool = JSON.parse(text) as ToolDetail;
  if (!hasLongNumbers(text)) return tool;
  const { inputSchema, outputSchema } = exact(text) as ToolDetail;
  return { ...tool, inputSchema, outputSchema };
}

const exact = (text: string): unknown => (hasLongNumbers(text) ? toExact(parse(text)) : JSON.parse(text));

export async function send<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await request(path, { method, body: body === undefined ? undefined : stringify(fromPlain(body)) });
  const text = await response.text();
  return (text === '' ? null : JSON.parse(text)) as T;
}

/** One server-sent event. */
export interface StreamEvent {
  event: string;
  data: string;
}

/** Reads server-sent events from a response. */
export async function* events(response: Response): AsyncGenerator<StreamEvent> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let pieces: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const text = decoder.decode(value, { stream: true });
      // Joined only when an event ends in this chunk: a large event arrives in many.
      pieces.push(text);
      if (!text.includes('\n')) continue;
      let buffer = pieces.join('');
      let end = buffer.indexOf('\n\n');
      while (end >= 0) {
        const event = parseEvent(buffer.slice(0, end));
        if (event) yield event;
        buffer = buffer.slice(end + 2);
        end = buffer.indexOf('\n\n');
      }
      pieces = [buffer];
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function parseEvent(block: string): StreamEvent | null {
  let event = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) event = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
  }
  return data.length > 0 ? { event, data: data.join('\n') } : null;
}

export const segment = encodeURIComponent;
export const toolPath = (name: string): string => `api/tools/${segment(name)}`;
