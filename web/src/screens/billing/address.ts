// isWebAddress keeps an address that is a script, or of another program, from being opened.
export function isWebAddress(url: string): boolean {
  try {
    return ["https:", "http:"].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}
