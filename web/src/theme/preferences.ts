import { load, store } from "../session/storage";

// Preferences of the browser are attributes of the document, which theme.css reads.
export const preferences = { contrast: ["normal", "high"], density: ["comfortable", "compact"], shortcuts: ["on", "off"] } as const;

export type Preference = keyof typeof preferences;

export const preference = (name: Preference): string => {
  const stored = load(name);
  return (preferences[name] as readonly string[]).includes(stored) ? stored : preferences[name][0];
};

export function setPreference(name: Preference, value: string) {
  store(name, value);
  document.documentElement.dataset[name] = value;
}

export const applyPreferences = () =>
  (Object.keys(preferences) as Preference[]).forEach((name) => (document.documentElement.dataset[name] = preference(name)));
