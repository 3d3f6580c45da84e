import { useEffect } from "react";
import { preference } from "../../theme/preferences";

const isField = (target: EventTarget | null) => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName));

// useShortcuts runs an action per sequence of keys, such as "g a", or per key with the modifier, such as "mod+k". A field
// of a form keeps its keys, except those with the modifier. A user who needs all keys, such as for speech, turns off
// those without the modifier.
export function useShortcuts(actions: Record<string, () => void>) {
  useEffect(() => {
    let pressed = "";
    const run = (event: KeyboardEvent, action: (() => void) | undefined) => {
      if (action === undefined) return;
      event.preventDefault();
      action();
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.altKey) return;
      if (event.ctrlKey || event.metaKey) return run(event, actions[`mod+${event.key.toLowerCase()}`]);
      if (isField(event.target) || preference("shortcuts") === "off") return;
      const action = actions[`${pressed} ${event.key}`.trim()] ?? actions[event.key];
      pressed = action === undefined ? event.key : "";
      run(event, action);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [actions]);
}
