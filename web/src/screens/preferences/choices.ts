import type { Schemas } from "../../api/client";

type Preferences = Schemas["NotificationPreferences"];
type Write = Schemas["NotificationPreferencesWrite"];

// Draft is a form of preferences. A choice of "" follows the default.
export type Draft = { choices: Record<string, string>; start: string; end: string; zone: string };

export const keyOf = (kind: string, channel: string) => `${kind} ${channel}`;

// draftOf has the choices that this scope has made itself.
export const draftOf = ({ kinds, quiet_hours: quiet, time_zone: zone = "" }: Preferences, scope: "user" | "tenant"): Draft => ({
  choices: Object.fromEntries(kinds.flatMap(({ kind, channels }) => channels.filter(({ source }) => source === scope).map(({ channel, value }) => [keyOf(kind, channel), value]))),
  start: quiet?.start ?? "",
  end: quiet?.end ?? "",
  zone,
});

// writeOf is the request, or undefined where only one end of the quiet hours is entered.
export function writeOf({ choices, start, end, zone }: Draft): Write | undefined {
  if ((start === "") !== (end === "")) return undefined;
  const chosen = Object.entries(choices).filter(([, value]) => value !== "");
  return {
    ...(zone.trim() !== "" && { time_zone: zone.trim() }),
    ...(start !== "" && { quiet_hours: { start, end } }),
    choices: chosen.map(([key, value]) => {
      const [kind = "", channel = ""] = key.split(" ");
      return { kind, channel: channel as Schemas["NotificationChannel"], value: value as Schemas["NotificationValue"] };
    }),
  };
}
