/** Order statistics of measured times. */

export interface Summary {
  readonly median: number;
  readonly min: number;
  /** Half width of the 95 % confidence interval of the median. */
  readonly spread: number;
  readonly samples: number;
}

export function summarise(samples: readonly number[]): Summary {
  const sorted = [...samples].sort((a, b) => a - b);
  const n = sorted.length;
  const at = (i: number): number => sorted[Math.max(0, Math.min(n - 1, i))] ?? 0;
  if (n === 0) return { median: 0, min: 0, spread: 0, samples: 0 };
  const middle = n >> 1;
  const median = n % 2 === 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2;
  // The ranks between which the true median lies come from the binomial distribution.
  const reach = 0.98 * Math.sqrt(n);
  const low = at(Math.floor(n / 2 - reach));
  const high = at(Math.ceil(n / 2 + reach) - 1);
  return { median, min: at(0), spread: (high - low) / 2, samples: n };
}

/** The largest step that all differences of the readings (integers, ns) are multiples of. */
export function quantumOf(readings: readonly bigint[]): bigint {
  let g = 0n;
  for (let i = 1; i < readings.length; i++) {
    let a = (readings[i] ?? 0n) - (readings[i - 1] ?? 0n);
    if (a < 0n) a = -a;
    while (a !== 0n) [g, a] = [a, g % a];
  }
  return g;
}
