import { screens } from "./screens";

type Name = (typeof screens)[number]["name"];

// shortcuts is the one table of keys: the shell runs them, and the help sheet lists them.
export const shortcuts = {
  screens: screens.map(({ keys, path, name, action }) => ({ keys, path, name: name as Name, action })),
  tools: [
    { keys: "mod+k", name: "palette" },
    { keys: "/", name: "filter" },
    { keys: "?", name: "help" },
  ],
} as const;

// isApple is whether the modifier is the command key.
const isApple = () => /Mac|iPhone|iPad/.test(navigator.userAgent);

// keysOf are the keys as a keyboard names them.
export const keysOf = (keys: string): string[] => keys.split(/[ +]/).map((key) => (key === "mod" ? (isApple() ? "⌘" : "Ctrl") : key.length === 1 && keys.includes("+") ? key.toUpperCase() : key));
