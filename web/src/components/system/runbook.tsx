import { Anchor } from "@mantine/core";

// RunbookLink leads to the page of a runbook. It is a plain link, because an error can be shown outside of the router.
export function RunbookLink({ name, label = name }: { name: string; label?: string }) {
  return <Anchor href={`/portal/runbooks/${encodeURIComponent(name)}`}>{label}</Anchor>;
}
