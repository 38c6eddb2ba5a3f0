/**
 * Finding conformance cases. Three layouts:
 *  - a folder with `model.onnx` and `test_data_set_*` of `input_<i>.pb` and `output_<i>.pb`, as ONNX's
 *    backend tests have it;
 *  - a folder of such folders, at any depth;
 *  - `<name>.onnx` beside `<name>_output_<i>.pb` (ONNX's light models), whose one input of n elements
 *    is 0/n, 1/n, … (n-1)/n.
 */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { reason } from '../load';
import { bad, good, type Outcome } from '../tensors/tensor';

export interface Case {
  readonly name: string;
  readonly model: string;
  readonly data:
    | { readonly kind: 'sets'; readonly folders: readonly string[] }
    /** Outputs by position; the input is made up. */
    | { readonly kind: 'ramp'; readonly outputs: readonly string[] };
}

const MAX_DEPTH = 6;

export async function findCases(folder: string): Promise<Outcome<readonly Case[]>> {
  const out: Case[] = [];
  try {
    await visit(folder, out, 0);
  } catch (e) {
    return bad(`can't read ${folder}: ${reason(e)}`);
  }
  if (out.length === 0)
    return bad(
      `${folder} has no cases: neither model.onnx with test_data_set_*, nor X.onnx with X_output_0.pb`,
    );
  return good(out.sort((a, b) => (a.name < b.name ? -1 : 1)));
}

async function visit(folder: string, out: Case[], depth: number): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.map((e) => e.name).sort();
  if (names.includes('model.onnx')) {
    const sets = names.filter((n) => /^test_data_set_\d+$/.test(n));
    out.push({
      name: path.basename(path.resolve(folder)),
      model: path.join(folder, 'model.onnx'),
      data: { kind: 'sets', folders: sets.map((s) => path.join(folder, s)) },
    });
    return;
  }
  for (const n of names) {
    if (!n.endsWith('.onnx')) continue;
    const stem = n.slice(0, -'.onnx'.length);
    const outputs = names
      .filter((o) => o.startsWith(`${stem}_output_`) && o.endsWith('.pb'))
      .sort((a, b) => numberIn(a) - numberIn(b))
      .map((o) => path.join(folder, o));
    if (outputs.length > 0)
      out.push({ name: stem, model: path.join(folder, n), data: { kind: 'ramp', outputs } });
  }
  if (depth >= MAX_DEPTH) return;
  for (const e of entries)
    if (e.isDirectory() && e.name !== 'node_modules' && !e.name.startsWith('.'))
      await visit(path.join(folder, e.name), out, depth + 1);
}

function numberIn(name: string): number {
  return Number(/_(\d+)\.pb$/.exec(name)?.[1] ?? 0);
}
