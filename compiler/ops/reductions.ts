import type { OpDef } from './op';

export const reductionOps: readonly OpDef[] = [];
