import { load, store } from "./storage";

// View is a list as a user has filtered it: a name, and the parameters of its address.
export type View = { name: string; search: Record<string, string> };

const most = 20;
export const longestName = 63;

const isSearch = (value: unknown): value is Record<string, string> => typeof value === "object" && value !== null && Object.values(value).every((each) => typeof each === "string");
const isView = (value: unknown): value is View => {
  const { name, search } = (value ?? {}) as Partial<View>;
  return typeof name === "string" && name !== "" && isSearch(search);
};

// viewsOf reads the views of a screen that this browser stores for a user.
export function viewsOf(user: string, screen: string): View[] {
  try {
    const all: unknown = JSON.parse(load(`views.${user}.${screen}`));
    return Array.isArray(all) ? all.filter(isView).slice(0, most) : [];
  } catch {
    return [];
  }
}

// storeViews returns whether the browser has stored them.
export const storeViews = (user: string, screen: string, views: View[]): boolean => store(`views.${user}.${screen}`, views.length === 0 ? "" : JSON.stringify(views.slice(0, most)));
