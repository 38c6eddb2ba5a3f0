/** The active graph in one line of the status bar. */
import * as vscode from 'vscode';
import { Owner } from '../common/lifecycle';
import type { ActiveGraph } from '../services/activeGraph';
import { keyOf } from '../services/graphUris';
import type { Devices } from '../services/devices';
import { coversPlan, type Measurements } from '../services/measurements';
import type { GraphResults } from '../services/results';
import { readSettings } from '../services/settings';
import { adapterText, planSummary, SOFTWARE_NOTE, speedupText } from './explain';

export class StatusBar extends Owner {
  private readonly item = this.register(
    vscode.window.createStatusBarItem('fusionLens.summary', vscode.StatusBarAlignment.Right, 90),
  );

  constructor(
    private readonly active: ActiveGraph,
    private readonly results: GraphResults,
    private readonly measurements: Measurements,
    private readonly devices: Devices,
  ) {
    super();
    this.item.name = 'Fusion Lens';
    const update = () => this.update();
    this.register(active.onDidChange(update));
    this.register(results.onDidChange(update));
    this.register(measurements.onDidChange(update));
    this.register(devices.onDidChangeNote(update));
    this.update();
  }

  private update(): void {
    const { uri } = this.active;
    const state = uri && this.results.get(keyOf(uri));
    if (!uri || !state) {
      this.item.hide();
      return;
    }
    const key = keyOf(uri);
    const { result, fresh, problem, busy } = state;
    const profile = this.measurements.get(key);
    if (result) {
      const gain = speedupText(result, profile);
      this.item.text = `$(type-hierarchy) ${planSummary(result)}${gain === undefined ? '' : ` · ${gain}`}`;
    } else {
      this.item.text =
        problem === undefined ? '$(type-hierarchy) analysing…' : '$(type-hierarchy) no graph';
    }
    const lines = [
      ...(problem === undefined ? [] : [problem]),
      ...(result && !fresh && busy ? ['Compiling the newest text…'] : []),
      ...(profile ? [`Measured on ${adapterText(profile)}, ${profile.adapter.host}.`] : []),
      ...(result && profile && !coversPlan(result, profile)
        ? ['The kernels changed since: profile again for the speed-up of this plan.']
        : []),
      ...(profile?.adapter.software ? [`A ${SOFTWARE_NOTE}.`] : []),
      this.devices.note(readSettings(uri).device),
      'Show the graph.',
    ];
    this.item.tooltip = lines.join('\n');
    this.item.command = { title: 'Show graph', command: 'fusionLens.showGraph', arguments: [key] };
    this.item.show();
  }
}
