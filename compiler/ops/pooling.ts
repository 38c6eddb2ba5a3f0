import type { OpDef } from './op';

export const poolingOps: readonly OpDef[] = [];
