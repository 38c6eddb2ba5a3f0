/**
 * `fusion-lens`: the compiler and the runner from the command line.
 *
 * Exit codes: 0 all held; 1 a fault in the input, a failed expectation or verification; 2 wrong
 * usage; 3 no GPU adapter.
 */
import { parseArgs, suggestion } from './args';
import { type Command, EXIT, type ExitCode } from './commands/command';
import { calibrate } from './commands/calibrate';
import { conformance } from './commands/conformance';
import { explain } from './commands/explain';
import { kernels } from './commands/kernels';
import { profile } from './commands/profile';
import { run } from './commands/run';
import { tune } from './commands/tune';
import { commandHelp, overview, PROGRAM } from './help';
import { processTerminal, type Terminal } from './terminal';
import { programVersion } from './version';

const COMMANDS: readonly Command[] = [explain, kernels, profile, tune, run, conformance, calibrate];

async function main(argv: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const usage = (message: string): ExitCode => {
    terminal.note(`${terminal.paintError('red', 'error:')} ${message}`);
    terminal.note(`${PROGRAM} --help shows the usage.`);
    return EXIT.usage;
  };
  const [word, ...rest] = argv;
  if (word === undefined) return usage('a command is missing');
  if (word === '--help' || word === '-h' || word === 'help') {
    const about = COMMANDS.find((c) => c.name === rest[0]);
    terminal.print(about ? commandHelp(about) : overview(COMMANDS));
    return EXIT.held;
  }
  if (word === '--version' || word === '-V') {
    terminal.print(programVersion());
    return EXIT.held;
  }
  const command = COMMANDS.find((c) => c.name === word);
  if (!command) {
    const names = COMMANDS.map((c) => c.name);
    const kind = word.startsWith('-') ? 'flag before the command' : 'command';
    return usage(`unknown ${kind} ${word}${suggestion(word, names)}`);
  }
  const parsed = parseArgs(command, rest);
  if (!parsed.ok) return usage(parsed.message);
  if (parsed.args.switches.has('help')) {
    terminal.print(commandHelp(command));
    return EXIT.held;
  }
  const cancel = new AbortController();
  let interrupts = 0;
  const interrupt = (): void => {
    // The first Ctrl-C asks, the second insists.
    if (++interrupts > 1) process.exit(130);
    cancel.abort();
  };
  process.on('SIGINT', interrupt);
  try {
    return await command.run({ args: parsed.args, terminal, signal: cancel.signal });
  } finally {
    process.off('SIGINT', interrupt);
  }
}

const terminal = processTerminal();
main(process.argv.slice(2), terminal).then(
  (code) => {
    process.exitCode = code;
  },
  (e: unknown) => {
    // A bug of this program, not of the input.
    terminal.note(`internal error: ${e instanceof Error ? (e.stack ?? e.message) : String(e)}`);
    process.exitCode = EXIT.fault;
  },
);
