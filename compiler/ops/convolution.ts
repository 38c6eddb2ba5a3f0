import type { OpDef } from './op';

export const convolutionOps: readonly OpDef[] = [];
