/** What the keys mean inside a drawing. */
import type { Step } from '../state/walk';

export type Command =
  | { readonly kind: 'walk'; readonly step: Step }
  /** Select; once more: open. */
  | { readonly kind: 'choose' }
  | { readonly kind: 'fold' }
  | { readonly kind: 'clear' }
  | { readonly kind: 'zoom'; readonly factor: number }
  | { readonly kind: 'fit' };

const ZOOM_STEP = 1.3;

export function commandOf(event: {
  readonly key: string;
  readonly altKey: boolean;
  readonly shiftKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
}): Command | undefined {
  // Those belong to the editor.
  if (event.ctrlKey || event.metaKey) return undefined;
  const walk = (step: Step): Command => ({ kind: 'walk', step });
  switch (event.key) {
    case 'ArrowDown':
      return walk(event.altKey ? 'into' : event.shiftKey ? 'edgeDown' : 'down');
    case 'ArrowUp':
      return walk(event.altKey ? 'outOf' : event.shiftKey ? 'edgeUp' : 'up');
    case 'ArrowLeft':
      return walk('left');
    case 'ArrowRight':
      return walk('right');
    case 'Enter':
      return { kind: 'choose' };
    case ' ':
      return { kind: 'fold' };
    case 'Escape':
      return { kind: 'clear' };
    case '+':
    case '=':
      return { kind: 'zoom', factor: ZOOM_STEP };
    case '-':
      return { kind: 'zoom', factor: 1 / ZOOM_STEP };
    case '0':
      return { kind: 'fit' };
    default:
      return undefined;
  }
}
