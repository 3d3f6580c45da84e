import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import type { Part } from "../../query/model";
import { short } from "./sources";

type Revision = Schemas["Revision"];

// Revisions are the last fetched commits with their states.
export function Revisions({ part }: { part: Part<Schemas["RevisionList"]> }) {
  const t = useTranslations("changes");
  const format = useFormat();
  const columns = useMemo(
    (): Column<Revision>[] => [
      { id: "revision", header: t("revision"), cell: ({ revision }) => revision, number: true },
      { id: "source", header: t("source"), cell: ({ source }) => source },
      { id: "commit", header: t("commit"), cell: ({ commit }) => short(commit) },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "author", header: t("author"), cell: ({ author }) => author },
      { id: "state", header: t("state"), cell: (revision) => <State revision={revision} /> },
      { id: "objects", header: t("objects"), cell: ({ created, changed, deleted, objects }) => t("objectsText", { created, changed, deleted, objects }) },
      { id: "findings", header: t("findings"), cell: ({ findings }) => format.number(findings.length), number: true },
      { id: "fetched", header: t("fetched"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "plan", header: t("plan"), cell: ({ plan_id }) => (plan_id === undefined ? t("noPlan") : <Link to="/changes/$id" params={{ id: plan_id }}>{t("toPlan")}</Link>) },
    ],
    [t, format],
  );
  return (
    <Section title={t("revisions")} query={part} isEmpty={({ items }) => items.length === 0} empty={<Empty text={t("noRevisions")} />}>
      {({ items }) => <Rows label={t("revisions")} columns={columns} rows={items} rowKey={({ revision }) => revision} />}
    </Section>
  );
}

function State({ revision: { status, current } }: { revision: Revision }) {
  const t = useTranslations("changes");
  const word = useWords();
  return (
    <>
      {word(status)}
      {current && <>, {t("current")}</>}
    </>
  );
}
