import { useLocation } from "@tanstack/react-router";
import { useEffect } from "react";
import { useSession } from "./session";
import { load, store } from "./storage";

// Recent is an object that the user has opened: its screen and its name.
export type Recent = { path: string; name: string };

const most = 10;

const isRecent = (value: unknown): value is Recent => {
  const { path, name } = (value ?? {}) as Partial<Recent>;
  return typeof path === "string" && path.startsWith("/") && typeof name === "string";
};

// recentOf reads the objects that a user has opened in this browser, newest first. Users of one browser have lists of
// their own.
export function recentOf(user: string): Recent[] {
  try {
    const all: unknown = JSON.parse(load(`recent.${user}`));
    return Array.isArray(all) ? all.filter(isRecent).slice(0, most) : [];
  } catch {
    return [];
  }
}

// useRecent stores the object of a screen when its name is there.
export function useRecent(name: string | undefined) {
  const { pathname } = useLocation();
  const user = useSession().me.user?.id ?? "";
  useEffect(() => {
    const path = pathname.replace(/^\/portal/, "");
    if (name !== undefined) store(`recent.${user}`, JSON.stringify([{ path, name }, ...recentOf(user).filter((each) => each.path !== path)].slice(0, most)));
  }, [pathname, user, name]);
}
