import platform from "./platform.json";
import roles from "./roles.json";

// Action is an operation that a screen offers. Go tests compare both lists with policies/roles.cue. The role in the
// platform counts for the operations of the platform only: operators do not act in a tenant through its screens.
export type Action = keyof typeof roles | keyof typeof platform;
export type Roles = { tenant: string; projects: string[]; platform?: string };

const listed = (lists: Partial<Record<Action, string[]>>, action: Action) => lists[action] ?? [];

// rolesOf returns the roles of an action. A few, such as the reading of evidence, have some in both lists.
const rolesOf = (action: Action): string[] => [...listed(roles, action), ...listed(platform, action)];

// mayDo hides what would return 403.
export const mayDo = (action: Action, { tenant, projects, platform: role = "" }: Roles): boolean =>
  [role, `tenant.${tenant}`, ...projects.map((name) => `project.${name}`)].some((name) => rolesOf(action).includes(name));
