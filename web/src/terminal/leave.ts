const within = 2_000;

type Key = Pick<KeyboardEvent, "type" | "key" | "timeStamp">;

// newLeaving returns whether a key belongs to the terminal. A shell reads every key, Tab included, so that a user without a
// mouse could not leave it: a Tab shortly after Escape moves the focus, as it does in a form. The shell has read the Escape.
export function newLeaving(): (event: Key) => boolean {
  let escaped = -Infinity;
  return ({ type, key, timeStamp }) => {
    if (type !== "keydown" || key === "Shift") return true;
    if (key === "Tab" && timeStamp - escaped < within) return false;
    escaped = key === "Escape" ? timeStamp : -Infinity;
    return true;
  };
}
