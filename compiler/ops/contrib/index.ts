/**
 * Ops of ONNX Runtime's own domain, com.microsoft, as its optimiser, its quantiser and its exporters of
 * language models write them. They are taken apart again, so that what is fused is decided for this GPU.
 */
import type { OpDef } from '../op';
import { contribAttentionOps } from './attention';
import { embeddingOps } from './embedding';
import { layoutOps } from './layouts';
import { productOps } from './products';
import { quantisedOps } from './quantised';

export const contribOps: readonly OpDef[] = [
  ...productOps,
  ...quantisedOps,
  ...contribAttentionOps,
  ...layoutOps,
  ...embeddingOps,
];
