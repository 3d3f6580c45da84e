import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import type { Column } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { List } from "./list";

type Report = Schemas["HealthReport"];
type Certificate = Schemas["NodeCertificate"];

// Reports are the faults that checks have found, with what to do.
export function Reports({ reports }: { reports: Report[] }) {
  const t = useTranslations("node");
  const word = useWords();
  const columns = useMemo(
    (): Column<Report>[] => [
      { id: "check", header: t("check"), cell: ({ check }) => check },
      { id: "target", header: t("target"), cell: ({ target }) => target },
      { id: "level", header: t("level"), cell: ({ level }) => word(level) },
      { id: "message", header: t("message"), cell: ({ message }) => message },
      { id: "advice", header: t("advice"), cell: ({ advice }) => advice },
      { id: "since", header: t("since"), cell: ({ started_at }) => <Time at={started_at} /> },
    ],
    [t, word],
  );
  return <List title={t("checks")} empty={t("noChecks")} columns={columns} rows={reports} rowKey={({ check, target, source, started_at }) => [check, target, source, started_at].join(" ")} />;
}

export function Certificates({ certificates }: { certificates: Certificate[] }) {
  const t = useTranslations("node");
  const word = useWords();
  const columns = useMemo(
    (): Column<Certificate>[] => [
      { id: "serial", header: t("serial"), cell: ({ serial }) => serial },
      { id: "status", header: t("status"), cell: ({ status, reason }) => [word(status), reason].filter(Boolean).join(": ") },
      { id: "expires", header: t("expiresAt"), cell: ({ not_after }) => <Time at={not_after} /> },
    ],
    [t, word],
  );
  return <List title={t("certificates")} empty={t("noCertificates")} columns={columns} rows={certificates} rowKey={({ serial }) => serial} />;
}
