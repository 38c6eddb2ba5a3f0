import type { OpDef } from './op';

export const gatherOps: readonly OpDef[] = [];
