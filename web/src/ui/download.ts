// Downloads responses as files.
import { request } from '../api';
import { sayProblem } from './parts';

/** Downloads a response as a file. The token is sent in a header, so a plain link does not work. */
export async function downloaded(path: string, accept: string, name: string): Promise<void> {
  try {
    const response = await request(path, { accept });
    const address = URL.createObjectURL(await response.blob());
    const link = document.createElement('a');
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } catch (error) {
    sayProblem(error);
  }
}
