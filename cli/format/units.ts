/**
 * Numbers for people: three significant digits and a unit.
 */
export function bytesText(n: number): string {
  return scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
}

export function flopsText(n: number): string {
  return scaled(n, 1000, ['flop', 'kflop', 'Mflop', 'Gflop', 'Tflop']);
}

export function timeText(us: number): string {
  if (!Number.isFinite(us)) return '–';
  if (us >= 1e6) return `${digits(us / 1e6)} s`;
  if (us >= 1e3) return `${digits(us / 1e3)} ms`;
  return us > 0 && us < 0.1 ? `${digits(us * 1e3)} ns` : `${digits(us)} µs`;
}

export function factorText(x: number): string {
  return Number.isFinite(x) ? `${digits(x)}×` : '–';
}

export function countText(n: number, noun: string, plural = `${noun}s`): string {
  return `${n} ${n === 1 ? noun : plural}`;
}

/** Errors and values, in whatever magnitude they come. */
export function valueText(x: number): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? 'NaN' : x > 0 ? 'inf' : '-inf';
  if (x === 0 || (Number.isInteger(x) && Math.abs(x) < 1e6)) return String(x);
  const a = Math.abs(x);
  return a >= 1e-3 && a < 1e6 ? String(Number(x.toPrecision(5))) : x.toExponential(2);
}

function scaled(n: number, step: number, units: readonly string[]): string {
  if (!Number.isFinite(n)) return '–';
  let i = 0;
  let x = n;
  while (Math.abs(x) >= step && i < units.length - 1) {
    x /= step;
    i++;
  }
  return `${i === 0 ? String(Math.round(x)) : digits(x)} ${units[i] ?? ''}`;
}

function digits(x: number): string {
  const a = Math.abs(x);
  if (a >= 100 || x === 0) return x.toFixed(0);
  return x.toFixed(a >= 10 ? 1 : 2);
}
