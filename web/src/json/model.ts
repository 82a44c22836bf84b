// A JSON value as a list of visible rows: a tree in which some nodes are open. Large values live in the worker, so that
// the page only holds the rows it shows.
import { type Json, NumberText, parse, stringify } from './lossless';

export type ValueKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null';

/** One visible line of the tree. */
export interface Row {
  depth: number;
  /** A member's name, or an item's index. */
  key: string | number | null;
  kind: ValueKind;
  /** The value, shortened; empty for containers. */
  text: string;
  /** Number of members or items of a container. */
  size: number;
  isOpen: boolean;
}

/** Records as a table. */
export interface Table {
  columns: string[];
  rows: number;
}

interface Node {
  key: string | number | null;
  value: Json;
  depth: number;
  isOpen: boolean;
}

const SHOWN_CHARS = 300;
const OPEN_AT_START = 200;
const MAX_COLUMNS = 40;
const MAX_OPEN_ROWS = 2_000_000;
const TABLE_SAMPLE = 200;

export class JsonModel {
  private rowsShown: Node[];
  private readonly columns: string[] | null;

  constructor(readonly root: Json) {
    this.rowsShown = [{ key: null, value: root, depth: 0, isOpen: false }];
    this.toggle(0);
    // Small values are opened one level further, as long as they stay readable.
    const inner = this.rowsShown.filter((node) => node.depth === 1);
    const total = inner.reduce((sum, node) => sum + sizeOf(node.value), 0);
    if (inner.length <= 20 && total <= OPEN_AT_START) {
      for (let index = this.rowsShown.length - 1; index > 0; index -= 1) this.toggle(index);
    }
    this.columns = columnsOf(root);
  }

  static parse(text: string): JsonModel {
    return new JsonModel(parse(text));
  }

  get count(): number {
    return this.rowsShown.length;
  }

  get table(): Table | null {
    return this.columns && Array.isArray(this.root) ? { columns: this.columns, rows: this.root.length } : null;
  }

  rows(from: number, to: number): Row[] {
    return this.rowsShown.slice(from, to).map((node) => ({
      depth: node.depth,
      key: typeof node.key === 'string' ? shorten(node.key) : node.key,
      kind: kindOf(node.value),
      text: preview(node.value),
      size: sizeOf(node.value),
      isOpen: node.isOpen,
    }));
  }

  cells(from: number, to: number): string[][] {
    if (!this.columns || !Array.isArray(this.root)) return [];
    return this.root.slice(from, to).map((record) =>
      this.columns!.map((column) => {
        const value = record instanceof Map ? record.get(column) : undefined;
        if (value === undefined) return '';
        return typeof value === 'string' ? shorten(value) : shorten(stringify(value));
      }),
    );
  }

  /** Opens or closes a row; returns the new number of rows. */
  toggle(index: number): number {
    const node = this.rowsShown[index];
    if (node === undefined || sizeOf(node.value) === 0) return this.count;
    if (node.isOpen) {
      let end = index + 1;
      while (end < this.rowsShown.length && this.rowsShown[end]!.depth > node.depth) end += 1;
      this.rowsShown = this.rowsShown.slice(0, index + 1).concat(this.rowsShown.slice(end));
      node.isOpen = false;
      return this.count;
    }
    if (this.count + sizeOf(node.value) > MAX_OPEN_ROWS) return this.count;
    const depth = node.depth + 1;
    const inner: Node[] = [];
    if (Array.isArray(node.value)) node.value.forEach((value, key) => inner.push({ key, value, depth, isOpen: false }));
    else if (node.value instanceof Map) for (const [key, value] of node.value) inner.push({ key, value, depth, isOpen: false });
    this.rowsShown = this.rowsShown.slice(0, index + 1).concat(inner, this.rowsShown.slice(index + 1));
    node.isOpen = true;
    return this.count;
  }

  /** Finds the next row from `from` on whose key or value contains the text; opens its parents. -1 if there is none. */
  find(text: string, from: number): number {
    const wanted = text.toLowerCase();
    const matches = (node: Node) =>
      (node.key !== null && String(node.key).toLowerCase().includes(wanted)) || scalarText(node.value).toLowerCase().includes(wanted);
    for (let index = from; index < this.count; index += 1) {
      const node = this.rowsShown[index]!;
      if (matches(node)) return index;
      if (!node.isOpen && sizeOf(node.value) > 0 && contains(node.value, wanted)) this.toggle(index);
    }
    return -1;
  }

  /** The JSON text of a row's value. */
  text(index: number, indent: number): string {
    const node = this.rowsShown[index];
    return node === undefined ? '' : stringify(node.value, indent);
  }
}

function contains(root: Json, wanted: string): boolean {
  const stack: Json[] = [root];
  while (stack.length > 0) {
    const value = stack.pop()!;
    if (Array.isArray(value)) for (const item of value) stack.push(item);
    else if (value instanceof Map) {
      for (const [name, inner] of value) {
        if (name.toLowerCase().includes(wanted)) return true;
        stack.push(inner);
      }
    } else if (scalarText(value).toLowerCase().includes(wanted)) return true;
  }
  return false;
}

function columnsOf(root: Json): string[] | null {
  if (!Array.isArray(root) || root.length === 0) return null;
  const columns = new Set<string>();
  for (const record of root.slice(0, TABLE_SAMPLE)) {
    if (!(record instanceof Map)) return null;
    for (const name of record.keys()) columns.add(name);
    if (columns.size > MAX_COLUMNS) return null;
  }
  return columns.size > 0 ? [...columns] : null;
}

function kindOf(value: Json): ValueKind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (value instanceof Map) return 'object';
  if (value instanceof NumberText) return 'number';
  return typeof value as 'string' | 'number' | 'boolean';
}

function sizeOf(value: Json): number {
  if (Array.isArray(value)) return value.length;
  return value instanceof Map ? value.size : 0;
}

function scalarText(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value) || value instanceof Map) return '';
  return String(value);
}

function preview(value: Json): string {
  return typeof value === 'string' ? shorten(value) : scalarText(value);
}

function shorten(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}
