type Labels = Record<string, string>;

const most = 32;
const longest = 256;

export const textOf = (labels: Labels) => Object.entries(labels).map(([name, value]) => `${name}=${value}`).join("\n");

// labelsOf reads one label per line, or returns undefined for a text that the server would reject.
export function labelsOf(text: string): Labels | undefined {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const pairs = lines.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()] as const);
  const valid = lines.every((line) => line.indexOf("=") > 0) && new Set(pairs.map(([name]) => name)).size === pairs.length;
  return valid && pairs.length <= most && pairs.every(([, value]) => value.length <= longest) ? Object.fromEntries(pairs) : undefined;
}
