/**
 * Compiles a program, runs both of its plans on the GPU on random inputs, and compares every stored
 * result with the float64 reference.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { compile, type Compilation, type CompileOptions } from '../../compiler';
import { verifyProgram } from '../../compiler/ir/verify';
import { verifyExecPlan, verifyKernel } from '../../compiler/schedule/verifyKernel';
import type { PlanForRun, ProfileJob } from '../../runner/core';
import { createNodeRunner, type NodeRunner } from '../../runner/node';

const encoder = new TextEncoder();

type Dims = Readonly<Record<string, number>>;

/** Checks a program, given its sizes; the compilation, to ask more of. */
export type Agrees = (source: string, dims?: Dims) => Promise<Compilation>;

/** Compiles a program once, and checks its plans at each of the sizes. */
export type AgreesAt = (
  source: string,
  options: CompileOptions,
  sizes: readonly Dims[],
) => Promise<Compilation>;

/** A runner for the tests of the `describe` that this is called in. */
export function agreement(): Agrees {
  const agrees = agreementAt();
  return (source, dims = {}) => agrees(source, { dims }, [{}]);
}

/** As {@link agreement}, for plans that serve several sizes. */
export function agreementAt(): AgreesAt {
  let runner: NodeRunner;
  before(() => {
    runner = createNodeRunner({
      childPath: path.resolve('dist/runnerChild.mjs'),
      watchdogMs: 120_000,
    });
  });
  after(() => runner.dispose());
  return async (source, options, sizes) => {
    const c = compile({ file: 'test.fuse', bytes: encoder.encode(source) }, options);
    for (const dims of sizes) {
      const about = `${source}\n${JSON.stringify(dims)}`;
      const reply = await runner.profile(
        jobOf(c, about, dims),
        () => undefined,
        new AbortController().signal,
      );
      if (!reply.ok) assert.fail(`${JSON.stringify(reply.fault, undefined, 2)}\n${about}`);
      const { verification } = reply.value;
      const wrong = [...verification.outputs, ...verification.kernels].filter((o) => !o.ok);
      assert.deepEqual(wrong, [], about);
      assert.ok(verification.ok, about);
    }
    return c;
  };
}

function jobOf(c: Compilation, source: string, dims: Dims): ProfileJob {
  const faults = c.result.diagnostics.filter((d) => d.severity === 'error');
  assert.deepEqual(faults, [], source);
  assert.deepEqual(verifyProgram(c.program), [], source);
  const plan = (which: 'fused' | 'unfused'): PlanForRun => {
    const { kernels } = which === 'fused' ? c.result.after : c.result.before;
    for (const k of kernels)
      for (const ir of c.kernelIr(k.id) ?? []) assert.deepEqual(verifyKernel(ir), [], source);
    const exec = c.execPlan(which, dims);
    assert.deepEqual(verifyExecPlan(exec), [], source);
    return {
      exec,
      kernels: kernels.map((k) => ({
        id: k.id,
        hash: k.hash,
        nodes: k.nodes,
        bytes: k.bytesRead + k.bytesWritten,
        flops: k.flops,
        estimatedUs: k.estimatedUs,
      })),
    };
  };
  return {
    fused: plan('fused'),
    unfused: plan('unfused'),
    program: { ...c.reference, dims: new Map([...c.program.dims, ...Object.entries(dims)]) },
    options: { seed: 11, iterations: 1, seconds: 0.01 },
  };
}
