import { Button, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslations } from "use-intl";

type Field = { name: string; label: string; most?: number; type?: "datetime-local" };
type Props = { fields: Field[]; filter: Record<string, string | undefined>; set: (change: Record<string, string | undefined>) => void; children?: ReactNode };

// FilterForm are the filters of a list. Those that are a text take effect with the button, those of children at once. The
// fields are new when the address changes.
export function FilterForm({ fields, filter, set, children }: Props) {
  const t = useTranslations("filter");
  const entered = (form: FormData) => Object.fromEntries(fields.map(({ name }) => [name, String(form.get(name) ?? "").trim() || undefined]));
  const filtered = Object.values(filter).some((value) => value !== undefined);
  const cleared = () => Object.fromEntries(Object.keys(filter).map((name) => [name, undefined]));
  return (
    <form
      key={fields.map(({ name }) => filter[name]).join(" ")}
      className="row"
      aria-label={t("label")}
      onSubmit={(event) => {
        event.preventDefault();
        set(entered(new FormData(event.currentTarget)));
      }}
    >
      {children}
      {fields.map(({ name, label, most, type }) => (
        <TextInput key={name} label={label} name={name} type={type} maxLength={most} defaultValue={filter[name] ?? ""} />
      ))}
      <Button type="submit" variant="default">
        {t("apply")}
      </Button>
      {filtered && (
        <Button variant="subtle" onClick={() => set(cleared())}>
          {t("clear")}
        </Button>
      )}
    </form>
  );
}
