/**
 * What every command has in common: its form, its context, its exit codes and shared flags.
 */
import type { Compilation } from '../../compiler';
import type { Diagnostic } from '../../compiler/diagnostics';
import type { RunnerFault } from '../../runner/core/types';
import type { CommandSpec, Flag, ParsedArgs } from '../args';
import { plain } from '../format/table';
import type { Terminal } from '../terminal';

export const EXIT = { held: 0, fault: 1, usage: 2, noAdapter: 3 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export interface Context {
  readonly args: ParsedArgs;
  readonly terminal: Terminal;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}

export interface Command extends CommandSpec {
  run(context: Context): Promise<ExitCode>;
}

export const HELP_FLAG: Flag = { name: 'help', short: 'h', doc: 'show this' };
export const JSON_FLAG: Flag = { name: 'json', doc: 'JSON to standard output' };
export const DIM_FLAG: Flag = {
  name: 'dim',
  value: 'NAME=SIZE',
  repeat: true,
  doc: 'the value of a symbolic size',
};
export const DEVICE_FLAG: Flag = {
  name: 'device',
  value: 'NAME|FILE.json',
  doc: 'the device that costs are estimated for: a shipped profile, "measured", or a file with one',
};
export const OUT_FLAG: Flag = {
  name: 'output',
  short: 'o',
  value: 'DIR',
  doc: 'write files there',
};
export const FORCE_FLAG: Flag = { name: 'force', doc: 'replace files that exist' };
export const SEED_FLAG: Flag = {
  name: 'seed',
  value: 'N',
  number: { min: 0, max: 2 ** 32 - 1, integer: true },
  doc: 'the seed of made-up contents',
};
export const RANDOM_WEIGHTS_FLAG: Flag = {
  name: 'random-weights',
  doc: 'seeded random numbers for all weights, also for those in the file',
};

export function usageFault(context: Context, message: string): ExitCode {
  context.terminal.note(`${context.terminal.paintError('red', 'error:')} ${plain(message)}`);
  return EXIT.usage;
}

export function inputFault(context: Context, message: string): ExitCode {
  context.terminal.note(`${context.terminal.paintError('red', 'error:')} ${plain(message)}`);
  return EXIT.fault;
}

export function runnerFault(context: Context, fault: RunnerFault): ExitCode {
  const kernel = fault.kernel === undefined ? '' : ` (kernel ${fault.kernel})`;
  inputFault(context, `${fault.code}: ${fault.message}${kernel}`);
  if (fault.advice !== undefined) context.terminal.note(plain(fault.advice));
  return fault.code === 'NO_ADAPTER' || fault.code === 'NO_NODE' ? EXIT.noAdapter : EXIT.fault;
}

export function hasErrors(c: Compilation): boolean {
  return c.result.diagnostics.some((d) => d.severity === 'error');
}

/** `file:3:5: error CODE: message`, counted from 1. */
export function diagnosticText(
  file: string,
  d: Diagnostic,
  paint: Terminal['paint'] = (_, text) => text,
): string {
  const at = d.range ? `:${d.range.start.line + 1}:${d.range.start.column + 1}` : '';
  const colour = d.severity === 'error' ? 'red' : d.severity === 'warning' ? 'yellow' : 'cyan';
  return `${plain(file)}${at}: ${paint(colour, d.severity)} ${d.code}: ${plain(d.message)}`;
}

/** For commands whose result isn't about diagnostics: those that matter, to standard error. */
export function noteDiagnostics(context: Context, c: Compilation): void {
  for (const d of c.result.diagnostics)
    if (d.severity === 'error' || d.severity === 'warning')
      context.terminal.note(diagnosticText(c.result.file, d, context.terminal.paintError));
}
