export const states = {
  loading: "Loading…",
  slow: "Still loading. The server needs longer than usual.",
  restricted: "You have no access",
  degraded: "This part cannot be shown now.",
  runbook: "An operator finds the cause with the runbook {name}.",
  moved: "This has changed since then:",
  restrictedWhy: "Your role does not allow this.",
  rateLimited: "{seconds, plural, =0 {Too many requests. The next attempt starts now.} one {Too many requests. The next attempt starts in # second.} other {Too many requests. The next attempt starts in # seconds.}}",
  unreachable: "The server cannot be reached. Check the connection and try again.",
  unreadable: "The server returned an error without a description.",
  field: "Field: {field}",
  next: "Next step: {step}.",
  code: "Error {code}",
  correlation: "Correlation id {id}",
  copyId: "Copy the correlation id",
  copy: "Copy",
  copied: "Copied",
  notCopied: "The browser does not allow copying",
  retry: "Try again",
  signIn: "Sign in",
};

export const table = { more: "Load more" };

export const confirm = { type: "Type {name} to confirm", cancel: "Cancel", title: "{action} {name}", reason: "Reason", reasonNote: "At least {least, plural, one {# character} other {# characters}}. It is stored with the change.", reasonOptional: "It is stored with the change. It can be empty." };

export const secret = {
  title: "The secret of {name}",
  copy: "Copy the secret",
  once: "It is shown this once. Copy it now: the server cannot show it again.",
  close: "I have copied it",
};

export const toast = { undo: "Undo", close: "Close" };

export const filter = { label: "Filters", apply: "Filter", clear: "Clear the filters", csv: "Download as CSV" };
