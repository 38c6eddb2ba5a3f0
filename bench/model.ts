/**
 * How well the cost model predicts: every kernel of the examples, fused and unfused, as estimated and
 * as measured on the adapter at hand.
 *
 * What matters most is the order (a search that takes the cheaper of two plans needs no more), so the
 * rank correlation comes first; then the mean factor by which estimates are off in one direction, and
 * the mean factor by which they are off at all. Figures are given for the profile in use and, where
 * that was measured, for the shipped one, on the same kernels and the same times.
 */
import { adapterText } from '../cli/gpu';
import { plain, shorten, table } from '../cli/format/table';
import { factorText, timeText } from '../cli/format/units';
import { priceUs } from '../compiler/fusion/price';
import { deviceForAdapter, nearestShipped } from '../runner/core/deviceProfile';
import { predictionQuality, type Quality } from '../runner/core/quality';
import type { AdapterInfo } from '../runner/core/types';
import type { Case } from './compileTimes';
import { profileEach, type Profiled } from './onGpu';

export interface Prediction {
  readonly graph: string;
  readonly plan: 'fused' | 'unfused';
  readonly kernel: string;
  readonly label: string;
  readonly template: string;
  readonly measuredUs: number;
  readonly spreadUs: number;
  readonly predictedUs: number;
  /** By the shipped profile that is nearest. */
  readonly shippedUs: number;
}

export interface ModelQuality {
  readonly adapter?: AdapterInfo;
  /** The name of the profile in use: `measured`, or a shipped one's. */
  readonly profile?: string;
  readonly kernels: readonly Prediction[];
  readonly quality?: Quality;
  readonly shippedQuality?: Quality;
  readonly worst: readonly Prediction[];
  readonly faults: readonly string[];
}

const WORST = 5;

export async function measureModel(
  cases: readonly Case[],
  seconds: number,
  onCase: (name: string) => void,
): Promise<ModelQuality> {
  // Whether results are right is another bench's business.
  const options = { seconds, verify: false };
  const { adapter, device, results, faults } = await profileEach(
    cases,
    options,
    onCase,
    predictionsOf,
  );
  if (!adapter || !device) return { kernels: [], worst: [], faults };
  const kernels = results.flat();
  const of = (f: (k: Prediction) => number): Quality =>
    predictionQuality(kernels.map((k) => ({ predicted: f(k), measured: k.measuredUs })));
  return {
    adapter,
    profile: device.name,
    kernels,
    quality: of((k) => k.predictedUs),
    shippedQuality: of((k) => k.shippedUs),
    worst: [...kernels].sort((a, b) => offBy(b) - offBy(a)).slice(0, WORST),
    faults,
  };
}

/** The factor between prediction and time, whichever is larger. */
function offBy(k: Prediction): number {
  return Math.exp(Math.abs(Math.log(k.predictedUs / k.measuredUs)));
}

function predictionsOf(
  c: Case,
  { compilation, profile }: Profiled,
  adapter: AdapterInfo,
): Prediction[] {
  const { before, after } = compilation.result;
  const shipped = deviceForAdapter(adapter, nearestShipped(adapter));
  const out: Prediction[] = [];
  for (const [plan, view] of [
    ['unfused', before],
    ['fused', after],
  ] as const) {
    const times = new Map(profile[plan].kernels.map((k) => [k.id, k]));
    for (const k of view.kernels) {
      const time = times.get(k.id);
      // Below the clock's step there is nothing to compare with.
      if (!time || !k.counts || !(time.medianUs > 0)) continue;
      out.push({
        graph: c.name,
        plan,
        kernel: k.id,
        label: k.label,
        template: k.template,
        measuredUs: time.medianUs,
        spreadUs: time.spreadUs,
        predictedUs: k.estimatedUs,
        shippedUs: priceUs({ ...k, counts: k.counts }, shipped),
      });
    }
  }
  return out;
}

export function modelTable(m: ModelQuality): string[] {
  if (!m.adapter) return ['No adapter.', ...m.faults];
  const row = (name: string, q: Quality | undefined): string[] => [
    name,
    q ? q.rankCorrelation.toFixed(3) : '–',
    q ? factorText(q.meanRatio) : '–',
    q ? factorText(q.meanFactor) : '–',
  ];
  const measured = m.profile === 'measured';
  const lines = [
    ['profile', 'rank correlation', 'predicted / measured', 'off by'],
    row(measured ? 'measured profile' : `shipped: ${m.profile ?? ''}`, m.quality),
    ...(measured ? [row('shipped', m.shippedQuality)] : []),
  ];
  const worst = m.worst.map((k) => [
    k.graph,
    `${k.kernel} ${shorten(plain(k.label), 50)}`,
    timeText(k.measuredUs),
    timeText(k.predictedUs),
    factorText(k.predictedUs / k.measuredUs),
  ]);
  return [
    `Adapter: ${adapterText(m.adapter)}`,
    `${m.kernels.length} kernels`,
    ...table(lines, ['left', 'right', 'right', 'right']),
    ...(measured ? [] : ['Not calibrated: "fusion-lens calibrate" measures the adapter.']),
    '',
    'Worst predictions',
    ...table(
      [['graph', 'kernel', 'measured', 'predicted', ''], ...worst],
      ['left', 'left', 'right', 'right', 'right'],
    ),
    ...m.faults,
  ];
}
