import { useTranslations } from "use-intl";

// marks differ in form, not only in colour. A state of a newer server has its name and no mark of its own.
const marks: Record<string, string> = { requested: "○", provisioning: "◔", active: "●", releasing: "◑", released: "✓", failed: "✕", release_failed: "▲" };

export function Status({ status }: { status: string }) {
  const t = useTranslations("status");
  const name = status in marks ? t(status as Parameters<typeof t>[0]) : status;
  return (
    <span className="status">
      <span aria-hidden>{marks[status] ?? "?"}</span>
      {name}
    </span>
  );
}
