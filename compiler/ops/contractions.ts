import type { OpDef } from './op';

export const contractionOps: readonly OpDef[] = [];
