import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { RunbookLink } from "../../components/system/runbook";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import en from "../../i18n/en";
import type { Part } from "../../query/model";
import { Breaker } from "./breaker";

type Panel = Schemas["OpsPanel"];

// Panels are the areas of the platform, each with its state, its figures and its runbook.
export function Panels({ part }: { part: Part<Schemas["OpsOverview"]> }) {
  const t = useTranslations("ops");
  const columns = useMemo(
    (): Column<Panel>[] => [
      { id: "panel", header: t("panel"), cell: ({ name }) => <Name name={name} /> },
      { id: "state", header: t("state"), cell: ({ status }) => <State status={status} /> },
      { id: "values", header: t("values"), cell: ({ values }) => <Values values={values} /> },
      { id: "message", header: t("message"), cell: (panel) => <Message panel={panel} /> },
      { id: "runbook", header: t("runbook"), cell: ({ runbook_id }) => <RunbookLink name={runbook_id} /> },
    ],
    [t],
  );
  return (
    <Section title={t("panels")} query={part} isEmpty={({ panels }) => panels.length === 0} empty={<Empty text={t("noPanels")} />}>
      {({ panels }) => <Rows label={t("panels")} columns={columns} rows={panels} rowKey={({ name }) => name} />}
    </Section>
  );
}

function Message({ panel }: { panel: Panel }) {
  return (
    <>
      {panel.message} <Breaker panel={panel} />
    </>
  );
}

// Name is the text of an area. One of a newer server is its own text.
function Name({ name }: { name: string }) {
  const t = useTranslations("ops.panelNames");
  return <>{Object.hasOwn(en.ops.panelNames, name) ? t(name as Panel["name"]) : name}</>;
}

function State({ status }: { status: string }) {
  const word = useWords();
  return <>{word(status)}</>;
}

function Values({ values }: { values: Panel["values"] }) {
  const t = useTranslations("ops");
  const { number } = useFormat();
  return (
    <>
      {Object.entries(values)
        .map(([name, value]) => t("value", { name: name.replaceAll("_", " "), value: number(value) }))
        .join(", ")}
    </>
  );
}
