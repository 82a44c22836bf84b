// The interface between the page and its code editor.

export interface Named {
  name: string;
  summary: string;
}

export interface EditorOptions {
  code: string;
  label: string;
  placeholder: string;
  packs(): Named[];
  functions(pack: string): Named[];
  parameters(tool: string): Promise<string[]>;
  signature(tool: string): Promise<string | null>;
  onChange(code: string): void;
  onRun(): void;
  onPlus(): void;
}

export interface EditorHandle {
  code(): string;
  setCode(code: string): void;
  insert(text: string): void;
  showError(line: number | null, message: string): void;
  focus(): void;
  destroy(): void;
}
