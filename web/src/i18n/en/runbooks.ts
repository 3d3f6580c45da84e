export const runbooks = {
  title: "Runbooks",
  all: "All runbooks",
};
