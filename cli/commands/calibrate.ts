/**
 * `calibrate`: measures the adapter at hand, and keeps what the cost model wants to know of it.
 */
import path from 'node:path';
import type { DeviceProfile } from '../../compiler/result';
import { calibrate as measureAdapter, type Calibration } from '../../runner/core/calibrate';
import { priceUs } from '../../compiler/fusion/price';
import { deviceForAdapter, nearestShipped } from '../../runner/core/deviceProfile';
import type { AdapterInfo } from '../../runner/core/types';
import { profileFile, writeProfile } from '../../runner/node/profileCache';
import { one } from '../args';
import { plain, table } from '../format/table';
import { bytesText, factorText, timeText } from '../format/units';
import { adapterText, noteMeasured, withRunner } from '../gpu';
import { reason } from '../load';
import { jsonText } from '../terminal';
import {
  type Command,
  type Context,
  EXIT,
  type ExitCode,
  HELP_FLAG,
  inputFault,
  JSON_FLAG,
  runnerFault,
  usageFault,
} from './command';

export const calibrate: Command = {
  name: 'calibrate',
  positional: '',
  summary: 'measures the GPU adapter at hand, so that estimates are for it',
  details: [
    'Takes some 15 seconds. The result is kept in the user’s cache folder (FUSION_LENS_CACHE names',
    'another), one file an adapter; profile, run, conformance and the editor use it from then on, and',
    '"--device measured" asks for it by name. Measure with nothing else running.',
  ],
  flags: [
    JSON_FLAG,
    {
      name: 'device-file',
      value: 'FILE.json',
      doc: 'write the profile there instead, for --device FILE.json',
    },
    HELP_FLAG,
  ],
  run,
};

async function run(context: Context): Promise<ExitCode> {
  const { args, terminal, signal } = context;
  const asked = one(args, 'device-file');
  if (asked !== undefined && !/\.json$/i.test(asked))
    return usageFault(context, '--device-file takes a file that ends in .json');
  return withRunner(terminal, async (runner) => {
    const adapter = await runner.adapter();
    if (!adapter.ok) return runnerFault(context, adapter.fault);
    noteMeasured(terminal, adapter.value);
    const { measured, measuredNote: _, ...info } = adapter.value;
    const shipped = deviceForAdapter(info, nearestShipped(info));
    const reply = await measureAdapter(
      runner,
      shipped,
      (s) => terminal.progress(`measuring ${s.step} (${s.done + 1}/${s.total})`),
      signal,
    );
    if (!reply.ok) return runnerFault(context, reply.fault);
    const calibration = reply.value;
    const file = asked ?? profileFile(info);
    try {
      await writeProfile(file, info, calibration.profile);
    } catch (e) {
      return inputFault(context, `can't write ${file}: ${reason(e)}`);
    }
    const before = measured ?? shipped;
    terminal.print(
      args.switches.has('json')
        ? jsonText(calibrationJson(info, calibration, file))
        : calibrationText(info, calibration, before, terminal.paint).join('\n'),
    );
    terminal.note(`wrote ${path.normalize(file)}`);
    return EXIT.held;
  });
}

/** `fusion-lens/calibrate@1`. */
function calibrationJson(adapter: AdapterInfo, c: Calibration, file: string): unknown {
  const { generated, ...micro } = c.measurements;
  return {
    schema: 'fusion-lens/calibrate@1',
    adapter,
    file,
    profile: c.profile,
    error: c.error,
    measurements: micro,
    kernels: generated.map((g) => ({
      label: g.label,
      measuredUs: g.us,
      predictedUs: priceUs(g.kernel, c.profile),
    })),
    times: c.times,
    notes: c.notes,
  };
}

function calibrationText(
  adapter: AdapterInfo,
  c: Calibration,
  before: DeviceProfile,
  paint: Context['terminal']['paint'],
): string[] {
  const row = (name: string, f: (d: DeviceProfile) => string): string[] => [
    `  ${name}`,
    f(c.profile),
    paint('dim', f(before)),
  ];
  const add = (n: number): string => `${Number(n.toPrecision(3))} adds`;
  const rows = [
    row('an empty dispatch', (d) => timeText(d.launchUs)),
    row('memory', (d) => `${Number((d.bytesPerUs / 1000).toPrecision(3))} GB/s`),
    row(
      'arithmetic, as the model counts it',
      (d) => `${Number((d.flopsPerUs / 1000).toPrecision(3))} G/s`,
    ),
    row('invocations that fill it', (d) => String(d.saturatingThreads)),
    row('an access to workgroup memory', (d) => add(d.sharedAccessWork)),
    row('a barrier', (d) => add(d.barrierWork)),
    row('cache', (d) => bytesText(d.cacheBytes)),
  ];
  const { measurements } = c;
  const copies = measurements.copies.map((m) => [
    `  ${bytesText(m.bytes)}`,
    timeText(m.us),
    `${((2 * m.bytes) / m.us / 1000).toPrecision(3)} GB/s`,
  ]);
  const kernels = measurements.generated.map((g) => {
    const predicted = priceUs(g.kernel, c.profile);
    return [
      `  ${plain(g.label)}`,
      timeText(g.us),
      timeText(predicted),
      factorText(predicted / g.us),
    ];
  });
  return [
    paint('bold', adapterText(adapter)),
    ...c.notes.map((n) => `  note  ${plain(n)}`),
    '',
    ...table(
      [['  what', 'measured', `before (${before.name})`], ...rows],
      ['left', 'right', 'right'],
    ),
    '',
    `Copies (multiply-adds in registers alone: ${(measurements.peakFlopsPerUs / 1000).toPrecision(3)} GFLOP/s)`,
    ...table(copies, ['right', 'right', 'right']),
    '',
    `Generated kernels that arithmetic was fitted to: off by a factor of ${c.error.toPrecision(3)} (root mean square)`,
    ...table(
      [['  kernel', 'measured', 'predicted', ''], ...kernels],
      ['left', 'right', 'right', 'right'],
    ),
  ];
}
