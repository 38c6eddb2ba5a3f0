/** A runner in a process of its own, with the Node that was found and the environment that is set. */
import type { Runner, RunnerReply } from '../../runner/core/types';
import { createNodeRunner } from '../../runner/node';
import { findNode } from './findNode';
import type { Settings } from './settings';

/** @param childPath the bundle that the process runs */
export async function openNodeRunner(
  childPath: string,
  { nodePath, runnerEnvironment }: Settings,
  log: (line: string) => void,
): Promise<RunnerReply<Runner>> {
  const found = await findNode(nodePath);
  if (!found.ok) return found;
  log(`Kernels run in ${found.path}.`);
  return {
    ok: true,
    value: createNodeRunner({ childPath, nodePath: found.path, env: runnerEnvironment }),
  };
}
