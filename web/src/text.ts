// Texts from tools, servers and results are shown as text, whatever they contain. Characters that would reorder or hide
// the text around them are made visible.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export function plain(text: string): string {
  return text.replace(HIDDEN, (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

export function shortened(text: string, length: number): string {
  const clean = plain(text.slice(0, length * 2));
  return clean.length > length ? `${clean.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…` : clean;
}

/** Copies to the clipboard, even if the page is not a secure context. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // Refused: try the older method.
    }
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
