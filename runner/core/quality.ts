/** How well predictions agree with measurements. */

export interface Pair {
  readonly predicted: number;
  readonly measured: number;
}

export interface Quality {
  /** Spearman's: 1 when the order is right throughout, 0 when it is that of dice. */
  readonly rankCorrelation: number;
  /** Geometric mean of predicted / measured: above 1, times are overestimated. */
  readonly meanRatio: number;
  /** Geometric mean of the factor between the two, whichever is larger: 1 when all agree. */
  readonly meanFactor: number;
}

export function predictionQuality(pairs: readonly Pair[]): Quality {
  const logs = pairs.map((p) => Math.log(p.predicted / p.measured));
  const mean = (list: readonly number[]): number =>
    list.reduce((sum, x) => sum + x, 0) / list.length;
  return {
    rankCorrelation: correlation(
      ranks(pairs.map((p) => p.predicted)),
      ranks(pairs.map((p) => p.measured)),
    ),
    meanRatio: Math.exp(mean(logs)),
    meanFactor: Math.exp(mean(logs.map(Math.abs))),
  };
}

/** From 1; equal values share the mean of their ranks. */
function ranks(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
  const out = new Array<number>(values.length).fill(0);
  for (let i = 0; i < order.length;) {
    let end = i + 1;
    while (end < order.length && values[order[end] ?? 0] === values[order[i] ?? 0]) end++;
    for (let k = i; k < end; k++) out[order[k] ?? 0] = (i + 1 + end) / 2;
    i = end;
  }
  return out;
}

function correlation(a: readonly number[], b: readonly number[]): number {
  const n = a.length;
  const mean = (l: readonly number[]): number => l.reduce((s, x) => s + x, 0) / n;
  const [ma, mb] = [mean(a), mean(b)];
  let ab = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < n; i++) {
    const x = (a[i] ?? 0) - ma;
    const y = (b[i] ?? 0) - mb;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / Math.sqrt(aa * bb);
}
