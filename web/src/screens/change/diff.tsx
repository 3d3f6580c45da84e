import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Empty } from "../../components/system/states";
import { useWords } from "../../components/system/words";
import { Place } from "./place";

type Step = Schemas["ChangeStep"];
type Props = { commit: string; source: Schemas["GitSource"] | undefined };

// Diff is the change by object and field.
export function Diff({ steps, ...props }: Props & { steps: Step[] }) {
  const t = useTranslations("change");
  return (
    <section className="panel stack">
      <h2>{t("diff")}</h2>
      {steps.length === 0 && <Empty text={t("noDiff")} />}
      {steps.map((step) => (
        <Each key={step.uid} step={step} {...props} />
      ))}
    </section>
  );
}

function Each({ step: { action, kind, name, place, fields }, commit, source }: Props & { step: Step }) {
  const t = useTranslations("change");
  const word = useWords();
  const columns = useMemo(
    (): Column<Step["fields"][number]>[] => [
      { id: "field", header: t("field"), cell: ({ path }) => path },
      { id: "from", header: t("from"), cell: ({ from }) => from ?? t("unset") },
      { id: "to", header: t("to"), cell: ({ to }) => to ?? t("unset") },
    ],
    [t],
  );
  const title = t("stepText", { action: word(action), kind, name });
  return (
    <div className="stack">
      <h3>{title}</h3>
      {place.path !== undefined && place.line !== undefined && (
        <p className="dim">
          <Place path={place.path} line={place.line} commit={place.commit ?? commit} source={source} />
        </p>
      )}
      {fields.length === 0 ? <p>{t("noFields")}</p> : <Rows label={title} columns={columns} rows={fields} rowKey={({ path }) => path} />}
    </div>
  );
}
