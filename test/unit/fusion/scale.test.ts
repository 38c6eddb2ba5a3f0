/**
 * How the search's work grows: counted, not timed, so that a slow machine fails nothing.
 */
import assert from 'node:assert/strict';
import { generate, GRAPH_KINDS } from '../../../bench/graphs';
import { searched } from './fixture';

interface Work {
  readonly computes: number;
  /** Pairs of groups judged. */
  readonly judged: number;
  /** Questions to the memo, and those that needed code to be built. */
  readonly asked: number;
  readonly built: number;
  /** Edges gone along in searches for cycles. */
  readonly visited: number;
}

function work(text: string): Work {
  const { program, search, grouping } = searched(text);
  return {
    computes: program.computes.length,
    judged: search.judged,
    asked: search.memo.counts.asked,
    built: search.memo.counts.built,
    visited: grouping.visited,
  };
}

/** `more` is the work on `factor` times as much: it may grow a little faster, for what stands at the ends. */
function assertLinear(less: Work, more: Work, what: string): void {
  const factor = more.computes / less.computes;
  for (const count of ['judged', 'asked', 'built', 'visited'] as const) {
    const most = 1.3 * factor * less[count] + 50;
    assert.ok(
      more[count] <= most,
      `${what}: ${count} grew from ${less[count]} to ${more[count]} while the program grew ${factor.toFixed(1)} times`,
    );
  }
}

/** Layers of all different widths: nothing repeats. */
function unlike(layers: number): string {
  const width = (i: number): number => 16 + 4 * i;
  const lines = [`input x0: f32[64, ${width(0)}]`];
  for (let i = 0; i < layers; i++) {
    lines.push(`param w${i}: f32[${width(i)}, ${width(i + 1)}]`);
    lines.push(`param b${i}: f32[${width(i + 1)}]`);
  }
  for (let i = 0; i < layers; i++) {
    lines.push(`h${i} = relu(x${i} @ w${i} + b${i})`);
    lines.push(`x${i + 1} = softmax(h${i}, axis=-1) * h${i}`);
  }
  return [...lines, `output x${layers}`].join('\n');
}

describe('The search at scale', () => {
  for (const kind of GRAPH_KINDS) {
    it(`works in proportion to the graph: ${kind}`, () => {
      // Where nothing repeats, all of it is built; a tree of sums must be larger than its groups.
      const most = kind === 'shapes' ? 400 : kind === 'fan' ? 8000 : 4000;
      const small = work(generate(kind, most / 4));
      const large = work(generate(kind, most));
      assertLinear(small, large, kind);
      // Blocks repeat, but for their numbers: the larger graph has nothing new to build.
      if (kind !== 'shapes' && kind !== 'fan')
        assert.ok(large.built <= small.built + 10, `${small.built} and ${large.built} built`);
      assert.ok(large.judged <= 4 * large.computes, `${large.judged} judged`);
    });
  }

  it('works in proportion to the graph where no two blocks are alike', () => {
    const small = work(unlike(12));
    const large = work(unlike(60));
    assertLinear(small, large, 'unlike layers');
    assert.ok(large.built <= 8 * large.computes, `${large.built} built`);
  });

  it('a value with very many readers doesn’t pair them all', () => {
    const fan = (n: number): string => {
      const lines = ['input x: f32[256, 64]', 'a = tanh(x)'];
      for (let i = 0; i < n; i++) {
        lines.push(`param w${i}: f32[64, 64]`, `y${i} = a @ w${i}`, `output y${i}`);
      }
      return lines.join('\n');
    };
    assertLinear(work(fan(50)), work(fan(400)), 'readers');
  });

  it('shortcuts that nest are looked through in proportion to their length', () => {
    // As in a U-net: the first layer's result goes to the last, the second's to the last but one.
    const unet = (n: number): string => {
      const lines = ['input x0: f32[64, 64]'];
      for (let i = 0; i < 2 * n; i++) lines.push(`param w${i}: f32[64, 64]`);
      for (let i = 0; i < n; i++) lines.push(`x${i + 1} = relu(x${i} @ w${i})`);
      for (let i = n; i < 2 * n; i++) lines.push(`x${i + 1} = relu(x${i} @ w${i}) + x${2 * n - i}`);
      return [...lines, `output x${2 * n}`].join('\n');
    };
    const small = work(unet(20));
    const large = work(unet(80));
    assert.ok(large.judged <= 4.5 * small.judged + 50, `${large.judged} judged`);
    // Each of n shortcuts has a path of up to n groups around it.
    assert.ok(large.visited <= 16 * 2 * small.visited + 50, `${large.visited} visited`);
  });
});
