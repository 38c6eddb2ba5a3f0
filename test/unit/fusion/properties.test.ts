/**
 * What must hold of every plan, over random programs: each edge has its decision and each cut its
 * reasons; adapter limits hold, whatever they are; and the plan depends on the graph alone, not on the
 * run or on the order in which independent statements stand.
 */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { verifyProgram } from '../../../compiler/ir/verify';
import type { CompileResult, DeviceProfile } from '../../../compiler/result';
import { printKernel } from '../../../compiler/schedule/kernelIr';
import { verifyExecPlan, verifyKernel } from '../../../compiler/schedule/verifyKernel';
import { randomNumbers, randomProgram } from '../../gpu/programs';

const PROGRAMS = 150;

function resultOf(source: string, device: DeviceProfile = DEFAULT_DEVICE): CompileResult {
  const bytes = new TextEncoder().encode(source);
  return compile({ file: 'test.fuse', bytes }, { device }).result;
}

/** Which ops share a kernel, without the kernels' numbers. */
function grouping(r: CompileResult): string[] {
  return r.after.kernels.map((k) => [...k.nodes].sort().join(' ')).sort();
}

/** The same statements in another order that defines everything before it is used. */
function shuffled(source: string, random: () => number): string {
  const lines = source.split('\n').filter((l) => l !== '');
  const statements = lines.filter((l) => /^t\d+ =/.test(l));
  const done = new Set<string>();
  const out: string[] = [];
  while (out.length < statements.length) {
    const ready = statements.filter((s) => {
      const [name = '', text = ''] = s.split(/ = (.*)/);
      const uses = text.match(/\bt\d+\b/g) ?? [];
      return !done.has(name) && uses.every((u) => done.has(u));
    });
    const next = ready[Math.floor(random() * ready.length)] ?? '';
    out.push(next);
    done.add(next.split(' = ')[0] ?? '');
  }
  const declarations = lines.filter((l) => /^(input|param)/.test(l));
  const outputs = lines.filter((l) => l.startsWith('output'));
  return [...declarations, ...out, ...outputs, ''].join('\n');
}

describe('every plan', function () {
  this.timeout(120_000);

  it('decides every edge, and says why for each that is cut', () => {
    // Where launches cost next to nothing, small tensors too leave something to weigh.
    const device = { ...DEFAULT_DEVICE, launchUs: 0.02, saturatingThreads: 32 };
    let cut = 0;
    for (let seed = 0; seed < 4 * PROGRAMS; seed++) {
      const source = randomProgram(seed);
      const r = resultOf(source, device);
      const producer = new Map(r.graph.nodes.flatMap((n) => n.results.map((t) => [t, n.id])));
      for (const n of r.graph.nodes) {
        for (const t of new Set(n.operands)) {
          const from = t === undefined ? undefined : producer.get(t);
          if (from === undefined) continue;
          const d = r.decisions.find((x) => x.from === from && x.to === n.id && x.tensor === t);
          assert.ok(d, `no decision on ${from} -> ${n.id} in\n${source}`);
          if (d.fused) continue;
          cut++;
          assert.ok(d.verdicts.length > 0, `no verdict on ${from} -> ${n.id} in\n${source}`);
          for (const v of d.verdicts) {
            assert.match(v.message, /\w/);
            assert.ok(v.counterfactual, `${v.code} without a counterfactual`);
            assert.ok(v.code === 'CYCLE' || v.code === 'MAP_NOT_COMPOSABLE' || v.limitSource);
          }
        }
      }
    }
    assert.ok(cut > 25, `only ${cut} cuts: the programs are too easy`);
  });

  it('keeps to the adapter’s limits, drawn at random', () => {
    const random = randomNumbers(5);
    let windows = 0;
    for (let seed = 0; seed < PROGRAMS; seed++) {
      const limits = {
        ...DEFAULT_DEVICE.limits,
        maxStorageBuffersPerShaderStage: 4 + Math.floor(random() * 8),
        maxComputeWorkgroupStorageSize: 1024 << Math.floor(random() * 5),
        maxComputeInvocationsPerWorkgroup: 64 << Math.floor(random() * 3),
        maxStorageBufferBindingSize: 512 << Math.floor(random() * 4),
      };
      const source = randomProgram(seed);
      const bytes = new TextEncoder().encode(source);
      const c = compile({ file: 'test.fuse', bytes }, { device: { ...DEFAULT_DEVICE, limits } });
      // Of what can't be bound at all there is nothing to be kept to.
      if (c.result.diagnostics.some((d) => d.code === 'NO_KERNEL')) continue;
      for (const which of ['fused', 'unfused'] as const) {
        const exec = c.execPlan(which);
        assert.deepEqual(verifyExecPlan(exec), [], source);
        const whole = new Map(exec.buffers.map((b) => [b.id, b.bytes]));
        for (const d of exec.dispatches) {
          for (const b of d.bindings) {
            const bound = b.window?.bytes ?? whole.get(b.buffer) ?? Infinity;
            assert.ok(bound <= limits.maxStorageBufferBindingSize, source);
            if (b.window) windows++;
          }
          assert.ok(d.bindings.length <= limits.maxStorageBuffersPerShaderStage, source);
          const size = /@workgroup_size\((\d+), (\d+), (\d+)\)/.exec(d.wgsl);
          const invocations = Number(size?.[1]) * Number(size?.[2]) * Number(size?.[3]);
          assert.ok(invocations <= limits.maxComputeInvocationsPerWorkgroup, source);
          let memory = 0;
          for (const m of d.wgsl.matchAll(/var<workgroup> \w+: array<\w+, (\d+)>/g))
            memory += 4 * Number(m[1]);
          assert.ok(memory <= limits.maxComputeWorkgroupStorageSize, source);
          assert.ok(d.workgroups.every((w) => w <= limits.maxComputeWorkgroupsPerDimension));
        }
      }
    }
    assert.ok(windows > 20, `${windows} windows`);
  });

  it('is the same in every run and in every order of independent statements', () => {
    const random = randomNumbers(9);
    for (let seed = 0; seed < PROGRAMS; seed++) {
      const source = randomProgram(seed);
      const first = resultOf(source);
      const again = resultOf(source);
      assert.deepEqual(
        again.after.kernels.map((k) => [k.hash, k.nodes]),
        first.after.kernels.map((k) => [k.hash, k.nodes]),
      );
      const other = shuffled(source, random);
      assert.deepEqual(grouping(resultOf(other)), grouping(first), `${source}\n--\n${other}`);
    }
  });

  it('is sound at every level: L1, the kernels, and the order of dispatches', () => {
    for (let seed = 0; seed < PROGRAMS; seed++) {
      const source = randomProgram(seed);
      const bytes = new TextEncoder().encode(source);
      const c = compile({ file: 'test.fuse', bytes }, { device: DEFAULT_DEVICE });
      assert.deepEqual(verifyProgram(c.program), [], source);
      for (const which of ['fused', 'unfused'] as const)
        assert.deepEqual(verifyExecPlan(c.execPlan(which)), [], source);
      for (const k of [...c.result.after.kernels, ...c.result.before.kernels]) {
        for (const ir of c.kernelIr(k.id) ?? [])
          assert.deepEqual(verifyKernel(ir), [], `${source}\n${printKernel(ir)}`);
      }
    }
  });

  it('never moves more bytes or takes more kernels than the ops one by one', () => {
    for (let seed = 0; seed < PROGRAMS; seed++) {
      const source = randomProgram(seed);
      const r = resultOf(source);
      assert.ok(r.after.kernels.length <= r.before.kernels.length, source);
      assert.ok(r.after.estimatedUs <= r.before.estimatedUs * 1.0000001, source);
    }
  });
});
