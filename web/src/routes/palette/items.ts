import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { recentOf } from "../../session/recent";
import { useSession } from "../../session/session";
import { screens } from "../screens";
import { useFound } from "./search";

// Item is what the palette offers. run gets whether a new tab opens.
export type Item = { id: string; label: string; run: (newTab: boolean) => void };
export type Group = { name: "screen" | "found" | "recent" | "screens"; items: Item[] };

// most bounds a group, so that the list stays short. A longer text finds the others.
const most = 8;

const matches = (text: string) => {
  const words = text.toLowerCase().split(/\s+/);
  return ({ label }: Item) => words.every((word) => label.toLowerCase().includes(word));
};

// actionsOf are the buttons of the screen, which offers only what the user may do. A button that sends a form needs its
// fields, so it is none.
export function actionsOf(main: HTMLElement | null): Item[] {
  const buttons = [...(main?.querySelectorAll<HTMLButtonElement>('button:not([disabled]):not([type="submit"])') ?? [])];
  const named = buttons.map((button) => ({ button, label: (button.getAttribute("aria-label") ?? button.textContent ?? "").trim() })).filter(({ label }) => label !== "");
  return named.map(({ button, label }, place) => ({
    id: `action-${place}`,
    label,
    run: () => {
      button.focus();
      button.click();
    },
  }));
}

// useItems are the groups for a text: actions of this screen, results of the server, recent objects, and screens.
export function useItems(text: string, actions: Item[]): { groups: Group[]; searching: boolean } {
  const shell = useTranslations("shell");
  const navigate = useNavigate();
  const session = useSession();
  const { may, me } = session;
  const { found, searching } = useFound(text);
  const recent = useMemo(() => recentOf(me.user?.id ?? ""), [me.user?.id]);
  const open = (path: string) => (newTab: boolean) => (newTab ? void window.open(`/portal${path}`, "_blank", "noopener") : void navigate({ to: path }));
  const screen = (prefix: string, { path, name }: { path: string; name: string }): Item => ({ id: `${prefix}-${path}`, label: name, run: open(path) });
  const fitting = (items: Item[]) => items.filter(matches(text)).slice(0, most);
  const groups: Group[] = [
    { name: "screen", items: fitting(actions) },
    { name: "found", items: found.map((each) => screen("found", each)) },
    { name: "recent", items: fitting(recent.map((each) => screen("recent", each))) },
    { name: "screens", items: screens.filter(({ action }) => action === undefined || may(action)).map(({ path, name }) => screen("screen", { path, name: shell(name) })).filter(matches(text)) },
  ];
  return { groups: groups.filter(({ items }) => items.length > 0), searching };
}
