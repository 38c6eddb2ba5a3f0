/** Races on a clock that a test sets: who is timed how often, and who leaves. */
import assert from 'node:assert/strict';
import { race, type RaceClock } from '../../../runner/core/trial';

interface Runs {
  readonly us: number;
  count: number;
}

async function raced(
  base: number,
  others: readonly number[],
  seconds: number,
): Promise<{ outcomes: readonly (readonly [string, number])[]; runs: number[]; spentMs: number }> {
  let ms = 0;
  const clock: RaceClock<Runs> = {
    whole(loaded, repeats) {
      loaded.count += repeats;
      ms += (loaded.us * repeats) / 1000;
      return Promise.resolve(loaded.us);
    },
    async repeatsFor(count, measure) {
      const repeats = new Array<number>(count).fill(1);
      return { repeats, times: await measure(repeats) };
    },
  };
  const racers = [base, ...others].map((us, i) => ({ id: `${i}`, loaded: { us, count: 0 } }));
  const [first, ...rest] = racers;
  assert.ok(first);
  const host = {
    ...({ gpu: undefined, kind: 'node', name: 'here' } as const),
    ...{ now: () => ms, pause: () => Promise.resolve() },
  };
  const watch = { progress: () => undefined, working: () => undefined };
  const signal = {
    ...{ aborted: false },
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  };
  const r = await race(first, rest, clock, { iterations: 60, seconds }, host, watch, signal);
  return {
    outcomes: r.others.map((o) => [o.id, o.ok ? o.speedup : NaN] as const),
    runs: racers.map(({ loaded }) => loaded.count),
    spentMs: ms,
  };
}

describe('a race', () => {
  it('times all alike while they are close, and ends when the ratios are certain', async () => {
    const { outcomes, runs } = await raced(1000, [900, 1100], 10);
    assert.deepEqual(outcomes, [
      ['1', 1000 / 900],
      ['2', 1000 / 1100],
    ]);
    assert.ok(runs.every((n) => n === runs[0]));
  });

  it('drops who is hopeless after its first runs', async () => {
    const { outcomes, runs } = await raced(1000, [900, 5000, 700_000], 10);
    assert.deepEqual(outcomes[1], ['2', 0.2]);
    assert.equal(runs[2], 2);
    // A slow run is warm at once.
    assert.equal(runs[3], 1);
  });

  it('starts nobody when the time is up, but for the first', async () => {
    const { outcomes, spentMs } = await raced(300_000, [290_000, 310_000, 280_000], 0.5);
    assert.deepEqual(
      outcomes.map(([id]) => id),
      ['1'],
    );
    assert.ok(spentMs < 6 * 300 + 6 * 290, `${spentMs} ms`);
  });
});
