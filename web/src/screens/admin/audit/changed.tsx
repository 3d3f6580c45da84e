import { useTranslations } from "use-intl";

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const fieldsOf = (value: unknown): Record<string, unknown> => (value === undefined || value === null ? {} : isObject(value) ? value : { "": value });

// Changed are the fields of an audit row before and after the change. Values are JSON, because other users can write them.
export function Changed({ before, after }: { before?: unknown; after?: unknown }) {
  const t = useTranslations("audit");
  const old = fieldsOf(before);
  const next = fieldsOf(after);
  const fields = [...new Set([...Object.keys(old), ...Object.keys(next)])];
  const text = (from: Record<string, unknown>, field: string) => (Object.hasOwn(from, field) ? JSON.stringify(from[field]) : t("absent"));
  if (fields.length === 0) return <>{t("unchanged")}</>;
  return (
    <>
      {fields.map((field) => (
        <div key={field}>{t("changeText", { field, before: text(old, field), after: text(next, field) })}</div>
      ))}
    </>
  );
}
