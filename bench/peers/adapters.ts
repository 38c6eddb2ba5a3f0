/** The adapters of this machine that the bench runs on: its GPU, SwiftShader, and lavapipe. */
import {
  ensureSoftwareGpu,
  lavapipeEnvironments,
  probeAdapter,
} from '../../scripts/software-gpu.mjs';

export interface AdapterChoice {
  readonly name: 'gpu' | 'swiftshader' | 'lavapipe';
  readonly env: Readonly<Record<string, string>>;
}

export async function adapterChoices(): Promise<AdapterChoice[]> {
  const found: AdapterChoice[] = [];
  const own = await probeAdapter();
  if (own && !own.software) found.push({ name: 'gpu', env: {} });
  const { env } = await ensureSoftwareGpu();
  if (Object.keys(env).length > 0) found.push({ name: 'swiftshader', env });
  for (const candidate of await lavapipeEnvironments()) {
    // Mesa before 24 has a lavapipe that Dawn takes no adapter of.
    const adapter = await probeAdapter(candidate);
    if (!/llvmpipe|lavapipe/i.test(adapter?.description ?? '')) continue;
    found.push({ name: 'lavapipe', env: candidate });
    break;
  }
  return found;
}
