// Compares two texts line by line, side by side.

export interface DiffLine {
  change: 'same' | 'removed' | 'added';
  text: string;
}

export interface Pair {
  before: string | null;
  now: string | null;
  isSame: boolean;
}

/** Pairs of lines: each removed line next to its replacement. */
export function pairs(diff: DiffLine[]): Pair[] {
  const rows: Pair[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  const flush = () => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      rows.push({ before: removed[index] ?? null, now: added[index] ?? null, isSame: false });
    }
    removed = [];
    added = [];
  };
  for (const line of diff) {
    if (line.change === 'removed') removed.push(line.text);
    else if (line.change === 'added') added.push(line.text);
    else {
      flush();
      rows.push({ before: line.text, now: line.text, isSame: true });
    }
  }
  flush();
  return rows;
}
