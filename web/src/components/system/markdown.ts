// A parser for the Markdown of the runbooks: headings, paragraphs, lists, tables and code. What it does not have stays a text.

export type Inline = { kind: "text" | "code" | "strong"; text: string } | { kind: "link"; text: string; to: string };
export type Block =
  | { kind: "heading"; level: number; text: string }
  | { kind: "code"; text: string }
  | { kind: "paragraph"; text: string }
  | { kind: "list"; items: string[] }
  | { kind: "table"; head: string[]; rows: string[][] };

const inlines = /`([^`]+)`|\*\*([^*]+)\*\*|\[((?:[^\]\\]|\\.)+)\]\(([^)\s]+)\)/g;

// inlineOf splits a text into its parts.
export function inlineOf(text: string): Inline[] {
  const parts: Inline[] = [];
  let end = 0;
  for (const match of text.matchAll(inlines)) {
    if (match.index > end) parts.push({ kind: "text", text: text.slice(end, match.index) });
    const [whole, code, strong, label, to] = match;
    if (code !== undefined) parts.push({ kind: "code", text: code });
    else if (strong !== undefined) parts.push({ kind: "strong", text: strong });
    else parts.push({ kind: "link", text: label ?? "", to: to ?? "" });
    end = match.index + whole.length;
  }
  if (end < text.length) parts.push({ kind: "text", text: text.slice(end) });
  return parts;
}

const cellsOf = (line: string) => line.replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
const isBreak = (line: string) => line === "" || /^(#{1,6} |```|- |\|)/.test(line);

// blocksOf reads a page line by line. Each block takes the lines that belong to it.
export function blocksOf(page: string): Block[] {
  const lines = page.replaceAll("\r", "").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  const next = () => lines[at] ?? "";
  const taken = (more: (line: string) => boolean) => {
    const from = at;
    for (at++; at < lines.length && more(next()); at++);
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = next();
    const heading = /^(#{1,6}) (.*)/.exec(line);
    if (line.trim() === "") at++;
    else if (heading !== null) {
      blocks.push({ kind: "heading", level: heading[1]!.length, text: heading[2]! });
      at++;
    } else if (line.startsWith("```")) {
      blocks.push({ kind: "code", text: taken((each) => !each.startsWith("```")).slice(1).join("\n") });
      at++;
    } else if (line.startsWith("- ")) blocks.push({ kind: "list", items: itemsOf(taken((each) => each.startsWith("- ") || each.startsWith("  "))) });
    else if (line.startsWith("|")) {
      const [head = [], , ...rows] = taken((each) => each.startsWith("|")).map(cellsOf);
      blocks.push({ kind: "table", head, rows });
    } else blocks.push({ kind: "paragraph", text: taken((each) => !isBreak(each)).join(" ") });
  }
  return blocks;
}

const itemsOf = (lines: string[]) => lines.reduce<string[]>((items, line) => (line.startsWith("- ") ? [...items, line.slice(2)] : [...items.slice(0, -1), `${items.at(-1)} ${line.trim()}`]), []);
