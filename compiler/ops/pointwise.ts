import type { OpDef } from './op';

export const pointwiseOps: readonly OpDef[] = [];
