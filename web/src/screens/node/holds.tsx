import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import type { Column } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { List } from "./list";

type Hold = Schemas["Hold"];

// Holds are what keeps the node, or a slot of it, out of service.
export function Holds({ holds }: { holds: Hold[] }) {
  const t = useTranslations("node");
  const word = useWords();
  const columns = useMemo(
    (): Column<Hold>[] => [
      { id: "kind", header: t("kind"), cell: ({ kind }) => word(kind) },
      { id: "cause", header: t("cause"), cell: ({ cause }) => word(cause) },
      { id: "owner", header: t("owner"), cell: ({ owner, owner_name }) => owner_name ?? owner },
      { id: "reason", header: t("reason"), cell: ({ reason }) => reason },
      { id: "since", header: t("since"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "ends", header: t("ends"), cell: ({ deadline_at }) => (deadline_at === undefined ? t("noEnd") : <Time at={deadline_at} />) },
    ],
    [t, word],
  );
  return <List title={t("holds")} empty={t("noHolds")} columns={columns} rows={holds} rowKey={({ id }) => id} />;
}
