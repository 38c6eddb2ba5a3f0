/**
 * The op registry: every family's table, indexed by canonical, ONNX and `.fuse` names.
 */
import type { FuseForm, OpDef } from './op';
import { composedOps } from './composed';
import { matrixOps } from './matrices';
import { activationOps } from './activation';
import { unaryOps } from './unary';
import { choiceOps } from './choice';
import { pointwiseOps } from './pointwise';
import { shapeOps } from './shape';
import { slicingOps } from './slicing';
import { subscriptOps } from './subscript';
import { joiningOps } from './joining';
import { creationOps } from './creation';
import { reductionOps } from './reductions';
import { softmaxOps } from './softmax';
import { normalizationOps } from './normalization';
import { lossOps } from './losses';
import { contractionOps } from './contractions';
import { convolutionOps } from './convolution';
import { poolingOps } from './pooling';
import { gatherOps } from './gather';
import { scatterOps } from './scatter';
import { sortingOps } from './sorting';
import { attentionOps } from './attention';
import { resizeOps } from './resize';
import { quantizationOps } from './quantization';
import { recurrentOps } from './recurrent';
import { signalOps } from './signal';
import { visionOps } from './vision';
import { selectionOps } from './selection';
import { extractionOps } from './extraction';
import { linearModelOps } from './linearModels';
import { treeOps } from './trees';
import { contribOps } from './contrib';
import { randomOps } from './random';
import { trainingOps } from './training';
import { retiredOps } from './retired';
import { unsupportedOps } from './unsupported';

export const OPS: readonly OpDef[] = [
  ...unaryOps,
  ...pointwiseOps,
  ...choiceOps,
  ...composedOps,
  ...matrixOps,
  ...activationOps,
  ...shapeOps,
  ...slicingOps,
  ...subscriptOps,
  ...joiningOps,
  ...creationOps,
  ...reductionOps,
  ...softmaxOps,
  ...normalizationOps,
  ...lossOps,
  ...contractionOps,
  ...convolutionOps,
  ...poolingOps,
  ...gatherOps,
  ...scatterOps,
  ...sortingOps,
  ...attentionOps,
  ...resizeOps,
  ...quantizationOps,
  ...recurrentOps,
  ...signalOps,
  ...visionOps,
  ...selectionOps,
  ...extractionOps,
  ...linearModelOps,
  ...treeOps,
  ...contribOps,
  ...randomOps,
  ...trainingOps,
  ...retiredOps,
  ...unsupportedOps,
];

const byName = new Map<string, OpDef>();
const byOnnx = new Map<string, OpDef>();
const byFuse = new Map<string, { op: OpDef; form: FuseForm }[]>();
for (const op of OPS) {
  byName.set(op.name, op);
  for (const n of op.onnx ?? []) byOnnx.set(n, op);
  for (const form of op.fuse ?? []) {
    for (const n of form.names) {
      const forms = byFuse.get(n);
      if (forms) forms.push({ op, form });
      else byFuse.set(n, [{ op, form }]);
    }
  }
}

export function opByName(name: string): OpDef | undefined {
  return byName.get(name);
}

/** By ONNX op type, with its domain before a colon when it isn't the default one. */
export function opByOnnx(type: string): OpDef | undefined {
  return byOnnx.get(type);
}

export function opByFuseName(name: string): { op: OpDef; form: FuseForm } | undefined {
  return byFuse.get(name)?.[0];
}

/** All forms of that name in table order; a call takes the first whose `matches` is absent or true. */
export function fuseFormsByName(name: string): readonly { op: OpDef; form: FuseForm }[] {
  return byFuse.get(name) ?? [];
}

export function fuseNames(): string[] {
  return [...byFuse.keys()].sort();
}
