import { load, store } from "../session/storage";

// The selected project is sent with every call. "" means all projects that the user can read.
let selected = load("project");

export const selectedProject = () => selected;

export function selectProject(id: string) {
  selected = id;
  store("project", id);
}
