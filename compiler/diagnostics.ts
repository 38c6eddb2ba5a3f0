/**
 * Diagnostics: faults in user input, as data.
 *
 * A diagnostic names the place, the problem and the way out. Exceptions are for bugs in this
 * program only. Lines and columns count from 0 (as editors' protocols do); the command line prints
 * them from 1.
 */

export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/** Half open: `end` is the position after the last character. */
export interface SourceRange {
  readonly start: SourcePosition;
  readonly end: SourcePosition;
}

export type Severity = 'error' | 'warning' | 'info' | 'hint';

/** A text edit that would settle the diagnostic: the editor offers it as a quick fix. */
export interface QuickFix {
  readonly title: string;
  readonly edits: readonly { readonly range: SourceRange; readonly newText: string }[];
}

export interface Diagnostic {
  readonly severity: Severity;
  /** Stable, UPPER_SNAKE: `UNKNOWN_OP`, `SHAPE_MISMATCH`… */
  readonly code: string;
  readonly message: string;
  readonly range?: SourceRange;
  /** The L0 node or tensor it is about, for formats without source lines. */
  readonly subject?: string;
  readonly fixes?: readonly QuickFix[];
}

export function error(
  code: string,
  message: string,
  range?: SourceRange,
  more?: Partial<Diagnostic>,
): Diagnostic {
  return { severity: 'error', code, message, ...(range ? { range } : {}), ...more };
}

export function warning(
  code: string,
  message: string,
  range?: SourceRange,
  more?: Partial<Diagnostic>,
): Diagnostic {
  return { severity: 'warning', code, message, ...(range ? { range } : {}), ...more };
}

export function info(
  code: string,
  message: string,
  range?: SourceRange,
  more?: Partial<Diagnostic>,
): Diagnostic {
  return { severity: 'info', code, message, ...(range ? { range } : {}), ...more };
}
