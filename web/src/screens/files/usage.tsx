import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { api, unwrap } from "../../api/client";
import { Facts } from "../../components/system/facts";
import { Section } from "../../components/system/section";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import { Price } from "./price";

// Usage shows what the files of the project and of the tenant use, and their quotas.
export function Usage({ project }: { project: string }) {
  const t = useTranslations("files");
  const { bytes, number } = useFormat();
  const query = useQuery({
    queryKey: keys.fileUsage(project),
    queryFn: () => unwrap(api.GET("/api/v1/storage/usage", { params: { header: { "X-Project-ID": project } } })),
  });
  return (
    <Section title={t("usage")} query={query}>
      {(usage) => (
        <div className="stack">
          <Facts
            facts={[
              [t("ofProject"), t("of", { used: bytes(usage.bytes + usage.reserved_bytes), quota: bytes(usage.quota_bytes) })],
              [t("ofTenant"), t("of", { used: bytes(usage.tenant.bytes), quota: bytes(usage.tenant.quota_bytes) })],
              [t("objects"), t("of", { used: number(usage.objects), quota: number(usage.quota_objects) })],
            ]}
          />
          <Price usage={usage} />
        </div>
      )}
    </Section>
  );
}
