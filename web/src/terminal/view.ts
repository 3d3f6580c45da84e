import { ClipboardAddon } from "@xterm/addon-clipboard";
import { FitAddon } from "@xterm/addon-fit";
import type { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { newLeaving } from "./leave";
import { linesOf } from "./lines";

// openIn opens the terminal. xterm 6.0 makes the style of its scroll bar with the document of the window, and not with that
// of its options, so the element gets its nonce here.
function openIn(parent: HTMLElement, terminal: Terminal, overridden: Document) {
  document.createElement = overridden.createElement;
  try {
    terminal.open(parent);
  } finally {
    delete (document as { createElement?: unknown }).createElement;
  }
}

// withNonce is the document for xterm, which creates style elements: the policy of the page permits only those with the nonce.
function withNonce(nonce: string): Document {
  const create = document.createElement.bind(document);
  return new Proxy(document, {
    get(target, name) {
      if (name === "createElement")
        return (tag: string) => {
          const element = create(tag);
          if (tag === "style") element.nonce = nonce;
          return element;
        };
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

// clipboard lets a program of the allocation copy, and never read what the user has copied elsewhere.
const clipboard = {
  readText: () => "",
  writeText: (_: string, text: string) => navigator.clipboard?.writeText(text),
};

export type View = {
  write: (bytes: Uint8Array) => void;
  paste: (text: string) => void;
  reset: () => void;
  resize: (columns: number, rows: number) => void;
  size: () => [columns: number, rows: number];
  focus: () => void;
  // find selects the next place of a text, and returns whether there is one.
  find: (text: string) => Promise<boolean>;
  readAloud: (on: boolean) => void;
  dispose: () => void;
};

export type ViewOptions = {
  label: string;
  nonce: string;
  input: (bytes: Uint8Array<ArrayBuffer>) => void;
  resize: (columns: number, rows: number) => void;
  // pasted receives a paste of several lines, which a shell would run at once. The caller may pass it to View.paste.
  pasted: (text: string) => void;
  // recorded is the size of a recording. Its output is that of another user: it reaches neither the clipboard nor a link, and
  // nothing is typed.
  recorded?: [columns: number, rows: number];
};

const scrollback = 10_000;

// drawWithWebGL is a part of its own, because the terminal can be used before it is loaded.
async function drawWithWebGL(terminal: Terminal) {
  try {
    const { WebglAddon } = await import("@xterm/addon-webgl");
    const webgl = new WebglAddon();
    webgl.onContextLoss(() => webgl.dispose());
    terminal.loadAddon(webgl);
  } catch {
    // The browser has no WebGL, or the terminal was closed meanwhile.
  }
}

// show draws a terminal in an element. WebGL draws faster; without it, the terminal is drawn with elements.
export function show(parent: HTMLElement, { label, nonce, input, resize, pasted, recorded }: ViewOptions): View {
  const overridden = withNonce(nonce);
  const terminal = new Terminal({ allowProposedApi: true, cursorBlink: false, documentOverride: overridden, scrollback, fontFamily: "ui-monospace, monospace", disableStdin: recorded !== undefined });
  const fit = new FitAddon();
  let search: SearchAddon | undefined;
  const encoder = new TextEncoder();
  if (recorded === undefined) {
    terminal.loadAddon(fit);
    terminal.loadAddon(new ClipboardAddon(undefined, clipboard));
    terminal.loadAddon(new WebLinksAddon((_, uri) => void window.open(uri, "_blank", "noopener,noreferrer")));
  } else {
    terminal.options.linkHandler = { activate: () => {} };
    terminal.resize(...recorded);
  }
  openIn(parent, terminal, overridden);
  terminal.textarea?.setAttribute("aria-label", label);
  terminal.attachCustomKeyEventHandler(recorded === undefined ? newLeaving() : ({ key }) => key !== "Tab");
  void drawWithWebGL(terminal);
  terminal.onData((text) => input(encoder.encode(text)));
  terminal.onBinary((text) => input(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  terminal.onResize(({ cols, rows }) => resize(cols, rows));
  const paste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (linesOf(text) === 1) return;
    event.preventDefault();
    event.stopPropagation();
    pasted(text);
  };
  parent.addEventListener("paste", paste, true);
  const sized = new ResizeObserver(() => fit.fit());
  if (recorded === undefined) {
    sized.observe(parent);
    fit.fit();
  }
  return {
    write: (bytes) => terminal.write(bytes),
    paste: (text) => terminal.paste(text),
    reset: () => terminal.reset(),
    resize: (columns, rows) => terminal.resize(columns, rows),
    size: () => [terminal.cols, terminal.rows],
    focus: () => terminal.focus(),
    find: async (text) => {
      if (search === undefined) {
        const { SearchAddon: Addon } = await import("@xterm/addon-search");
        search ??= new Addon();
        terminal.loadAddon(search);
      }
      return search.findNext(text);
    },
    readAloud: (on) => void (terminal.options.screenReaderMode = on),
    dispose: () => {
      sized.disconnect();
      parent.removeEventListener("paste", paste, true);
      terminal.dispose();
    },
  };
}
