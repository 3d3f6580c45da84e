import { useTranslations } from "use-intl";
import { Heading } from "../components/a11y/heading";
import { Restricted } from "../components/system/states";
import { useSession } from "../session/session";
import { Invitations } from "./members/invitations";
import { TenantMembers } from "./members/tenant";

export function Members() {
  const t = useTranslations("members");
  const { may } = useSession();
  return (
    <div className="stack">
      <Heading title={t("title")} />
      {may("listTenantMembers") ? (
        <>
          <TenantMembers />
          <Invitations />
        </>
      ) : (
        <Restricted message={t("restricted")} />
      )}
    </div>
  );
}
