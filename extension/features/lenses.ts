/** CodeLens: one for each line with ops, and a few at the top of the file. */
import * as vscode from 'vscode';
import { Emitter, Owner } from '../common/lifecycle';
import { FUSE_SELECTOR, keyOf } from '../services/graphUris';
import type { Measurements } from '../services/measurements';
import type { Profiler } from '../services/profiler';
import type { GraphResults } from '../services/results';
import { readSettings, SECTION } from '../services/settings';
import { opLines } from './fuseText';
import { type LensFacts, lineLenses, overrideLenses, type TopLens, topLenses } from './lensText';

export class Lenses extends Owner implements vscode.CodeLensProvider {
  private readonly changes = this.register(new Emitter<void>());
  readonly onDidChangeCodeLenses = this.changes.event;

  constructor(
    private readonly results: GraphResults,
    private readonly measurements: Measurements,
    private readonly profiler: Profiler,
  ) {
    super();
    const refresh = () => this.changes.fire();
    this.register(results.onDidChange(refresh));
    this.register(measurements.onDidChange(refresh));
    this.register(profiler.onDidChange(refresh));
    this.register(
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration(`${SECTION}.codeLens`)) refresh();
      }),
    );
    this.register(vscode.languages.registerCodeLensProvider(FUSE_SELECTOR, this));
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const { lensesEnabled, lensDetail } = readSettings(document.uri);
    if (!lensesEnabled) return [];
    const key = keyOf(document.uri);
    const state = this.results.get(key);
    const profile = this.measurements.get(key);
    const facts: LensFacts = {
      fresh: state?.fresh === true && state.documentVersion === document.version,
      detail: lensDetail === 'full' ? 'full' : 'brief',
      ...(state?.result ? { result: state.result } : {}),
      ...(state?.problem === undefined || state.busy ? {} : { problem: state.problem }),
      ...(profile ? { profile } : {}),
    };
    const top = topLenses(facts, this.profiler.state(key)).map(
      (lens) => new vscode.CodeLens(new vscode.Range(0, 0, 0, 0), topCommand(lens, key)),
    );
    if (lensDetail === 'top') return top;
    const told = [...lineLenses(opLines(document.getText()), facts), ...overrideLenses(facts)];
    const lines = told.map(
      ({ line, title, tooltip, nodes }) =>
        new vscode.CodeLens(new vscode.Range(line, 0, line, 0), {
          title,
          tooltip,
          command: nodes.length > 0 ? 'fusionLens.showGraph' : '',
          arguments: [key, nodes],
        }),
    );
    return [...top, ...lines];
  }
}

const TOP_COMMANDS: Readonly<Record<TopLens['action'], string>> = {
  show: 'fusionLens.showGraph',
  profile: 'fusionLens.profile',
  tune: 'fusionLens.tune',
  cancel: 'fusionLens.cancelProfile',
  clear: 'fusionLens.clearMeasurements',
  problems: 'workbench.actions.view.problems',
};

function topCommand({ title, tooltip, action }: TopLens, key: string): vscode.Command {
  const command = TOP_COMMANDS[action];
  return { title, tooltip, command, arguments: action === 'problems' ? [] : [key] };
}
