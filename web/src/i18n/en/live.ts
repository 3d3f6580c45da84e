export const live = {
  live: "Live",
  connecting: "Connecting",
  polling: "Not live",
  ended: "Signed out",
  liveWhy: "The screens show changes at once.",
  connectingWhy: "The connection for changes is being opened.",
  pollingWhy: "The connection for changes is not available. The screens are read again at intervals.",
  endedWhy: "The session has ended. The screens show what was loaded last.",
};
