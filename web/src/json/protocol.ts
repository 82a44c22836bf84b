// The requests of the page to its worker.

export type Request =
  | { op: 'open'; text: string | ArrayBuffer }
  | { op: 'close'; model: number }
  | { op: 'rows' | 'cells'; model: number; from: number; to: number }
  | { op: 'toggle'; model: number; index: number }
  | { op: 'find'; model: number; text: string; from: number }
  | { op: 'text'; model: number; index: number; indent: number }
  | { op: 'validate'; schema: unknown; value: unknown };

/** A problem with arguments. */
export interface Problem {
  /** A JSON pointer to the value. */
  path: string;
  keyword: string;
  /** A JSON pointer to the keyword in the schema. */
  at: string;
  message: string;
}
