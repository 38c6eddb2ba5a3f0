// Rows in subgroups: what the code is, and when it is chosen.

import assert from 'node:assert/strict';
import { compile, type Compilation } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { printKernel } from '../../../compiler/schedule/kernelIr';
import { verifyKernel } from '../../../compiler/schedule/verifyKernel';

const compiled = (source: string, subgroups = true): Compilation =>
  compile(
    { file: 'test.fuse', bytes: new TextEncoder().encode(source) },
    { device: { ...DEFAULT_DEVICE, limits: { ...DEFAULT_DEVICE.limits, subgroups } } },
  );

function textOf(c: Compilation): string {
  const [ir] = c.kernelIr('k0') ?? [];
  assert.ok(ir);
  assert.deepEqual(verifyKernel(ir), []);
  return printKernel(ir);
}

const count = (text: string, what: RegExp): number => text.match(what)?.length ?? 0;

describe('rows in subgroups', () => {
  const SUM = 'input x: f32[300, 1000]\ny = sum(x, axis=1)\noutput y';

  it('have two barriers a reduction, where a tree has one a level', () => {
    const text = textOf(compiled(SUM));
    assert.equal(count(text, /^ {2}barrier$/gm), 2);
    assert.match(text, /let others = add in subgroup y\n {2}y = others/);
    assert.match(text, /let together = imin\(width_, 64\)/);
    assert.match(text, /for part in 0 \.\. idiv\(64, together\)/);
    const tree = textOf(compiled(SUM, false));
    assert.equal(count(tree, /barrier$/gm), 8);
    assert.doesNotMatch(tree, /subgroup/);
  });

  it('exchange among as many as a row has, where a workgroup has several', () => {
    const text = textOf(
      compiled(`${SUM.replace('\noutput y', '')}\nschedule y { threads = 8, rows = 8 }\noutput y`),
    );
    assert.deepEqual(
      [...text.matchAll(/exchange (\d+)/g)].map((m) => m[1]),
      ['1', '2', '4'],
    );
    // No subgroup has fewer than four invocations.
    assert.equal(count(text, /select\(lt\(4, width_\)/g), 1);
  });

  it('need an adapter that has them, and rows along memory', () => {
    const set = (source: string, subgroups: boolean): string =>
      compiled(`${source}\nschedule y { subgroups = 1 }`, subgroups)
        .result.diagnostics.map((d) => d.message)
        .join();
    assert.match(set(SUM, false), /where the adapter has them/);
    assert.equal(set(SUM, true), '');
    const off = compiled(`${SUM}\nschedule y { subgroups = 0 }`);
    assert.doesNotMatch(textOf(off), /subgroup/);
  });
});
