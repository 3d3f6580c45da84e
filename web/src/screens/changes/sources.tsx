import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Time } from "../../components/system/time";
import type { Part } from "../../query/model";
import { useSession } from "../../session/session";
import { Control } from "./control";

type Source = Schemas["GitSource"];

// short is a commit as Git abbreviates it.
export const short = (commit: string) => commit.slice(0, 12);

// Sources are the Git sources that own desired state. A suspended one applies nothing.
export function Sources({ part }: { part: Part<Schemas["GitSourceList"]> }) {
  const t = useTranslations("sources");
  const texts = useTranslations("desired");
  const { may } = useSession();
  const acts = may("syncGitSource") || may("suspendGitSource") || may("resumeGitSource");
  const columns = useMemo(
    (): Column<Source>[] => [
      { id: "name", header: t("name"), cell: ({ name }) => name },
      { id: "repository", header: t("repository"), cell: ({ repository, ref }) => t("repositoryText", { repository, ref }) },
      { id: "applied", header: t("applied"), cell: ({ applied_commit }) => (applied_commit === undefined ? t("nothing") : short(applied_commit)) },
      { id: "checked", header: t("checked"), cell: ({ checked_at }) => (checked_at === undefined ? t("never") : <Time at={checked_at} />) },
      { id: "state", header: t("state"), cell: ({ suspended }) => (suspended === undefined ? t("runs") : t("suspended", { reason: suspended.reason })) },
      ...(acts ? [{ id: "change", header: texts("change"), cell: (source: Source) => <Control source={source} /> }] : []),
    ],
    [t, texts, acts],
  );
  return (
    <Section title={t("title")} query={part} isEmpty={({ items }) => items.length === 0} empty={<Empty text={t("none")} />}>
      {({ items }) => <Rows label={t("title")} columns={columns} rows={items} rowKey={({ name }) => name} />}
    </Section>
  );
}
