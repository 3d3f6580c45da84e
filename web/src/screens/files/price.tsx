import { useQuery } from "@tanstack/react-query";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Facts } from "../../components/system/facts";
import { Section } from "../../components/system/section";
import { useFormat } from "../../i18n/format";
import { keys, stale } from "../../query/keys";
import { forecast } from "./forecast";

// Price shows what files cost, and what those that the project has now cost in 30 days.
export function Price({ usage }: { usage: Schemas["StorageUsage"] }) {
  const t = useTranslations("files");
  const { money, number } = useFormat();
  const query = useQuery({
    queryKey: keys.storageClasses,
    queryFn: () => unwrap(api.GET("/api/v1/storage-classes", { params: { query: { limit: 200 } } })),
    staleTime: stale.catalogue,
  });
  return (
    <Section title={t("price")} query={query}>
      {({ items }) => {
        const offer = items.find((each) => each.default);
        if (offer === undefined) return <p>{t("noPrice")}</p>;
        return (
          <Facts
            facts={[
              [t("class"), offer.display_name],
              [t("perGib"), money(offer.price)],
              [t("free"), t("gib", { count: number(offer.free_gib) })],
              [t("forecast"), money({ ...offer.price, amount_minor: forecast(usage.bytes, offer) })],
            ]}
          />
        );
      }}
    </Section>
  );
}
