import { noteServerTime } from "./clock";
import { noteNotice } from "./notice";

// send refreshes the session once for all calls that wait.

let refreshing: Promise<boolean> | undefined;
let last = { number: 0, worked: false };

const refresh = (): Promise<boolean> =>
  (refreshing ??= fetch("/api/v1/auth/token/refresh", { method: "POST", headers: { Accept: "application/json" } })
    .then((response) => response.ok, () => false)
    .then((worked) => (last = { number: last.number + 1, worked }).worked)
    .finally(() => (refreshing = undefined)));

// renewed is whether a call can be sent again. A refresh that ended since the call was sent counts: the 401 of a slow
// call can come after it.
const renewed = (sentAt: number) => (last.number === sentAt ? refresh() : last.worked);

export async function send(request: Request): Promise<Response> {
  const again = request.clone();
  const sentAt = last.number;
  const response = await fetch(request);
  noteServerTime(response.headers.get("Date"));
  noteNotice(response.headers.get("X-Platform-Notice"));
  if (response.status !== 401) return response;
  return (await renewed(sentAt)) ? fetch(again) : response;
}

// randomId works without a secure context, in which crypto.randomUUID does not exist.
export const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
