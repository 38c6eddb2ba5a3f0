export const gpuEnvironment = async () => ({});
