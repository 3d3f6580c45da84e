// Texts of the command palette, the help sheet, columns and saved views.
export const palette = {
  title: "Command palette",
  hint: "Search a screen, an action, an allocation, a project or a node",
  results: "Results",
  screen: "On this screen",
  found: "Found",
  recent: "Recent",
  screens: "Screens",
  none: "Nothing matches.",
  searching: "Searching…",
};

export const help = {
  title: "Keyboard",
  close: "Close",
  keys: "Keys",
  effect: "Effect",
  open: "Open {screen}",
  palette: "Open the command palette",
  filter: "Go to the first field of the screen",
  help: "Show this list",
  off: "The preferences at the end of each screen turn off the keys without Ctrl or ⌘.",
};

export const columns = {
  title: "Columns ({shown} of {all})",
  legend: "Columns of the list",
};

export const views = {
  title: "Saved views ({count})",
  name: "Name of this view",
  save: "Save this view",
  remove: "Remove",
  removeOf: "Remove the view {name}",
  notStored: "The browser does not store the views. They are lost with the next load.",
};
