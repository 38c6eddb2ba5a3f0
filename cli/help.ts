/**
 * `--help`, made from the commands' specifications.
 */
import type { CommandSpec, Flag } from './args';
import { table } from './format/table';

export const PROGRAM = 'fusion-lens';

export function overview(commands: readonly CommandSpec[]): string {
  const rows = commands.map((c) => [`  ${c.name} ${c.positional}`, c.summary]);
  return [
    'Shows which machine-learning operators fuse into one GPU kernel, why, why not, and what it gains.',
    '',
    `Usage: ${PROGRAM} <command> <file> [--json] [flags]`,
    '',
    'Commands:',
    ...table(rows, ['left', 'left']),
    '',
    `${PROGRAM} <command> --help tells more about one, ${PROGRAM} --version its version.`,
    '',
    'Exit code: 0 when all held; 1 for a fault in the input, a failed expectation or a failed',
    'verification; 2 for wrong usage; 3 when no GPU adapter could be had.',
  ].join('\n');
}

export function commandHelp(c: CommandSpec): string {
  return [
    c.summary,
    '',
    `Usage: ${[PROGRAM, c.name, c.positional].filter((w) => w !== '').join(' ')} [flags]`,
    ...(c.details ? ['', ...c.details] : []),
    '',
    'Flags:',
    ...table(
      c.flags.map((f) => [`  ${flagText(f)}`, f.doc + (f.repeat ? ' (may be repeated)' : '')]),
      ['left', 'left'],
    ),
  ].join('\n');
}

function flagText(f: Flag): string {
  const short = f.short === undefined ? '' : `-${f.short}, `;
  return `${short}--${f.name}${f.value === undefined ? '' : ` ${f.value}`}`;
}
